"""From an event in the queue to its JSON: what is done in the background because it takes time."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from datetime import datetime, timezone

from . import capture, stack
from .buffer import Event

NAME_BYTES = 480
"""Bytes of a name, an app, a tag; the server takes 512 with the phase of the event."""
ID_BYTES = 256
TAGS = 64
FROZEN = ("input", "output", "metadata")
"""The fields that hold frozen values."""
CUT_BYTES = 16 << 10
"""To how much input, output and metadata are cut in an event that is too large as a whole."""

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode


class TooLargeError(ValueError):
    """The event does not fit, even with everything cut."""


class Encoder:
    """Gives each event an id of its own and writes it: what arrives twice is one, and two that say the same are two."""

    def __init__(self, value_bytes: int, event_bytes: int) -> None:
        self._value_bytes = value_bytes
        self._event_bytes = event_bytes
        self._process = os.urandom(10).hex()
        self._numbers = itertools.count(1)
        self._second = 0
        self._second_text = iso(0)[:-4]

    def encode(self, event: Event) -> bytes:
        """The JSON of an event, at most as long as one may be."""
        base, phase, seconds, more, _ = event
        made = {**base, **more}
        made["name"] += phase
        made["timestamp"] = self._time(seconds)
        made["event_id"] = f"{self._process}{next(self._numbers):012x}"
        for name in FROZEN:
            if name in made:
                made[name] = capture.thaw(made[name], self._value_bytes)
        error = made.get("error")
        if error is not None and "stack" in error:
            made["error"] = {**error, "stack": stack.written(error["stack"])}
        # Halves of surrogate pairs are text in Python and nowhere else.
        line = _encode(made).encode("utf-8", "replace")
        if len(line) > self._event_bytes:
            # Text may be several times longer as JSON than in memory.
            for name in FROZEN:
                if name in made:
                    made[name] = capture.thaw_cut(more[name], min(CUT_BYTES, self._value_bytes))
            line = _encode(made).encode("utf-8", "replace")
        if len(line) > self._event_bytes:
            raise TooLargeError(f"an event of {len(line)} bytes")
        return line

    def _time(self, seconds: float) -> str:
        """`iso`, remembering the second: most events are of the same one."""
        milliseconds = round(seconds * 1000)
        second = milliseconds // 1000
        if second != self._second:
            self._second, self._second_text = second, iso(second)[:-4]
        return f"{self._second_text}{milliseconds % 1000:03d}Z"


def iso(seconds: float) -> str:
    """A time since 1970 as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")[:-6] + "Z"


def bounded_id(text: object) -> str:
    """An id the server takes. One that is too long ends with its hash, so that different ones stay different."""
    name = text if type(text) is str else str(text)
    if len(name) * 4 <= ID_BYTES:
        return name
    encoded = name.encode("utf-8", "replace")
    if len(encoded) <= ID_BYTES:
        return name
    return encoded[: ID_BYTES - 40].decode("utf-8", "ignore") + "…" + hashlib.sha256(encoded).hexdigest()[:32]


def bounded(text: object, limit: int = NAME_BYTES) -> str:
    """A name the server takes: text of at most so many bytes."""
    name = text if type(text) is str else str(text)
    if len(name) * 4 > limit:
        encoded = name.encode("utf-8", "replace")
        if len(encoded) > limit:
            return encoded[:limit].decode("utf-8", "ignore")
    return name
