"""A client: settings, a queue and the thread that sends; the application's calls make events here."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from . import lifecycle
from . import run as runs
from . import scope as scopes
from .buffer import Buffer, Event
from .encoding import bounded, bounded_id
from .log import LOGGER, Voice
from .run import EVENT_BYTES, NOTHING, Run, RunType, new_id
from .settings import resolve
from .stats import Dropped, Stats
from .step import Steps
from .version import ROOT_METADATA
from .worker import Worker


class Client:
    """Reports to one server with one key. All methods are for any thread, never raise and never wait for the server.

    Keywords are the fields of `Settings`; what is not given comes from the environment or is the default.
    An invalid setting is logged and replaced by its default.
    """

    def __init__(self, **settings: Any) -> None:
        self.settings, faults = resolve(settings)
        for fault in faults:
            LOGGER.error("settings: %s", fault)
        self.enabled = self.settings.enabled
        """False where every call does nothing."""
        self.app_id = bounded_id(self.settings.app_id) if self.settings.app_id else None
        self.captures_input = self.settings.capture_input
        self.captures_output = self.settings.capture_output
        self.value_bytes = self.settings.value_bytes
        self.process = 0
        """Counts the forks this process came by: a run is ended only by the process that began it."""
        self._voice = Voice()
        self._chat_ms = 0
        self._is_started = False
        self._make()
        self.agent = Steps(lambda: self, "agent")
        """A run of an agent: what it does inside are runs below it."""
        self.chain = Steps(lambda: self, "chain")
        """Several steps that belong together."""
        self.tool = Steps(lambda: self, "tool")
        """A call of a tool."""
        self.llm = Steps(lambda: self, "llm")
        """A call of a model: say which with `model=`, and what it used with `run.usage`."""
        if self.enabled:
            lifecycle.watch(self)

    def _make(self) -> None:
        self._buffer = Buffer(self.settings.queue_events, self.settings.queue_bytes)
        self._worker = Worker(self.settings, self._buffer, self._voice)
        self._batch_events = self.settings.batch_events
        self._is_started = False

    def start(
        self,
        type: RunType,
        name: str | None = None,
        *,
        input: Any = NOTHING,
        model: str | None = None,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        parent: Run | None = None,
    ) -> Run:
        """Begins a run that `run.end` or `run.fail` ends, wherever that is; code in between is not inside of it.

        Its parent is the current run unless another one is given.
        """
        around = scopes.CURRENT.get() if parent is None else parent
        try:
            run = Run(self, type, bounded(name or type), around, around.run)
            if self.enabled:
                if tags:
                    run.tags(*tags)
                if metadata:
                    run.metadata(**(metadata if around.run else {**ROOT_METADATA, **metadata}))
                if model:
                    run.model = model
                run.begin(input)
            return run
        except Exception as error:
            self.fault(error)
            return Run.silent(self)

    # Events that are no part of a run.

    def chat(
        self, role: str, content: str, thread_id: str | None = None, *, run: Run | str | None = None
    ) -> str | None:
        """One message of a conversation: what the `user` or the `assistant` said.

        The thread, the user and the agent are those around, unless given; the run is the current one, so that the
        thread leads to it. Returns the id that `feedback` on this message takes.
        """
        try:
            scope = scopes.CURRENT.get()
            run_id = id_of(run or scope.run) or new_id()
            event: dict[str, Any] = {"role": role, "content": content if isinstance(content, str) else str(content)}
            scope.describe(event)
            if thread_id:
                event["thread_id"] = bounded_id(thread_id)
            self._custom("chat", run_id, event)
            return run_id
        except Exception as error:
            self.fault(error)
            return None

    def feedback(self, run: Run | str | None, rating: str, comment: str | None = None) -> None:
        """What a person thinks of a run or message: `positive` or `negative`, and why. `None` is the current run."""
        event: dict[str, Any] = {"rating": rating}
        if comment is not None:
            event["comment"] = comment
        self._judge("feedback", run, event)

    def saved(self, run: Run | str | None = None) -> None:
        """Keeps a run for longer than others and puts it into the dataset, once a person has signed it off."""
        self._judge("saved", run, {})

    def unsaved(self, run: Run | str | None = None) -> None:
        """Takes `saved` back."""
        self._judge("unsaved", run, {})

    def _judge(self, name: str, run: Run | str | None, event: dict[str, Any]) -> None:
        try:
            run_id = id_of(run or scopes.CURRENT.get().run)
            if run_id is None:
                self._voice.say(name, "%s: no run was given and there is no current run; nothing is reported", name)
                return
            self._custom(name, run_id, event)
        except Exception as error:
            self.fault(error)

    def _custom(self, name: str, run_id: str, event: dict[str, Any]) -> None:
        if not self.enabled:
            return
        event["name"] = name
        event["run_id"] = run_id
        if self.app_id is not None:
            event["app_id"] = self.app_id
        limit = self.value_bytes
        size = EVENT_BYTES
        for field in ("content", "comment"):
            text = event.get(field)
            if isinstance(text, str):
                event[field] = text if len(text) <= limit else text[:limit]
                size += 4 * len(event[field])
        self.put((event, "", self._chat_time() if name == "chat" else time.time(), {}, size))

    def _chat_time(self) -> float:
        """Now, or a millisecond after the last message: the server orders messages by time, to the millisecond.

        A burst of them goes ahead of the clock by a second at most.
        """
        now_ms = round(time.time() * 1000)
        self._chat_ms = now_ms if self._chat_ms >= now_ms + 1000 else max(now_ms, self._chat_ms + 1)
        return self._chat_ms / 1000

    # The queue.

    def put(self, event: Event) -> None:
        """Queues an event."""
        waiting = self._buffer.put(event)
        if not self._is_started:
            self._start()
        elif waiting >= self._batch_events:
            self._worker.wake()

    def _start(self) -> None:
        self._worker.start()
        self._is_started = self._worker.is_started
        lifecycle.watch_process()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Waits until everything reported so far is sent or dropped; False when that takes longer than `timeout_s`."""
        try:
            return self._worker.flush(timeout_s) if self.enabled else True
        except Exception as error:
            self.fault(error)
            return False

    def close(self, timeout_s: float = 5.0) -> bool:
        """Flushes and ends the thread. What is reported later is dropped and counted."""
        self._buffer.close()
        is_flushed = self.flush(timeout_s)
        self._worker.stop()
        if is_flushed:
            lifecycle.leave(self)
        return is_flushed

    def stats(self) -> Stats:
        """What became of the events so far."""
        buffer, worker = self._buffer, self._worker
        return Stats(
            made=buffer.made,
            queued=buffer.queued,
            pending=worker.pending,
            sent=worker.sent,
            accepted=worker.accepted,
            rejected=worker.rejected,
            dropped=Dropped(
                queue_full=buffer.dropped_full,
                too_large=worker.dropped_too_large,
                failed=worker.dropped_failed,
                closed=buffer.dropped_closed,
                unreadable=worker.dropped_unreadable,
            ),
            retries=worker.retries,
            requests=worker.requests,
        )

    # The life of the process.

    @property
    def exit_timeout_s(self) -> float:
        """Seconds the last flush may take."""
        return self.settings.exit_timeout_s

    def wake(self) -> None:
        """Has a batch sent now rather than at the next interval, and does not wait for it."""
        self._worker.wake()

    def flush_before_exit(self, until: float) -> None:
        """The last flush, at most until a moment of the monotonic clock."""
        if self._worker.pending == 0:
            return
        self.flush(max(0.0, until - time.monotonic()))
        if self._worker.pending:
            LOGGER.warning("%d events were not sent before the process ended", self._worker.pending)

    def after_fork_in_child(self) -> None:
        """Resets to an empty queue: the queued events belong to the parent."""
        runs.start_anew()
        self.process += 1
        self._worker.forget_connection()
        self._voice = Voice()
        self._make()

    def fault(self, error: BaseException) -> None:
        """An error of this library or of an object it looked at; the application never sees it."""
        self._voice.say("fault", "could not report: %s", type(error).__name__)


def id_of(run: Run | scopes.CurrentRun | str | None) -> str | None:
    """The id of a run."""
    if run is None:
        return None
    return run.id if isinstance(run, Run) else bounded_id(run)
