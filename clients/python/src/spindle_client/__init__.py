"""Reports the runs of AI agents to Spindle, without slowing them.

    import spindle_client as spindle

    @spindle.tool
    def weather(city: str) -> str: ...

    @spindle.agent("weather-agent")
    def answer(question: str) -> str: ...

The functions of this module use one client, made when it is first needed from the environment (`SPINDLE_URL`,
`SPINDLE_API_KEY`, `SPINDLE_APP_ID`) or by `configure`. Nothing here raises into the application or waits for the
server, but `flush`.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from .client import Client
from .run import Run, RunType
from .scope import CURRENT, Setting
from .settings import Settings
from .stats import Dropped, Stats
from .step import Step, Steps
from .version import VERSION

__version__ = VERSION
__all__ = [
    "Client",
    "Dropped",
    "Run",
    "RunType",
    "Settings",
    "Stats",
    "Step",
    "agent",
    "chain",
    "chat",
    "client",
    "configure",
    "current_run",
    "feedback",
    "flush",
    "llm",
    "saved",
    "start",
    "stats",
    "tags",
    "thread",
    "tool",
    "unsaved",
    "user",
]

_client: Client | None = None
# May be entered again: making a client may run a finalizer of the application that reports.
_lock = threading.RLock()


def _unlock() -> None:
    """In the child of a fork: the thread that held the lock is not there to open it."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


def configure(**settings: Any) -> Client:
    """Makes the client of this module with these settings; see `Settings` for all of them.

    Call it once, before the first event. What an earlier client has still to send is sent in the background.
    """
    global _client
    with _lock:
        before, _client = _client, Client(**settings)
        made = _client
    if before is not None:
        before.close(timeout_s=0)
    return made


def client() -> Client:
    """The client of this module."""
    return _client or _first()


def _first() -> Client:
    global _client
    with _lock:
        if _client is None:
            made = Client()
            if _client is None:
                _client = made
            else:
                made.close(timeout_s=0)
        return _client


agent = Steps(client, "agent")
"""A run of an agent, as `@agent`, `@agent("name")` or `with agent("name") as run:`; what is done inside is below it."""
chain = Steps(client, "chain")
"""Several steps that belong together; used like `agent`."""
tool = Steps(client, "tool")
"""A call of a tool; used like `agent`."""
llm = Steps(client, "llm")
"""A call of a model; used like `agent`. Say which model with `model=`, and what it used with `run.usage`."""


def start(type: RunType, name: str | None = None, **options: Any) -> Run:
    """Begins a run that `run.end` or `run.fail` ends; see `Client.start`."""
    return client().start(type, name, **options)


def chat(role: str, content: str, thread_id: str | None = None, *, run: Run | str | None = None) -> str | None:
    """One message of a conversation: what the `user` or the `assistant` said; see `Client.chat`."""
    return client().chat(role, content, thread_id, run=run)


def feedback(run: Run | str | None, rating: str, comment: str | None = None) -> None:
    """What a person thinks of a run or message: `positive` or `negative`, and why. `None` is the current run."""
    client().feedback(run, rating, comment)


def saved(run: Run | str | None = None) -> None:
    """Keeps a run for longer than others and puts it into the dataset. Without one, the current run."""
    client().saved(run)


def unsaved(run: Run | str | None = None) -> None:
    """Takes `saved` back."""
    client().unsaved(run)


def tags(*names: str) -> Setting:
    """`with tags("beta"):` all runs inside have these tags."""
    return Setting(tags=names)


def user(email: str) -> Setting:
    """`with user("ada@example.com"):` all runs and messages inside are of this user."""
    return Setting(user_email=email)


def thread(thread_id: str) -> Setting:
    """`with thread("talk-1"):` all runs and messages inside belong to this conversation."""
    return Setting(thread_id=thread_id)


def current_run() -> Run | None:
    """The run that this code is inside of."""
    run = CURRENT.get().run
    return run if isinstance(run, Run) else None


def flush(timeout_s: float = 5.0) -> bool:
    """Waits until everything reported so far is sent or dropped; False when that takes longer."""
    return client().flush(timeout_s)


def stats() -> Stats:
    """What became of the events so far."""
    return client().stats()
