"""Warnings of the library: each kind is logged at once, and then at most once a minute."""

from __future__ import annotations

import logging
import time

LOGGER = logging.getLogger("spindle_client")
SILENCE_S = 60.0


class Voice:
    """Logs, but not always the same. Never a secret, never what a run held."""

    def __init__(self, silence_s: float = SILENCE_S) -> None:
        self._silence_s = silence_s
        self._told: dict[str, float] = {}

    def say(self, kind: str, text: str, *values: object) -> None:
        """Warns, unless this kind of trouble was told within the last minute. Never raises."""
        try:
            now = time.monotonic()
            told = self._told.get(kind)
            if told is not None and now - told < self._silence_s:
                return
            self._told[kind] = now
            LOGGER.warning(text, *values)
        except Exception:
            # A handler of the application failed; there is no other place to report it.
            return
