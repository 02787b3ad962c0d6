"""The Responses API as messages, so that its runs read like runs of chat completions.

A response has messages, calls, results and reasoning beside each other; chat has calls and reasoning in the message of
the assistant. What is neither, such as a search by the provider, is in `items` of that message.
"""

from __future__ import annotations

from typing import Any

from spindle_client.integrations.fields import field, items, plain, text_or_blocks

CALLS = ("function_call", "custom_tool_call")
OUTPUT = "_output"
"""How the types of results end."""


def request_messages(instructions: Any, given: Any) -> Any:
    """What was asked, as messages; what is of no known shape stays as it is."""
    made = _Messages()
    if instructions:
        made.add({"role": "system", "content": instructions})
    if isinstance(given, str):
        made.add({"role": "user", "content": given})
    elif isinstance(given, (list, tuple)):
        for item in given:
            made.item(item)
    elif given is not None:
        return given if not instructions else [*made.messages, given]
    return made.messages or None


def answer_message(output: Any) -> dict[str, Any] | None:
    """What was answered, as one message of the assistant."""
    made = _Messages(is_one=True)
    for item in output or []:
        made.answer(item)
    return made.messages[0] if made.messages else None


def answer_requests(output: Any) -> int | None:
    """Searches of the web, which are billed beside tokens; opening a page that was found is none."""
    searches = [item for item in output or [] if field(item, "type") == "web_search_call"]
    billed = [item for item in searches if field(field(item, "action"), "type") in (None, "search")]
    return len(billed) or None


class _Messages:
    """Messages, each added to the one before where chat has them in one."""

    def __init__(self, is_one: bool = False) -> None:
        self.messages: list[Any] = []
        self._is_one = is_one

    def add(self, message: Any) -> None:
        """A further message."""
        self.messages.append(message)

    def item(self, item: Any) -> None:
        """An item of a request: a message, a call, or the result of one."""
        kind = field(item, "type")
        role = field(item, "role")
        if isinstance(item, str):
            self.add({"role": "user", "content": item})
        elif isinstance(role, str) and role != "assistant":
            self.add({"role": role, "content": text_or_blocks(field(item, "content"))})
        elif isinstance(kind, str) and kind.endswith(OUTPUT):
            output = text_or_blocks(field(item, "output"))
            self.add({"role": "tool", "tool_call_id": field(item, "call_id"), "content": output})
        else:
            self.answer(item)

    def answer(self, item: Any) -> None:
        """An item that the model made."""
        kind = field(item, "type")
        if field(item, "role") == "assistant":
            _say(self._assistant(has=("content", "tool_calls")), field(item, "content"))
        elif kind in CALLS:
            arguments = field(item, "arguments" if kind == "function_call" else "input")
            function = {"name": field(item, "name"), "arguments": arguments}
            call = {"id": field(item, "call_id"), "type": "function", "function": function}
            self._assistant().setdefault("tool_calls", []).append(call)
        elif kind == "reasoning":
            texts = [field(part, "text") for part in items(item, "content") or items(item, "summary")]
            text = "\n".join(text for text in texts if isinstance(text, str) and text)
            if text:
                message = self._assistant(has=("content", "tool_calls"))
                before = message.get("reasoning_content")
                message["reasoning_content"] = f"{before}\n{text}" if before else text
        else:
            self._assistant().setdefault("items", []).append(plain(item))

    def _assistant(self, has: tuple[str, ...] = ()) -> dict[str, Any]:
        """The message of the assistant that is being made; a new one if that one has one of these already."""
        last: dict[str, Any] = self.messages[-1] if self.messages and isinstance(self.messages[-1], dict) else {}
        if last.get("role") == "assistant" and (self._is_one or all(last.get(name) is None for name in has)):
            return last
        made: dict[str, Any] = {"role": "assistant", "content": None}
        self.add(made)
        return made


def _say(message: dict[str, Any], content: Any) -> None:
    """Adds content to a message, apart from refusals."""
    if isinstance(content, (list, tuple)):
        refusals = [str(field(part, "refusal")) for part in content if field(part, "type") == "refusal"]
        if refusals:
            message["refusal"] = "".join(refusals)
        content = text_or_blocks([part for part in content if field(part, "type") != "refusal"]) or None
    before = message["content"]
    if before is None or content is None:
        message["content"] = content if before is None else before
    elif isinstance(before, str) and isinstance(content, str):
        message["content"] = before + content
    else:
        message["content"] = [*_blocks(before), *_blocks(content)]


def _blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]
