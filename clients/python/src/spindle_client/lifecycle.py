"""What happens to clients when their process ends or forks: the last flush, and a fresh start in the child."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, Protocol

from . import log


class Ending(Protocol):
    """What a client does at these moments."""

    def wake(self) -> None:
        """Has what waits sent soon, and does not wait for that; for any moment, also inside a signal handler."""

    def flush_before_exit(self, until: float) -> None:
        """Sends what waits, at most until a moment of the monotonic clock."""

    def after_fork_in_child(self) -> None:
        """Resets to an empty queue: the queued events belong to the parent."""

    @property
    def exit_timeout_s(self) -> float:
        """Seconds the last flush may take."""


_clients: list[Ending] = []
_previous: Any = None
_has_handler = False
_finalizer_of_process: int | None = None


def watch(client: Ending) -> None:
    """Has the client told of the end of the process, of SIGTERM and of forks."""
    _clients.append(client)
    _watch_sigterm()


def leave(client: Ending) -> None:
    """Ends the watch over a client that has nothing left to send."""
    if client in _clients:
        _clients.remove(client)


def watch_process() -> None:
    """Called with the first event of a process: children of `multiprocessing` end without `atexit`."""
    global _finalizer_of_process
    process = os.getpid()
    if _finalizer_of_process == process:
        return
    _finalizer_of_process = process
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is None or multiprocessing.parent_process() is None:
        return
    try:
        from multiprocessing import util

        util.Finalize(None, flush_all, exitpriority=-100)
    except Exception:
        log.LOGGER.debug("no finalizer in this child process", exc_info=True)


def flush_all() -> None:
    """The last flush of all clients, in the time of the most patient."""
    try:
        clients = list(_clients)
        until = time.monotonic() + max((client.exit_timeout_s for client in clients), default=0.0)
        for client in clients:
            client.flush_before_exit(until)
    except Exception:
        log.LOGGER.debug("the last flush failed", exc_info=True)


def _watch_sigterm() -> None:
    """Takes SIGTERM over, once, in the main thread, unless it is ignored or handled outside of Python."""
    global _previous, _has_handler
    if _has_handler or threading.current_thread() is not threading.main_thread():
        return
    try:
        previous = signal.getsignal(signal.SIGTERM)
        if previous is None or previous is signal.SIG_IGN:
            return
        signal.signal(signal.SIGTERM, _on_sigterm)
        _previous = previous
        _has_handler = True
    except (ValueError, OSError, AttributeError):
        # A sub-interpreter, or a system without signals.
        return


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    """Sends what waits, and does what would have happened without this library."""
    if callable(_previous):
        # The application ends itself, or does not: it is not kept from that, and its exit flushes.
        for client in list(_clients):
            client.wake()
        _previous(number, frame)
    else:
        flush_all()
        # Ends by the signal itself, so that the parent process sees why it ended.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _after_fork_in_child() -> None:
    for client in list(_clients):
        try:
            client.after_fork_in_child()
        except Exception:
            log.LOGGER.debug("a client did not survive a fork", exc_info=True)


# At import, so that what the application registers later runs earlier, and its events are still sent.
atexit.register(flush_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
