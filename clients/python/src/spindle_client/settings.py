"""The settings of a client: defaults, the environment, and what the application gives."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlsplit

KIB = 1 << 10
MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """Every setting with its unit and its default.

    A default that is read from the environment is read when the settings are made, not when the module is imported.
    """

    url: str = "http://127.0.0.1:7070"
    """Where the server is; `SPINDLE_URL`. A path in it goes before `/api/report`."""
    api_key: str | None = None
    """The key that may report; `SPINDLE_API_KEY`. Never logged."""
    app_id: str | None = None
    """The application inside the key's project; `SPINDLE_APP_ID`. Without it the server takes the project's own."""
    enabled: bool = True
    """False makes every call do nothing at all; `SPINDLE_ENABLED=0`."""
    flush_interval_s: float = 0.5
    """Seconds between two flushes. A queue that holds a full batch is flushed at once."""
    queue_events: int = 10_000
    """Events that may wait; what comes while so many wait is dropped and counted."""
    queue_bytes: int = 16 * MIB
    """Bytes that may wait, as they lie in memory."""
    batch_events: int = 500
    """Events of one request."""
    batch_bytes: int = 1 * MIB
    """Bytes of JSON of one request, and of one event: what the server takes."""
    timeout_s: float = 5.0
    """Seconds a request may take in all."""
    retries: int = 0
    """How often a failed batch is sent again before it is dropped."""
    retry_delay_s: float = 0.5
    """Seconds before the first of them; doubles each time, unless the server says `Retry-After`."""
    exit_timeout_s: float = 2.0
    """Seconds the last flush may take at exit and on SIGTERM."""
    capture_input: bool = True
    """Whether what goes into runs is reported."""
    capture_output: bool = True
    """Whether what comes out of runs is reported."""
    value_bytes: int = 256 * KIB
    """Size up to which an input or output is kept whole; what is larger is cut, visibly."""


LOWEST: dict[str, float] = {
    "flush_interval_s": 0.01,
    "queue_events": 1,
    "queue_bytes": 1 * KIB,
    "batch_events": 1,
    "batch_bytes": 1 * KIB,
    "timeout_s": 0.01,
    "retries": 0,
    "retry_delay_s": 0.0,
    "exit_timeout_s": 0.0,
    "value_bytes": 64,
}
"""Below these a setting makes no sense."""

HIGHEST: dict[str, float] = {"batch_bytes": 8 * MIB, "retries": 100}
"""A body may have 10 MiB on the server; a batch that is retried for ever keeps all others waiting."""


def resolve(given: dict[str, Any]) -> tuple[Settings, list[str]]:
    """The settings in force, and a sentence for each that is wrong.

    A setting that is wrong takes its default; a wrong address disables the client, as there is nowhere to send to.
    `None` means that a setting is not given.
    """
    faults: list[str] = []
    settings = replace(Settings(), **from_environment())
    known = {field.name for field in fields(Settings)}
    for name, value in given.items():
        if name not in known:
            faults.append(f"there is no setting {name}; there are {', '.join(sorted(known))}")
        elif value is not None:
            fault = fault_of(name, value)
            if fault:
                faults.append(fault)
            else:
                settings = replace(settings, **{name: value})
    if settings.api_key and not (settings.api_key.isascii() and settings.api_key.isprintable()):
        # It is said nowhere what it is: a key is a secret even when it is wrong.
        faults.append("api_key must be printable ASCII")
        settings = replace(settings, api_key=None)
    fault = fault_of_url(settings.url)
    if fault:
        faults.append(fault)
        settings = replace(settings, url=Settings.url, enabled=False)
    return settings, faults


def from_environment() -> dict[str, Any]:
    """What the environment says; an empty variable says nothing."""
    found: dict[str, Any] = {}
    for name in ("url", "api_key", "app_id"):
        value = os.environ.get("SPINDLE_" + name.upper(), "").strip()
        if value:
            found[name] = value
    enabled = os.environ.get("SPINDLE_ENABLED", "").strip().lower()
    if enabled:
        found["enabled"] = enabled not in ("0", "false", "no", "off")
    return found


def fault_of(name: str, value: Any) -> str | None:
    """What is wrong with a value, or None."""
    default = getattr(Settings, name)
    if isinstance(default, bool):
        return None if isinstance(value, bool) else f"{name} must be True or False"
    if isinstance(default, (int, float)):
        allowed = (int,) if isinstance(default, int) else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed):
            return f"{name} must be {'a whole number' if isinstance(default, int) else 'a number'}"
        if not LOWEST[name] <= value <= HIGHEST.get(name, float("inf")):
            highest = f" to {HIGHEST[name]:g}" if name in HIGHEST else ""
            return f"{name} must be from {LOWEST[name]:g}{highest}"
        return None
    return None if isinstance(value, str) else f"{name} must be a string"


def fault_of_url(url: str) -> str | None:
    """What is wrong with the address, or None. It never names the address: there may be a password inside."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "url is no address; nothing is sent"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "url must be like http://127.0.0.1:7070; nothing is sent"
    return None
