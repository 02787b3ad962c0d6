"""Steps whose output comes in parts: the run ends when the stream ends, is closed or fails."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

from . import capture
from .run import Run
from .scope import CURRENT, Scope

PARTS = 1_000
"""Parts that are not text and are kept."""


class Parts:
    """Keeps what a stream gave, up to `limit` bytes, and joins it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._kept: list[Any] = []
        self._cut = 0
        self._is_text = True

    def add(self, part: Any) -> None:
        """Keeps a copy of a part. Never raises."""
        if self._limit <= 0:
            return
        if type(part) is str and self._is_text:
            if self._left > 0:
                self._kept.append(part)
                self._left -= len(part)
            else:
                self._cut += len(part)
            return
        self._is_text = False
        if self._left > 0 and len(self._kept) < PARTS:
            made = capture.plain(part, self._left)
            self._kept.append(made.value)
            self._left -= made.size
        else:
            self._cut += 1

    def joined(self) -> Any:
        """Text if all parts were, else a list; None for no parts at all."""
        if not self._kept:
            return None
        if self._is_text:
            text = "".join(self._kept)
            return f"{text}… cut, {self._cut} more characters" if self._cut else text
        return [*self._kept, f"… cut, {self._cut} more"] if self._cut else self._kept


class _Inside:
    """Makes the run current while the stream's own code runs, and not while its reader's does."""

    __slots__ = ("_inside", "_outside")

    def __init__(self, run: Run) -> None:
        self._inside: Scope = run

    def __enter__(self) -> None:
        self._outside = CURRENT.get()
        CURRENT.set(self._inside)

    def __exit__(self, *_: object) -> None:
        # What the stream's code entered and has not left yet is there again when it goes on.
        self._inside = CURRENT.get()
        CURRENT.set(self._outside)


def stream(run: Run, source: Generator[Any, Any, Any], parts: Parts) -> Generator[Any, Any, Any]:
    """The same generator; its items and end become the run's output and end."""
    inside = _Inside(run)
    sent: Any = None
    thrown: Any = None
    try:
        while True:
            with inside:
                item = source.send(sent) if thrown is None else source.throw(thrown)
            if run.type == "llm":
                run.first_token()
            parts.add(item)
            sent, thrown = None, None
            try:
                sent = yield item
            except GeneratorExit:
                with inside:
                    source.close()
                run.end(parts.joined())
                raise
            except BaseException as error:
                thrown = error
    except StopIteration as end:
        run.end(parts.joined())
        return end.value
    except GeneratorExit:
        raise
    except BaseException as error:
        run.output = parts.joined()
        run.fail(error)
        raise


async def astream(run: Run, source: AsyncGenerator[Any, Any], parts: Parts) -> AsyncGenerator[Any, Any]:
    """The same asynchronous generator; its items and end become the run's output and end."""
    inside = _Inside(run)
    sent: Any = None
    thrown: Any = None
    try:
        while True:
            with inside:
                item = await (source.asend(sent) if thrown is None else source.athrow(thrown))
            if run.type == "llm":
                run.first_token()
            parts.add(item)
            sent, thrown = None, None
            try:
                sent = yield item
            except GeneratorExit:
                with inside:
                    await source.aclose()
                run.end(parts.joined())
                raise
            except BaseException as error:
                thrown = error
    except StopAsyncIteration:
        run.end(parts.joined())
    except GeneratorExit:
        raise
    except BaseException as error:
        run.output = parts.joined()
        run.fail(error)
        raise
