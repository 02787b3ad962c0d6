"""The queue between the application's threads and the one that sends: bounded in events and bytes, and it counts.

Any number of producers call `put`; one consumer at a time calls `take`. Two things make it unlike `queue.Queue`:

- A producer may be interrupted by itself: a signal handler or a finalizer that runs inside `put` may call `put`.
  The lock can be entered again for that, and the inner event waits until the outer one is counted.
- The consumer needs no lock. A signal handler can so wait for the consumer even if it interrupted a `put`.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

Event = tuple[dict[str, Any], str, float, dict[str, Any], int]
"""What all events of a run say, the phase for the end of the name, the time in seconds, what only this one says, and
about how many bytes it takes in memory."""


class Buffer:
    """Holds events until they are taken; what does not fit is dropped and counted."""

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._items: deque[Event] = deque()
        self._late: deque[Event] = deque()
        self._lock = threading.RLock()
        self._is_busy = False
        # Written by producers under the lock, and by the consumer alone: so neither loses what the other counts.
        self._bytes_in = 0
        self._bytes_out = 0
        self.made = 0
        self.taken = 0
        self.dropped_full = 0
        self.dropped_closed = 0
        self.is_closed = False

    def put(self, event: Event) -> int:
        """Adds an event if there is room for it; returns how many wait."""
        with self._lock:
            if self._is_busy:
                self._late.append(event)
                return 0
            self._is_busy = True
            try:
                self._add(event)
                while self._late:
                    self._add(self._late.popleft())
            finally:
                self._is_busy = False
        return len(self._items)

    def _add(self, event: Event) -> None:
        self.made += 1
        bytes_in = self._bytes_in + event[4]
        if self.is_closed:
            self.dropped_closed += 1
        elif len(self._items) >= self._max_events or bytes_in - self._bytes_out > self._max_bytes:
            self.dropped_full += 1
        else:
            self._bytes_in = bytes_in
            self._items.append(event)

    def take(self) -> Event | None:
        """Takes the oldest event. Only one thread may be doing this at a time."""
        try:
            event = self._items.popleft()
        except IndexError:
            return None
        self._bytes_out += event[4]
        self.taken += 1
        return event

    def close(self) -> None:
        """Lets nothing in any more; what waits can still be taken."""
        self.is_closed = True

    def __len__(self) -> int:
        return len(self._items)

    @property
    def bytes(self) -> int:
        """Bytes that wait."""
        return self._bytes_in - self._bytes_out

    @property
    def queued(self) -> int:
        """Events that were let in."""
        return self.made - self.dropped_full - self.dropped_closed
