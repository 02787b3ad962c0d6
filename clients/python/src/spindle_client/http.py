"""One connection to the server, kept open, and requests on it that end within their time."""

from __future__ import annotations

import gzip
import io
import json
import socket
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from .version import NAME

# The sending thread must import nothing: a fork in the middle of an import leaves the child a lock that stays taken.
"a".encode("idna")

GZIP_ABOVE_BYTES = 4 << 10
"""Smaller bodies are not worth the work."""
ANSWER_BYTES = 1 << 20
"""What is read of an answer; the server lists at most 100 errors in it."""


@dataclass(frozen=True)
class Answer:
    """What the server said to a batch."""

    accepted: int
    rejected: int
    first_error: str | None


class RefusedError(Exception):
    """The batch did not reach the log of the server."""

    def __init__(self, reason: str, is_retryable: bool, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.is_retryable = is_retryable
        self.retry_after_s = retry_after_s


class _TimedReader(io.RawIOBase):
    """Reads a socket until a moment, however slowly the bytes come."""

    def __init__(self, source: io.RawIOBase, sock: socket.socket, until: float) -> None:
        # The file of the socket lives longer than the socket, where the server asks to close it.
        self._source = source
        self._sock = sock
        self._until = until

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer takes too long")
        self._sock.settimeout(left)
        return self._source.readinto(target)

    def close(self) -> None:
        self._source.close()
        super().close()


class Connection:
    """Posts batches to one address. For one thread at a time."""

    def __init__(self, url: str, api_key: str | None) -> None:
        parts = urlsplit(url)
        self._is_tls = parts.scheme == "https"
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port
        self._path = parts.path.rstrip("/") + "/api/report"
        self._headers = {"Content-Type": "application/json", "User-Agent": NAME}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._open: HTTPConnection | None = None

    def post(self, body: bytes, timeout_s: float) -> Answer:
        """Sends one batch and reads the answer, all within the time. Raises `RefusedError`."""
        headers = self._headers
        if len(body) > GZIP_ABOVE_BYTES:
            body = gzip.compress(body, compresslevel=1, mtime=0)
            headers = {**headers, "Content-Encoding": "gzip"}
        until = time.monotonic() + timeout_s
        is_kept = self._open is not None
        try:
            try:
                return self._exchange(body, headers, until)
            except (ConnectionError, HTTPException) as error:
                # The server closes connections that were idle for long, or was restarted: that is detected only now.
                # Events have ids, so nothing happens twice should it have read the batch after all.
                self.close()
                if not is_kept or not _is_closed_by_peer(error):
                    raise
                return self._exchange(body, headers, until)
        except RefusedError:
            raise
        except (OSError, HTTPException, ValueError) as error:
            self.close()
            # A `ValueError` may show the header it is about, and so the key.
            said = "" if isinstance(error, ValueError) else f": {error}"
            raise RefusedError(type(error).__name__ + said, is_retryable=not isinstance(error, ValueError)) from error

    def close(self) -> None:
        """Closes the connection; the next request opens one."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def forget(self) -> None:
        """Leaves the connection to the process this one was forked from."""
        self._open = None

    def _exchange(self, body: bytes, headers: dict[str, str], until: float) -> Answer:
        left = max(0.001, until - time.monotonic())
        if self._open is None:
            kind = HTTPSConnection if self._is_tls else HTTPConnection
            self._open = kind(self._host, self._port, timeout=left)
            self._open.connect()
            self._open.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self._open
        connection.sock.settimeout(left)
        connection.response_class = partial(_TimedResponse, until)  # type: ignore[assignment]
        connection.request("POST", self._path, body, headers)
        response = connection.getresponse()
        content = response.read(ANSWER_BYTES)
        if response.read(1):
            # Longer than any answer of ours: not worth reading to its end.
            self.close()
        elif connection.sock is None:
            # The server asked to close it.
            self._open = None
        return _read(response, content)


class _TimedResponse(HTTPResponse):
    """An answer that is read until a moment."""

    def __init__(self, until: float, sock: socket.socket, *arguments: Any, **keywords: Any) -> None:
        super().__init__(sock, *arguments, **keywords)
        self.fp = io.BufferedReader(_TimedReader(self.fp.detach(), sock, until))


def _is_closed_by_peer(error: Exception) -> bool:
    """Whether a kept connection had ended before an answer began."""
    return isinstance(error, (ConnectionResetError, BrokenPipeError, ConnectionAbortedError))


def _read(response: HTTPResponse, content: bytes) -> Answer:
    """Takes the counts out of an answer, or says why there are none."""
    if response.status != 200:
        is_retryable = response.status in (408, 429) or response.status >= 500
        wait_s = _seconds(response.getheader("Retry-After"))
        raise RefusedError(f"the server answered {response.status}{_code(content)}", is_retryable, wait_s)
    try:
        said = json.loads(content)
        errors = said.get("errors") or [{}]
        return Answer(int(said["accepted"]), int(said["rejected"]), errors[0].get("message"))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise RefusedError("the answer is not one of Spindle; is the address right?", is_retryable=False) from error


def _code(content: bytes) -> str:
    """The server's own word for what is wrong, if it said one."""
    try:
        said = json.loads(content)
        return f" ({str(said['error'])[:64]}: {str(said['message'])[:256]})"
    except (ValueError, KeyError, TypeError):
        return ""


def _seconds(retry_after: str | None) -> float | None:
    """How long the server asks to wait: seconds, or a date."""
    if not retry_after:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
