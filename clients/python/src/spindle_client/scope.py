"""What surrounds a piece of code: the run it belongs to, and the tags, user and thread that nested runs inherit.

One context variable holds all of it, so that threads and tasks each have their own. `asyncio` hands it to tasks by
itself; to a thread it goes with `contextvars.copy_context().run`.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Protocol

from .encoding import bounded, bounded_id


class CurrentRun(Protocol):
    """The part of a run that code inside of it refers to."""

    @property
    def id(self) -> str:
        """Its id."""


class Scope:
    """An immutable set of surroundings. A run is one too: that of what happens inside of it."""

    __slots__ = ("agent", "is_set", "run", "tag_names", "thread_id", "user_email")

    def __init__(
        self,
        run: CurrentRun | None = None,
        tag_names: tuple[str, ...] = (),
        user_email: str | None = None,
        thread_id: str | None = None,
        agent: str | None = None,
    ) -> None:
        self.run = run
        self.tag_names = tag_names
        self.user_email = user_email
        self.thread_id = thread_id
        self.agent = agent
        self.is_set = bool(agent or tag_names or user_email or thread_id)
        """Whether there is anything to say beside the run."""

    def describe(self, event: dict[str, Any]) -> None:
        """Writes the surroundings into an event."""
        if self.agent is not None:
            event["agent"] = self.agent
        if self.user_email is not None:
            event["user_email"] = self.user_email
        if self.thread_id is not None:
            event["thread_id"] = self.thread_id
        if self.tag_names:
            event["tags"] = self.tag_names


OUTSIDE = Scope()
CURRENT: ContextVar[Scope] = ContextVar("spindle_scope", default=OUTSIDE)


def enter(scope: Scope) -> Token[Scope]:
    """Makes these the surroundings, until `leave`."""
    return CURRENT.set(scope)


def leave(token: Token[Scope], before: Scope) -> None:
    """Makes the surroundings what they were."""
    try:
        CURRENT.reset(token)
    except ValueError:
        # Entered in one context and left in another, as when a generator is closed by other code.
        CURRENT.set(before)


class Setting:
    """`with` this, runs have these tags, this user or this thread."""

    def __init__(self, *, tags: tuple[object, ...] = (), user_email: object = None, thread_id: object = None) -> None:
        self._tags = tags
        self._user_email = user_email
        self._thread_id = thread_id
        self._entered: list[tuple[Token[Scope], Scope]] = []

    def __enter__(self) -> Setting:
        before = CURRENT.get()
        try:
            made = Scope(
                before.run,
                tuple(dict.fromkeys([*before.tag_names, *(bounded(tag) for tag in self._tags)])),
                bounded(self._user_email) if self._user_email else before.user_email,
                bounded_id(self._thread_id) if self._thread_id else before.thread_id,
                before.agent,
            )
        except Exception:
            # An object that cannot be text: the surroundings stay as they are.
            made = before
        self._entered.append((enter(made), before))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        token, before = self._entered.pop()
        leave(token, before)
