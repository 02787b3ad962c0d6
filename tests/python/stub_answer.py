"""What the model made for tests says, whichever API it is asked through: first it asks for the tool, then it answers."""

import itertools
import json
import re
from typing import NamedTuple

ANSWER = "Paris has 18 °C and light rain."
# What it answers where an object is wanted.
WEATHER = {"city": "Paris", "celsius": 18}

numbers = itertools.count(1)


class ToolCall(NamedTuple):
    tool: str
    arguments: dict


def next_step(messages, tools, wants_object=False):
    """A tool call while the messages know no temperature; then the object where one is wanted, else the text.

    A tool `final_result` is how a framework asks for an object.
    """
    knows = re.search(r"\b18\b", json.dumps(messages))
    if tools and not knows:
        return ToolCall("get_weather", {"city": "Paris"})
    if "final_result" in tools:
        return ToolCall("final_result", WEATHER)
    return json.dumps(WEATHER) if wants_object else ANSWER


def unique(prefix):
    """An identifier that no other answer of this process has."""
    return f"{prefix}{next(numbers):04}"


def words(text):
    """The pieces of a stream: words, with the spaces after them."""
    return re.findall(r"\S+\s*", text)
