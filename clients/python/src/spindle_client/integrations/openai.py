"""The `openai` package: `observe(client)` makes a run of each call of a model.

Chat completions, responses and embeddings, of synchronous and asynchronous clients, whole and streamed. Usage of a
streamed chat completion is there if the application asks for it: `stream_options={"include_usage": True}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from spindle_client.client import Client
from spindle_client.integrations.observed import Collected, Reading, observe_method, served
from spindle_client.run import Run

Observed = TypeVar("Observed")
PARAMETERS = (
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "reasoning_effort",
    "reasoning",
    "response_format",
    "tool_choice",
    "tools",
    "seed",
    "stop",
    "stream",
)
TEXT_CHARS = 1 << 20
"""Characters of a streamed answer that are kept while it comes."""


def observe(client: Observed, *, spindle: Client | None = None) -> Observed:
    """Makes a run of each call of this client, and returns it.

    `spindle` is the client to report to, if it is not that of the module. Clients made of it by `with_options` are
    others; observe them too. Calls by `with_raw_response` are runs without output.
    """
    chat = getattr(getattr(client, "chat", None), "completions", None)
    if chat is not None:
        observe_method(chat, "create", ChatReading(), spindle)
        observe_method(chat, "parse", ChatReading(), spindle)
    responses = getattr(client, "responses", None)
    if responses is not None:
        observe_method(responses, "create", ResponseReading(), spindle)
        observe_method(responses, "parse", ResponseReading(), spindle)
    embeddings = getattr(client, "embeddings", None)
    if embeddings is not None:
        observe_method(embeddings, "create", EmbeddingReading(), spindle)
    return client


def usage(run: Run, said: Any) -> None:
    """Reads the usage of either kind of answer; cached and reasoning tokens are part of the others."""
    if said is None:
        return
    details_in = _either(said, "prompt_tokens_details", "input_tokens_details")
    details_out = _either(said, "completion_tokens_details", "output_tokens_details")
    run.usage(
        prompt_tokens=_either(said, "prompt_tokens", "input_tokens"),
        completion_tokens=_either(said, "completion_tokens", "output_tokens"),
        total_tokens=getattr(said, "total_tokens", None),
        cached_tokens=getattr(details_in, "cached_tokens", None),
        reasoning_tokens=getattr(details_out, "reasoning_tokens", None),
    )


def _either(said: Any, name: str, other: str) -> Any:
    """What one kind of answer or the other calls by these names; 0 is a count like any other."""
    value = getattr(said, name, None)
    return getattr(said, other, None) if value is None else value


class ChatReading(Reading):
    """`chat.completions`."""

    name = "openai.chat"
    parameters = PARAMETERS

    def input(self, given: Mapping[str, Any]) -> Any:
        return given.get("messages")

    def result(self, run: Run, response: Any) -> None:
        served(run, getattr(response, "model", None))
        usage(run, getattr(response, "usage", None))
        messages = [_message(choice.message) for choice in getattr(response, "choices", None) or []]
        run.output = messages[0] if len(messages) == 1 else messages or None

    def collect(self) -> Collected:
        return ChatParts()


def _message(message: Any) -> dict[str, Any]:
    """A message of the assistant, without what it has not."""
    said = {"role": getattr(message, "role", None) or "assistant", "content": getattr(message, "content", None)}
    for name in ("refusal", "tool_calls", "function_call", "audio"):
        value = getattr(message, name, None)
        if value:
            said[name] = value
    return said


class ChatParts(Collected):
    """The chunks of a streamed chat completion."""

    def __init__(self) -> None:
        self._model: Any = None
        self._usage: Any = None
        self._left = TEXT_CHARS
        self._choices: dict[int, dict[str, Any]] = {}

    def add(self, part: Any) -> None:
        self._model = getattr(part, "model", None) or self._model
        self._usage = getattr(part, "usage", None) or self._usage
        for choice in getattr(part, "choices", None) or []:
            said = self._choices.setdefault(choice.index, {"content": [], "refusal": [], "calls": {}})
            delta = choice.delta
            for name in ("content", "refusal"):
                text = getattr(delta, name, None)
                if text and self._left > 0:
                    said[name].append(text)
                    self._left -= len(text)
            for call in getattr(delta, "tool_calls", None) or []:
                self._add_call(said["calls"].setdefault(call.index, {"id": None, "name": "", "arguments": ""}), call)

    def _add_call(self, kept: dict[str, Any], call: Any) -> None:
        kept["id"] = call.id or kept["id"]
        function = getattr(call, "function", None)
        if function is not None and self._left > 0:
            kept["name"] += function.name or ""
            kept["arguments"] += function.arguments or ""
            self._left -= len(function.arguments or "")

    def tell(self, run: Run) -> None:
        served(run, self._model)
        usage(run, self._usage)
        messages = [_joined(said) for _, said in sorted(self._choices.items())]
        run.output = messages[0] if len(messages) == 1 else messages or None


def _joined(said: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said["content"]) or None}
    if said["refusal"]:
        message["refusal"] = "".join(said["refusal"])
    if said["calls"]:
        message["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
            for _, call in sorted(said["calls"].items())
        ]
    return message


class ResponseReading(Reading):
    """`responses`."""

    name = "openai.responses"
    parameters = PARAMETERS

    def input(self, given: Mapping[str, Any]) -> Any:
        if "instructions" in given:
            return {"instructions": given["instructions"], "input": given.get("input")}
        return given.get("input")

    def result(self, run: Run, response: Any) -> None:
        _tell_response(run, response)

    def collect(self) -> Collected:
        return ResponseParts()


class ResponseParts(Collected):
    """The events of a streamed response; its last one holds all of it."""

    def __init__(self) -> None:
        self._response: Any = None
        self._text: list[str] = []
        self._left = TEXT_CHARS

    def add(self, part: Any) -> None:
        self._response = getattr(part, "response", None) or self._response
        delta = getattr(part, "delta", None)
        if getattr(part, "type", None) == "response.output_text.delta" and isinstance(delta, str) and self._left > 0:
            self._text.append(delta)
            self._left -= len(delta)

    def tell(self, run: Run) -> None:
        if self._response is not None:
            _tell_response(run, self._response)
        if self._text and not getattr(self._response, "output", None):
            run.output = "".join(self._text)


def _tell_response(run: Run, response: Any) -> None:
    served(run, getattr(response, "model", None))
    usage(run, getattr(response, "usage", None))
    items = getattr(response, "output", None) or []
    is_text = all(getattr(item, "type", None) in ("message", "reasoning") for item in items)
    text = getattr(response, "output_text", None)
    if items:
        run.output = text if is_text and text else items
    error = getattr(response, "error", None)
    if getattr(response, "status", None) == "failed":
        run.fail(getattr(error, "message", None) or "the response failed")


class EmbeddingReading(Reading):
    """`embeddings`; the vectors themselves are not kept."""

    name = "openai.embeddings"
    parameters = ("dimensions", "encoding_format")

    def input(self, given: Mapping[str, Any]) -> Any:
        return given.get("input")

    def result(self, run: Run, response: Any) -> None:
        served(run, getattr(response, "model", None))
        said = getattr(response, "usage", None)
        if said is not None:
            # Without an answer's tokens the server knows no price: there are none.
            run.usage(prompt_tokens=said.prompt_tokens, completion_tokens=0, total_tokens=said.total_tokens)
        run.output = {"embeddings": len(getattr(response, "data", None) or [])}
