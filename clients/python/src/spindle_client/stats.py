"""What became of the events, as numbers an application can read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dropped:
    """Events that never reached the server, by reason."""

    queue_full: int = 0
    """Made while as many waited as may wait."""
    too_large: int = 0
    """Larger than one event may be, even with input and output cut."""
    failed: int = 0
    """In a batch that the server did not take, after the retries there are."""
    closed: int = 0
    """Made after `close`."""
    unreadable: int = 0
    """Could not be written as JSON; a fault of this library."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.queue_full + self.too_large + self.failed + self.closed + self.unreadable


@dataclass(frozen=True)
class Stats:
    """Counts since the client was made, or since the fork that made this process.

    Always `made == pending + sent + dropped.total`, once no thread is in the middle of a call.
    """

    made: int
    """Events that calls of the application made."""
    queued: int
    """Of these, how many were let into the queue."""
    pending: int
    """In the queue, or in a request that has no answer yet."""
    sent: int
    """In batches that the server answered: `accepted + rejected`."""
    accepted: int
    """Kept by the server, by its own count."""
    rejected: int
    """Refused by the server one by one; the log has the first reason."""
    dropped: Dropped
    retries: int
    """Requests that were made again."""
    requests: int
    """Requests made, with those again."""
