"""The stack of an error: taken in the application's thread, as where it was, and written as text in the background."""

from __future__ import annotations

import builtins
import linecache
import tokenize  # noqa: F401 - `linecache` imports it when it reads a file, and the sending thread must import nothing.
import traceback
from collections import deque
from types import TracebackType
from typing import Union

FRAMES = 32
"""Frames that are kept: the last, where the error is."""
STACK_CHARS = 8_000
"""Characters of a stack that are kept: its end, where the error is."""

Frame = tuple[str, int, str]
"""File, line and function."""
Stack = Union[str, tuple[list[Frame], str]]
"""Text, or the frames and the line that names the error."""
_GROUP = getattr(builtins, "BaseExceptionGroup", SyntaxError)


def taken(error: BaseException, message: str) -> Stack:
    """What is known of where an error came from, without the values of variables and what other errors led to it.

    Nothing of the application is kept alive by it. May raise.
    """
    if isinstance(error, (SyntaxError, _GROUP)):
        # They say more than where they are; they are rare.
        lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-FRAMES, chain=False)
        return "".join(lines)[-STACK_CHARS:]
    last: deque[TracebackType] = deque(maxlen=FRAMES)
    at = error.__traceback__
    while at is not None:
        last.append(at)
        at = at.tb_next
    frames: list[Frame] = []
    for at in last:
        code = at.tb_frame.f_code
        frames.append((code.co_filename, at.tb_lineno, code.co_name))
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = f"{kind.__module__}.{name}"
    notes = [note for note in getattr(error, "__notes__", None) or () if type(note) is str]
    said = "\n".join([f"{name}: {message}" if message else name, *notes])
    return frames, said[-STACK_CHARS:]


def written(stack: Stack) -> str:
    """The stack as Python writes it, of at most `STACK_CHARS`."""
    if isinstance(stack, str):
        return stack
    frames, said = stack
    text = f"{said}\n"
    if frames:
        try:
            for file in {file for file, _, _ in frames}:
                linecache.checkcache(file)
            found = [traceback.FrameSummary(file, line, name, lookup_line=False) for file, line, name in frames]
            text = "Traceback (most recent call last):\n" + "".join(traceback.format_list(found)) + text
        except Exception:
            # A source that cannot be read: what the error says is worth more than where it was.
            pass
    return text[-STACK_CHARS:]
