"""Values of the application, as they are at the moment of the call, bounded in size and depth.

`freeze` runs in the application's thread and has to be fast: text and numbers are kept as they are, small dicts of them
are copied, and everything else is pickled in C. What the pickler does not know, and what is too large, goes the slow
way through `plain`, which is bounded. `thaw` runs in the background and makes values that JSON can hold.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
import numbers
import os
import pickle
import sys
import uuid
from array import array
from collections import UserString
from collections.abc import Iterable, Mapping, MappingView, Sequence, Set
from itertools import islice
from types import WrapperDescriptorType
from typing import Any, Union

DEPTH = 24
"""Levels of a value that are kept; below them stands what was there."""
NODES = 10_000
"""Values inside a value that are kept."""
KEY_CHARS = 256
"""Characters of a key of an object."""
REPR_CHARS = 2_000
"""Characters of how an unknown object describes itself."""
PLAIN_BYTES = 100
"""About what a `Plain` takes in memory beside its value."""
REPR_PARTS = 1_000
"""Parts of a built-in container up to which it may describe itself."""
_WALKED: Any = (Sequence, Set, MappingView)
_SMALL = 16
_ATOMS = frozenset((str, int, float, bool, type(None)))


class Plain:
    """A value that is JSON already, and not shared."""

    __slots__ = ("size", "value")

    def __init__(self, value: Any, size: int) -> None:
        self.value = value
        self.size = size


class _TooLargeError(Exception):
    """Ends the pickler once it has written more than is kept."""


class _Sink:
    """Where the pickler writes to: every 64 KiB it learns whether to go on."""

    __slots__ = ("left", "parts")

    def __init__(self, limit: int) -> None:
        self.parts: list[bytes] = []
        self.left = limit

    def write(self, part: bytes) -> None:
        self.left -= len(part)
        if self.left < 0:
            raise _TooLargeError
        self.parts.append(bytes(part))


def _same(value: Any) -> Any:
    """What stands in a pickle in place of an object: a call of this, with the object as plain values."""
    return value


class _Pickler(pickle.Pickler):
    """Pickles what is built in by itself; of everything else only the plain values."""

    limit = 0

    def reducer_override(self, obj: Any) -> Any:
        if obj is _same:
            # The pickler asks for this too, and then writes it by its name.
            return NotImplemented
        made = plain(obj, self.limit)
        # All objects of one value share its limit: a thousand large ones are no larger than one.
        self.limit = max(0, self.limit - made.size + PLAIN_BYTES)
        return _same, (made.value,)


Frozen = Union[str, int, float, bool, None, dict[Any, Any], bytes, Plain]
"""An unshared value: an atom, a dict of atoms, a pickle of our own, or plain values."""


def freeze(value: Any, limit: int) -> tuple[Frozen, int]:
    """A copy of a value that the application cannot change any more, and its size in bytes.

    `limit` is about how many bytes are kept; what is above is cut, and says so. May raise what an object of the
    application raises that is no `Exception`.
    """
    kind = type(value)
    if kind is str:
        text = value if len(value) <= limit else cut_text(value, limit)
        return text, sys.getsizeof(text)
    if kind in _ATOMS:
        return value, 32
    if kind is dict and len(value) <= _SMALL:
        copy = dict(value)
        size = 100
        for key, part in copy.items():
            if type(part) not in _ATOMS or type(key) is not str:
                break
            size += sys.getsizeof(part)
        else:
            if size <= limit:
                return copy, size
    sink = _Sink(limit)
    try:
        pickler = _Pickler(sink, 5)
        pickler.limit = limit
        pickler.dump(value)
    except Exception:
        # Too large, too deep, or changed by another thread while it was read.
        made = plain(value, limit)
        return made, made.size
    pickled = sink.parts[0] if len(sink.parts) == 1 else b"".join(sink.parts)
    return pickled, len(pickled)


def thaw(frozen: Frozen, limit: int) -> Any:
    """What JSON can hold of what was frozen; `limit` is that of `freeze`."""
    kind = type(frozen)
    if kind is str or frozen is None:
        return frozen
    if kind is dict and _is_json(frozen):
        return frozen
    return thaw_cut(frozen, limit)


def thaw_cut(frozen: Frozen, limit: int) -> Any:
    """The same, of at most `limit` bytes, which may be less than was kept at first."""
    if isinstance(frozen, Plain):
        return frozen.value if frozen.size <= limit + 200 else plain(frozen.value, limit).value
    # The pickle was made by `freeze` in this process: it holds built-in values and calls nothing but `_same`.
    value = pickle.loads(frozen) if isinstance(frozen, bytes) else frozen
    # Values that share parts may be much larger as JSON than in memory, so they are measured here again.
    return plain(value, limit).value


def _is_json(atoms: Any) -> bool:
    """Whether a small dict of atoms can be JSON as it is."""
    for name, part in atoms.items():
        kind = type(part)
        if kind is float and not math.isfinite(part):
            return False
        if kind is int and part.bit_length() > 256:
            return False
        if len(name) > KEY_CHARS:
            return False
    return True


def plain(value: Any, limit: int) -> Plain:
    """The value as objects, lists, text, finite numbers and null; bounded in size, depth and number of values."""
    walk = _Walk(limit)
    made = walk.value(value, 0)
    return Plain(made, PLAIN_BYTES + limit - max(0, walk.left_bytes) + 8 * (NODES - walk.left_nodes))


class _Walk:
    """One way through a value, with what may still be kept of it."""

    __slots__ = ("left_bytes", "left_nodes")

    def __init__(self, limit: int) -> None:
        self.left_bytes = limit
        self.left_nodes = NODES

    def value(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind is str:
            return self._text(value)
        self.left_nodes -= 1
        if value is None or kind is bool:
            return value
        if kind is int:
            return value if value.bit_length() <= 256 else f"<integer of {value.bit_length()} bits>"
        if kind is float:
            return value if math.isfinite(value) else str(value)
        if depth >= DEPTH:
            return f"<{kind.__name__}: too deep>"
        if kind is dict:
            return self._pairs(value, depth)
        if kind is list or kind is tuple:
            return self._items(value, depth)
        try:
            return self._object(value, kind, depth)
        except Exception as error:
            return f"<{kind.__name__}: could not be read, {type(error).__name__}>"

    def _text(self, text: str) -> str:
        self.left_nodes -= 1
        left = self.left_bytes
        self.left_bytes -= len(text)
        return text if len(text) <= left else cut_text(text, max(0, left))

    def _pairs(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, part in _steady(value.items()):
            if self.left_nodes <= 0 or self.left_bytes <= 0:
                made["…"] = f"cut, {len(value) - len(made)} more"
                break
            name = key if type(key) is str else _name_of_key(key)
            name = name if len(name) <= KEY_CHARS else cut_text(name, KEY_CHARS)
            self.left_bytes -= len(name)
            made[name] = self.value(part, depth + 1)
        return made

    def _items(self, value: Iterable[Any], depth: int) -> list[Any]:
        made: list[Any] = []
        parts = _steady(value)
        for part in parts:
            if self.left_nodes <= 0 or self.left_bytes <= 0:
                made.append(f"… cut, {len(parts) - len(made)} more")
                break
            made.append(self.value(part, depth + 1))
        return made

    def _object(self, value: Any, kind: type, depth: int) -> Any:
        if isinstance(value, enum.Enum):
            return self.value(value.value, depth + 1)
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, (bytes, bytearray, memoryview)):
            return f"<{len(value)} bytes>"
        if isinstance(value, (set, frozenset, list, tuple)):
            named = getattr(value, "_fields", None)
            return self._items(value, depth) if named is None else self._pairs(dict(zip(named, value)), depth)
        if isinstance(value, Mapping):
            return self._pairs(value, depth)
        if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
            return value.isoformat()
        if isinstance(value, (decimal.Decimal, uuid.UUID, os.PathLike)):
            return self._text(str(value))
        if isinstance(value, numbers.Integral):
            return self.value(int(value), depth)
        if isinstance(value, numbers.Real):
            return self.value(float(value), depth)
        if isinstance(value, BaseException):
            return self._text(f"{kind.__name__}: {value}")
        if isinstance(value, type):
            return f"<class {value.__qualname__}>"
        fields = _fields_of(value, kind)
        if fields is not None:
            return self._pairs(fields, depth)
        if isinstance(value, UserString):
            return self._text(value.data)
        # The `repr` of a container is as long as that is, and is made whole before it can be cut.
        if isinstance(value, _WALKED) and kind is not range and not isinstance(value, array):
            return self._items(value, depth)
        # Not asked of what is written in Python: there `len` may fetch a table from a database.
        if kind is not range and isinstance(getattr(kind, "__len__", None), WrapperDescriptorType):
            count = len(value)
            if count > REPR_PARTS:
                return f"<{kind.__name__} of {count}>"
        text = repr(value)
        return self._text(text if len(text) <= REPR_CHARS else cut_text(text, REPR_CHARS))


def _steady(parts: Iterable[Any]) -> list[Any]:
    """The first parts of something that another thread may be changing: no more than are ever kept, and one."""
    for _ in range(3):
        try:
            return list(islice(parts, NODES + 1))
        except RuntimeError:
            continue
    return ["<changed while it was read>"]


def _name_of_key(key: Any) -> str:
    """A key of a dict as the name it has in JSON."""
    if key is None or isinstance(key, (bool, int, float)):
        return str(key)
    if isinstance(key, str):
        return str.__str__(key)
    try:
        return repr(key)
    except Exception:
        return f"<{type(key).__name__}>"


def _fields_of(value: Any, kind: type) -> Any:
    """The fields of a dataclass, of a pydantic model or of an attrs class; None for everything else."""
    if dataclasses.is_dataclass(kind):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(kind) if field.repr}
    if hasattr(kind, "model_fields") or hasattr(kind, "__fields__"):
        extra = getattr(value, "__pydantic_extra__", None)
        return {**vars(value), **extra} if extra else vars(value)
    if hasattr(kind, "__attrs_attrs__"):
        return {field.name: getattr(value, field.name, None) for field in kind.__attrs_attrs__ if field.repr}
    return None


def cut_text(text: str, characters: int) -> str:
    """The beginning of a text, and how much of it is left out."""
    return f"{text[:characters]}… cut, {len(text) - characters} more characters"


def cut_long(text: str, characters: int) -> str:
    """The text, cut only if it is longer than that."""
    return text if len(text) <= characters else cut_text(text, characters)
