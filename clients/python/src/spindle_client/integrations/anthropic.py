"""The `anthropic` package: `observe(client)` makes a run of each call of a model.

`messages.create`, whole and streamed, and `messages.stream`, of synchronous and asynchronous clients. Anthropic counts
tokens that were written to or read from its cache beside `input_tokens`; here they are part of the prompt's tokens.
"""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, TypeVar

from spindle_client.client import Client
from spindle_client.integrations.fields import count, field, plain, text_or_blocks
from spindle_client.integrations.observed import MARK, Collected, Reading, begin, finish, observe_method, served
from spindle_client.run import Run

Observed = TypeVar("Observed")
TEXT_CHARS = 1 << 20
"""Characters of a streamed answer that are kept while it comes."""


def observe(client: Observed, *, spindle: Client | None = None) -> Observed:
    """Makes a run of each call of this client, and returns it.

    `spindle` is the client to report to, if it is not that of the module. Clients made of it by `with_options` are
    others; observe them too. Calls by `with_raw_response` are runs without output.
    """
    messages = getattr(client, "messages", None)
    if messages is not None:
        observe_method(messages, "create", MessageReading(), spindle)
        observe_method(messages, "parse", MessageReading(), spindle)
        _observe_stream(messages, spindle)
    return client


PARAMETERS = (
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "thinking",
    "tools",
    "tool_choice",
    "service_tier",
    "stream",
)
"""Also in the TypeScript client; `clients/fixtures` has what both report."""


def usage(run: Run, said: Any) -> None:
    """Reads the usage; all tokens of the prompt are its prompt tokens, wherever they came from."""
    fresh = count(said, "input_tokens")
    if fresh is None:
        return
    read = count(said, "cache_read_input_tokens")
    # By lifetime where the provider says it; what it does not divide has the default one.
    lifetimes = field(said, "cache_creation")
    hour = count(lifetimes, "ephemeral_1h_input_tokens")
    divided = (count(lifetimes, "ephemeral_5m_input_tokens") or 0) + (hour or 0)
    created = count(said, "cache_creation_input_tokens")
    written = max(created or 0, divided)
    prompt = fresh + written + (read or 0)
    completion = count(said, "output_tokens")
    is_fast = field(said, "speed") == "fast"
    run.usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + (completion or 0),
        cached_tokens=read,
        cache_write_tokens=None if created is None and lifetimes is None else written - (hour or 0),
        cache_write_1h_tokens=hour,
        reasoning_tokens=count(field(said, "output_tokens_details"), "thinking_tokens"),
        requests=count(field(said, "server_tool_use"), "web_search_requests"),
        service_tier="fast" if is_fast else field(said, "service_tier"),
    )


class MessageReading(Reading):
    """`messages`."""

    name = "anthropic.messages"
    parameters = PARAMETERS

    def input(self, given: Mapping[str, Any]) -> Any:
        messages = given.get("messages")
        if "system" in given and isinstance(messages, (list, tuple)):
            return [{"role": "system", "content": given["system"]}, *messages]
        return messages

    def result(self, run: Run, response: Any) -> None:
        served(run, field(response, "model"), field(response, "id"))
        usage(run, field(response, "usage"))
        content = field(response, "content")
        _answered(run, content, field(response, "stop_reason"))

    def collect(self) -> Collected:
        return MessageParts()


def _answered(run: Run, content: Any, reason: Any) -> None:
    if isinstance(reason, str):
        run.metadata(finish_reason=reason)
    if content is not None:
        run.output = {"role": "assistant", "content": text_or_blocks(content)}


class MessageParts(Collected):
    """The events of a streamed message."""

    def __init__(self) -> None:
        self._model: Any = None
        self._id: Any = None
        self._reason: Any = None
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}
        self._left = TEXT_CHARS

    def add(self, part: Any) -> bool:
        kind = part.type
        if kind == "message_start":
            self._model = field(part.message, "model")
            self._id = field(part.message, "id")
            self._count(part.message.usage)
        elif kind == "message_delta":
            # Sums so far, not what came since.
            self._count(part.usage)
            self._reason = field(part.delta, "stop_reason") or self._reason
        elif kind == "content_block_start":
            self._blocks[part.index] = dict(plain(part.content_block))
        elif kind == "content_block_delta":
            for name in ("text", "thinking", "partial_json"):
                text = field(part.delta, name)
                if isinstance(text, str) and self._left > 0:
                    self._left -= len(text)
                    self._pieces.setdefault((part.index, name), []).append(text)
        return bool(kind == "content_block_delta")

    def _count(self, said: Any) -> None:
        for name, value in (plain(said) or {}).items():
            if value is not None:
                self._usage[name] = value

    def tell(self, run: Run) -> None:
        served(run, self._model, self._id)
        usage(run, self._usage)
        for (index, name), pieces in self._pieces.items():
            block = self._blocks.setdefault(index, {"type": "text"})
            text = "".join(pieces)
            if name == "partial_json":
                block["input"] = _parsed(text)
            else:
                block[name] = text
        _answered(run, [block for _, block in sorted(self._blocks.items())] or None, self._reason)


def _parsed(text: str) -> Any:
    """The input of a tool, which comes as pieces of JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _observe_stream(messages: Any, spindle: Client | None) -> None:
    original = getattr(messages, "stream", None)
    if original is None or getattr(original, MARK, False):
        return

    @functools.wraps(original)
    def stream(*arguments: Any, **keywords: Any) -> Any:
        return ObservedManager(original(*arguments, **keywords), spindle, keywords)

    setattr(stream, MARK, True)
    messages.stream = stream


class ObservedManager:
    """What `messages.stream` returns: its run lasts as long as the `with` around it."""

    def __init__(self, manager: Any, spindle: Client | None, keywords: Mapping[str, Any]) -> None:
        self._manager = manager
        self._spindle = spindle
        self._keywords = keywords
        self._reading = MessageReading()
        self._run: Run | None = None
        self._stream: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def __enter__(self) -> Any:
        self._run = begin(self._spindle, self._reading, self._keywords)
        try:
            self._stream = self._manager.__enter__()
        except BaseException as error:
            self._run.fail(error)
            raise
        self._observe_tokens(_tokens)
        return self._stream

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        self._end(error)
        return self._manager.__exit__(kind, error, traceback)

    async def __aenter__(self) -> Any:
        self._run = begin(self._spindle, self._reading, self._keywords)
        try:
            self._stream = await self._manager.__aenter__()
        except BaseException as error:
            self._run.fail(error)
            raise
        self._observe_tokens(_async_tokens)
        return self._stream

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        self._end(error)
        return await self._manager.__aexit__(kind, error, traceback)

    def _observe_tokens(self, observed: Any) -> None:
        """All ways to read the stream go through its iterator; without one, the first token is not noticed."""
        iterator = getattr(self._stream, "_iterator", None)
        if iterator is not None:
            try:
                self._stream._iterator = observed(self._run, iterator)
            except Exception:
                # A stream that does not let itself be observed.
                return

    def _end(self, error: BaseException | None) -> None:
        run = self._run
        if run is None:
            return
        try:
            snapshot = self._stream.current_message_snapshot
        except Exception:
            # Nothing of the message had come.
            snapshot = None
        if error is None:
            finish(run, lambda: self._tell(run, snapshot))
            return
        try:
            self._tell(run, snapshot)
        except Exception as fault:
            run.fault(fault)
        run.fail(error)

    def _tell(self, run: Run, snapshot: Any) -> None:
        if snapshot is not None:
            self._reading.result(run, snapshot)


def _tokens(run: Run, events: Iterator[Any]) -> Iterator[Any]:
    for event in events:
        if field(event, "type") == "content_block_delta":
            run.first_token()
        yield event


async def _async_tokens(run: Run, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for event in events:
        if field(event, "type") == "content_block_delta":
            run.first_token()
        yield event
