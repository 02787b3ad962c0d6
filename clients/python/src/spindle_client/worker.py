"""The thread that sends: it takes batches from the buffer on an interval, and everything when it is asked to."""

from __future__ import annotations

import random
import threading
import time
from queue import Empty, SimpleQueue

from .buffer import Buffer, Event
from .encoding import Encoder, TooLargeError
from .http import Answer, Connection, RefusedError
from .log import Voice
from .settings import Settings

RETRY_AFTER_MOST_S = 30.0
"""Longer than this nothing is waited for, whatever the server asks: the queue fills meanwhile."""
NICE_AFTER_S = 0.001
"""So long the thread makes JSON before it lets the application's threads run."""
NICE_FOR_S = 0.0001
START_AGAIN_AFTER_S = 5.0
"""How long to wait after the system refused a thread."""


class Worker:
    """Sends what waits in a buffer. `wake` and `flush` are for any thread, also inside a signal handler."""

    def __init__(self, settings: Settings, buffer: Buffer, voice: Voice) -> None:
        self._settings = settings
        self._buffer = buffer
        self._voice = voice
        self._connection = Connection(settings.url, settings.api_key)
        self._encoder = Encoder(settings.value_bytes, settings.batch_bytes - len(_ENVELOPE))
        # `SimpleQueue` may be used by a signal handler that interrupted it; `threading.Event` may not.
        self._requests: SimpleQueue[threading.Event | None] = SimpleQueue()
        self._is_woken = False
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._start_not_before = 0.0
        self._sending = threading.Lock()
        self._stop = threading.Event()
        self._carried: bytes | None = None
        self._deadline = float("inf")
        self._told_dropped = 0
        self.in_flight = 0
        self.sent = 0
        self.accepted = 0
        self.rejected = 0
        self.dropped_failed = 0
        self.dropped_too_large = 0
        self.dropped_unreadable = 0
        self.retries = 0
        self.requests = 0

    # What the application's threads call.

    def wake(self) -> None:
        """Has a batch sent now rather than at the next interval."""
        if not self._is_woken:
            self._is_woken = True
            self._requests.put(None)

    @property
    def is_started(self) -> bool:
        """Whether there is a thread; after a fork there is none in the child."""
        return self._thread is not None

    def start(self) -> None:
        """Starts the thread, unless there is one. Where the system gives none, this is tried again later."""
        if time.monotonic() < self._start_not_before or not self._start_lock.acquire(blocking=False):
            return
        try:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="spindle-client", daemon=True)
                thread.start()
                self._thread = thread
        except RuntimeError:
            # No more threads, or the interpreter is ending: the last flush sends from the thread that asks for it.
            self._start_not_before = time.monotonic() + START_AGAIN_AFTER_S
        finally:
            self._start_lock.release()

    def flush(self, timeout_s: float) -> bool:
        """Waits until everything made before was sent or dropped; False when the time is over before.

        A batch that waits to be sent again is so now, for the last time.
        """
        thread = self._thread
        if thread is threading.current_thread():
            return False
        if thread is None or not thread.is_alive():
            return self._flush_here(timeout_s)
        until = time.monotonic() + timeout_s
        done = threading.Event()
        self._requests.put(done)
        while not done.wait(min(0.1, max(0.0, until - time.monotonic()))):
            if time.monotonic() >= until:
                return False
            if not thread.is_alive():
                # It was told to end and did, without looking at this request.
                return self._flush_here(until - time.monotonic())
        return True

    def stop(self) -> None:
        """Ends the thread once it has sent what waits."""
        self._stop.set()
        self._requests.put(None)

    def forget_connection(self) -> None:
        """In the child of a fork: the connection is the parent's."""
        self._connection.forget()

    def _flush_here(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        if not self._sending.acquire(timeout=max(0.0, timeout_s)):
            return False
        try:
            self._deadline = deadline
            self._send_until(self._buffer.queued)
            return self.pending == 0
        finally:
            self._deadline = float("inf")
            self._sending.release()

    @property
    def pending(self) -> int:
        """Events that wait or are on their way."""
        return len(self._buffer) + self.in_flight

    # What the thread does.

    def _run(self) -> None:
        while True:
            try:
                asked = self._requests.get(timeout=self._settings.flush_interval_s)
            except Empty:
                asked = None
            self._is_woken = False
            try:
                with self._sending:
                    is_last = self._stop.is_set()
                    # One batch in an interval; everything while a caller waits, and while batches are full.
                    self._send_until(self._buffer.queued if asked or is_last else self._buffer.taken + 1)
                    while self._holds_a_batch() and self._requests.empty():
                        self._send_until(self._buffer.taken + 1)
                self._tell_drops()
            except Exception as error:
                self._voice.say("fault", "the sending thread met a fault and goes on: %s", type(error).__name__)
                carried = 0 if self._carried is None else 1
                self.dropped_failed += self.in_flight - carried
                self.in_flight = carried
                is_last = self._stop.is_set()
            if asked is not None:
                asked.set()
            if is_last and self.pending == 0:
                self._connection.close()
                return

    def _holds_a_batch(self) -> bool:
        settings = self._settings
        return len(self._buffer) >= settings.batch_events or self._buffer.bytes >= settings.batch_bytes

    def _send_until(self, taken: int) -> None:
        """Sends batches until so many events were taken from the buffer in all, and what was taken is gone."""
        while self._buffer.taken < taken or self._carried is not None:
            lines = self._batch()
            if lines:
                self._deliver(lines)
            elif len(self._buffer) == 0 and self._carried is None:
                return
            if time.monotonic() >= self._deadline:
                return

    def _batch(self) -> list[bytes]:
        """The next events as JSON, as many as one request takes."""
        lines: list[bytes] = []
        size = len(_ENVELOPE)
        if self._carried is not None:
            lines.append(self._carried)
            size += len(self._carried) + 1
            self._carried = None
        nice_at = time.monotonic() + NICE_AFTER_S
        while len(lines) < self._settings.batch_events:
            event = self._buffer.take()
            if event is None:
                break
            self.in_flight += 1
            line = self._encode(event)
            if line is None:
                self.in_flight -= 1
                continue
            size += len(line) + 1
            if lines and size > self._settings.batch_bytes:
                self._carried = line
                break
            lines.append(line)
            if time.monotonic() > nice_at:
                time.sleep(NICE_FOR_S)
                nice_at = time.monotonic() + NICE_AFTER_S
        return lines

    def _encode(self, event: Event) -> bytes | None:
        try:
            return self._encoder.encode(event)
        except TooLargeError:
            self.dropped_too_large += 1
            self._voice.say("too_large", "an event is larger than %d bytes and was dropped", self._settings.batch_bytes)
        except Exception as error:
            self.dropped_unreadable += 1
            self._voice.say(
                "unreadable", "an event cannot be written as JSON and was dropped: %s", type(error).__name__
            )
        return None

    def _deliver(self, lines: list[bytes]) -> None:
        """Sends a batch, again if that is set; what fails for good is dropped and counted."""
        count = len(lines)
        body = b'{"events":[' + b",".join(lines) + b"]}"
        attempt = 0
        is_last = False
        while True:
            try:
                answer = self._post(body)
                break
            except RefusedError as refused:
                wait_s = None if is_last else self._wait_before_retry(refused, attempt)
                if wait_s is None:
                    self.dropped_failed += count
                    self.in_flight -= count
                    self._voice.say("failed", "a batch of %d events was dropped: %s", count, refused)
                    return
                attempt += 1
                self.retries += 1
                is_last = self._is_asked_within(wait_s)
        if answer.accepted + answer.rejected != count:
            # A server that counts differently still took the batch; the sums of this side stay.
            answer = Answer(max(0, count - answer.rejected), min(count, answer.rejected), answer.first_error)
        self.sent += count
        self.in_flight -= count
        self.accepted += answer.accepted
        self.rejected += answer.rejected
        if answer.rejected:
            self._voice.say(
                "rejected", "the server refused %d of %d events: %s", answer.rejected, count, answer.first_error
            )

    def _post(self, body: bytes) -> Answer:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise RefusedError("the time of the last flush is over", is_retryable=False)
        self.requests += 1
        return self._connection.post(body, min(self._settings.timeout_s, left_s))

    def _wait_before_retry(self, refused: RefusedError, attempt: int) -> float | None:
        """Seconds until the batch is sent again; None when it is not."""
        if not refused.is_retryable or attempt >= self._settings.retries or self._stop.is_set():
            return None
        wait_s = refused.retry_after_s
        if wait_s is None:
            # Half of it by chance, so that many processes do not come back at the same moment.
            wait_s = self._settings.retry_delay_s * 2 ** min(attempt, 16) * (0.5 + random.random() / 2)
        wait_s = min(wait_s, RETRY_AFTER_MOST_S)
        return wait_s if time.monotonic() + wait_s < self._deadline else None

    def _is_asked_within(self, wait_s: float) -> bool:
        """Waits for this time, or until a flush or the end is requested; returns whether it was."""
        until = time.monotonic() + wait_s
        found: list[threading.Event | None] = []
        try:
            while not self._stop.is_set() and not any(found):
                left_s = until - time.monotonic()
                if left_s <= 0:
                    return False
                found.append(self._requests.get(timeout=left_s))
            return True
        except Empty:
            return False
        finally:
            # They are answered where all requests are: after this batch.
            for asked in found:
                self._requests.put(asked)

    def _tell_drops(self) -> None:
        """Says once in a while that the queue was full: the threads that found it so have no time for that."""
        dropped = self._buffer.dropped_full
        if dropped > self._told_dropped:
            self._told_dropped = dropped
            self._voice.say("queue_full", "the queue was full: %d events were dropped so far", dropped)


_ENVELOPE = b'{"events":[]}'
