"""Reading what other packages answer: fields that may be there, in objects or in dicts, and counts of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def field(value: Any, name: str) -> Any:
    """A field of an object or of a dict, or None."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def count(value: Any, name: str) -> int | None:
    """A field that is a count, or None."""
    number = field(value, name)
    return number if type(number) is int and number >= 0 else None


def items(value: Any, name: str) -> list[Any]:
    """A field that is a list, or an empty list."""
    found = field(value, name)
    return list(found) if isinstance(found, (list, tuple)) else []


def plain(value: Any) -> Any:
    """An object of these packages as what the provider sent; anything else as it is."""
    to_dict = getattr(value, "to_dict", None)
    return to_dict() if callable(to_dict) else value


def present(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields that are there and not empty."""
    found = {name: field(value, name) for name in names}
    return {
        name: [plain(one) for one in said] if isinstance(said, (list, tuple)) else plain(said)
        for name, said in found.items()
        if said
    }


def parts(whole: int | None, *counts: int | None) -> tuple[int | None, ...]:
    """Parts of a whole without overlap: an earlier one has its tokens, a later one what is left.

    OpenAI counts cached audio both as cached and as audio.
    """
    left = whole
    found: list[int | None] = []
    for one in counts:
        part = one if one is None or left is None else min(one, left)
        if part is not None and left is not None:
            left -= part
        found.append(part)
    return tuple(found)


def text_or_blocks(content: Any) -> Any:
    """The text of content that is nothing else; otherwise the content."""
    if isinstance(content, (list, tuple)) and content:
        texts = [field(part, "text") for part in content if field(part, "type") in TEXTS]
        if len(texts) == len(content) and all(isinstance(text, str) for text in texts):
            return "".join(texts)
        return [plain(part) for part in content]
    return content


TEXTS = ("text", "input_text", "output_text")
"""Types of parts that are text."""
