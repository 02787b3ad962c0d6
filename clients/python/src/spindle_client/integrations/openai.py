"""The `openai` package: `observe(client)` makes a run of each call of a model.

Chat completions, responses and embeddings, of synchronous and asynchronous clients, whole and streamed. Usage of a
streamed chat completion is there if the application asks for it: `stream_options={"include_usage": True}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from spindle_client.client import Client
from spindle_client.integrations.fields import count, field, items, parts, present
from spindle_client.integrations.observed import Collected, Reading, observe_method, served
from spindle_client.integrations.responses import answer_message, answer_requests, request_messages
from spindle_client.run import Run

Observed = TypeVar("Observed")
PARAMETERS = (
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n",
    "stop",
    "seed",
    "tools",
    "tool_choice",
    "functions",
    "response_format",
    "reasoning_effort",
    "reasoning",
    "previous_response_id",
    "service_tier",
    "stream",
)
"""Also in the TypeScript client; `clients/fixtures` has what both report."""
SAID = ("reasoning_content", "reasoning", "refusal", "tool_calls", "function_call", "audio", "annotations")
"""What a message may have beside its content."""
TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
"""What comes in pieces of text."""
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


def usage(run: Run, said: Any, *, service_tier: Any = None, requests: int | None = None) -> None:
    """Reads the usage of either kind of answer; its details are parts of the prompt and of the completion."""
    if said is None:
        return
    prompt, completion = (
        _either(said, "prompt_tokens", "input_tokens"),
        _either(said, "completion_tokens", "output_tokens"),
    )
    total = count(said, "total_tokens")
    details_in = field(said, "prompt_tokens_details") or field(said, "input_tokens_details")
    details_out = field(said, "completion_tokens_details") or field(said, "output_tokens_details")
    cached, written, audio, image = parts(
        prompt,
        count(details_in, "cached_tokens"),
        count(details_in, "cache_write_tokens"),
        _fresh(details_in, "audio_tokens"),
        _fresh(details_in, "image_tokens"),
    )
    reasoning, spoken = parts(completion, count(details_out, "reasoning_tokens"), count(details_out, "audio_tokens"))
    run.usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=total,
        cached_tokens=cached,
        cache_write_tokens=written,
        input_audio_tokens=audio,
        input_image_tokens=image,
        reasoning_tokens=reasoning,
        output_audio_tokens=spoken,
        requests=requests,
        service_tier=service_tier,
    )


def _either(said: Any, name: str, other: str) -> int | None:
    """What one kind of answer or the other calls by these names; 0 is a count like any other."""
    value = count(said, name)
    return count(said, other) if value is None else value


def _fresh(details: Any, name: str) -> int | None:
    """Tokens of a kind that no cache had; the cached ones are counted as cached."""
    said = count(details, name)
    cached = count(field(details, "cached_tokens_details"), name)
    return said if said is None or cached is None else max(0, said - cached)


class ChatReading(Reading):
    """`chat.completions`."""

    name = "openai.chat"
    parameters = PARAMETERS

    def input(self, given: Mapping[str, Any]) -> Any:
        return given.get("messages")

    def result(self, run: Run, response: Any) -> None:
        served(run, field(response, "model"), field(response, "id"))
        usage(run, field(response, "usage"), service_tier=field(response, "service_tier"))
        choices = items(response, "choices")
        _finished(run, [field(choice, "finish_reason") for choice in choices])
        messages = [_message(field(choice, "message")) for choice in choices]
        run.output = messages[0] if len(messages) == 1 else messages or None

    def collect(self) -> Collected:
        return ChatParts()


def _message(message: Any) -> dict[str, Any]:
    """A message of the assistant, without what it has not."""
    said = {"role": field(message, "role") or "assistant", "content": field(message, "content")}
    return {**said, **present(message, SAID)}


def _finished(run: Run, reasons: list[Any]) -> None:
    """Why the model stopped, of the first answer."""
    if reasons and isinstance(reasons[0], str):
        run.metadata(finish_reason=reasons[0])


class ChatParts(Collected):
    """The chunks of a streamed chat completion."""

    def __init__(self) -> None:
        self._model: Any = None
        self._id: Any = None
        self._tier: Any = None
        self._usage: Any = None
        self._left = TEXT_CHARS
        self._choices: dict[int, dict[str, Any]] = {}

    def add(self, part: Any) -> bool:
        self._model = field(part, "model") or self._model
        self._id = field(part, "id") or self._id
        self._tier = field(part, "service_tier") or self._tier
        self._usage = field(part, "usage") or self._usage
        is_token = False
        for choice in items(part, "choices"):
            said = self._choices.setdefault(choice.index, {"texts": {}, "calls": {}, "reason": None})
            said["reason"] = field(choice, "finish_reason") or said["reason"]
            delta = choice.delta
            for name in TEXTS:
                text = field(delta, name)
                if text and isinstance(text, str):
                    is_token = True
                    if self._left > 0:
                        said["texts"].setdefault(name, []).append(text)
                        self._left -= len(text)
            for call in items(delta, "tool_calls"):
                is_token = True
                self._add_call(said["calls"].setdefault(call.index, {"id": None, "name": "", "arguments": ""}), call)
            is_token = is_token or bool(field(delta, "audio"))
        return is_token

    def _add_call(self, kept: dict[str, Any], call: Any) -> None:
        kept["id"] = call.id or kept["id"]
        function = getattr(call, "function", None)
        if function is not None and self._left > 0:
            kept["name"] += function.name or ""
            kept["arguments"] += function.arguments or ""
            self._left -= len(function.arguments or "")

    def tell(self, run: Run) -> None:
        served(run, self._model, self._id)
        usage(run, self._usage, service_tier=self._tier)
        choices = [said for _, said in sorted(self._choices.items())]
        _finished(run, [said["reason"] for said in choices])
        messages = [_joined(said) for said in choices]
        run.output = messages[0] if len(messages) == 1 else messages or None


def _joined(said: dict[str, Any]) -> dict[str, Any]:
    texts = {name: "".join(pieces) for name, pieces in said["texts"].items()}
    message: dict[str, Any] = {"role": "assistant", "content": None, **texts}
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
        return request_messages(given.get("instructions"), given.get("input"))

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

    def add(self, part: Any) -> bool:
        self._response = getattr(part, "response", None) or self._response
        kind = getattr(part, "type", None)
        delta = getattr(part, "delta", None)
        if kind == "response.output_text.delta" and isinstance(delta, str) and self._left > 0:
            self._text.append(delta)
            self._left -= len(delta)
        return isinstance(kind, str) and kind.endswith(".delta")

    def tell(self, run: Run) -> None:
        if self._response is not None:
            _tell_response(run, self._response)
        if self._text and not getattr(self._response, "output", None):
            run.output = {"role": "assistant", "content": "".join(self._text)}


def _tell_response(run: Run, response: Any) -> None:
    served(run, field(response, "model"), field(response, "id"))
    output = items(response, "output")
    usage(
        run,
        field(response, "usage"),
        service_tier=field(response, "service_tier"),
        requests=answer_requests(output),
    )
    status = field(response, "status")
    reason = field(field(response, "incomplete_details"), "reason")
    _finished(run, [reason or status])
    if output:
        run.output = answer_message(output)
    if status == "failed":
        run.fail(field(field(response, "error"), "message") or "the response failed")


class EmbeddingReading(Reading):
    """`embeddings`; the vectors themselves are not kept."""

    name = "openai.embeddings"
    parameters = ("dimensions", "encoding_format")

    def input(self, given: Mapping[str, Any]) -> Any:
        return given.get("input")

    def result(self, run: Run, response: Any) -> None:
        served(run, field(response, "model"))
        said = field(response, "usage")
        if said is not None:
            # Without an answer's tokens the server knows no price: there are none.
            run.usage(
                prompt_tokens=count(said, "prompt_tokens"),
                completion_tokens=0,
                total_tokens=count(said, "total_tokens"),
            )
        vectors = items(response, "data")
        first = field(vectors[0], "embedding") if vectors else None
        run.output = {"vectors": len(vectors), **({"dimensions": len(first)} if isinstance(first, list) else {})}
