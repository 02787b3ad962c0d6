"""The `anthropic` package: `observe(client)` makes a run of each call of a model.

`messages.create`, whole and streamed, and `messages.stream`, of synchronous and asynchronous clients. Anthropic counts
tokens that were written to or read from its cache beside `input_tokens`; here they are part of the prompt's tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

from spindle_client.client import Client
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


def usage(run: Run, said: Any) -> None:
    """Reads the usage; all tokens of the prompt are its prompt tokens, wherever they came from."""
    fresh = getattr(said, "input_tokens", None)
    if fresh is None:
        return
    written = getattr(said, "cache_creation_input_tokens", None) or 0
    read = getattr(said, "cache_read_input_tokens", None) or 0
    prompt, completion = fresh + written + read, getattr(said, "output_tokens", None) or 0
    run.usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion, cached_tokens=read)


class MessageReading(Reading):
    """`messages`."""

    name = "anthropic.messages"
    parameters = ("max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "thinking", "tool_choice", "tools")

    def input(self, given: Mapping[str, Any]) -> Any:
        messages = given.get("messages")
        if "system" in given and isinstance(messages, (list, tuple)):
            return [{"role": "system", "content": given["system"]}, *messages]
        return messages

    def result(self, run: Run, response: Any) -> None:
        served(run, getattr(response, "model", None))
        usage(run, getattr(response, "usage", None))
        content = getattr(response, "content", None)
        if content is not None:
            run.output = {"role": "assistant", "content": _text_or(content)}

    def collect(self) -> Collected:
        return MessageParts()


def _text_or(blocks: Any) -> Any:
    """The text of blocks that are nothing else; otherwise the blocks."""
    if blocks and all(getattr(block, "type", None) == "text" for block in blocks):
        return "".join(block.text for block in blocks)
    return blocks


class MessageParts(Collected):
    """The events of a streamed message."""

    def __init__(self) -> None:
        self._model: Any = None
        self._counts: dict[str, int] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._left = TEXT_CHARS

    def add(self, part: Any) -> None:
        if part.type == "message_start":
            self._model = part.message.model
            self._count(part.message.usage)
        elif part.type == "message_delta":
            # Sums so far, not what came since.
            self._count(part.usage)
        elif part.type == "content_block_start":
            block = part.content_block
            known = {name: getattr(block, name, None) for name in ("type", "id", "name")}
            self._blocks[part.index] = {name: value for name, value in known.items() if value is not None}
        elif part.type == "content_block_delta":
            for name in ("text", "partial_json", "thinking"):
                text = getattr(part.delta, name, None)
                if isinstance(text, str) and self._left > 0:
                    self._left -= len(text)
                    self._blocks.setdefault(part.index, {"type": "text"}).setdefault(name, []).append(text)

    def _count(self, said: Any) -> None:
        for name in ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"):
            count = getattr(said, name, None)
            if count is not None:
                self._counts[name] = count

    def tell(self, run: Run) -> None:
        served(run, self._model)
        if self._counts:
            usage(run, _Counts(self._counts))
        blocks = [
            {name: "".join(value) if isinstance(value, list) else value for name, value in block.items()}
            for _, block in sorted(self._blocks.items())
        ]
        for block in blocks:
            if "partial_json" in block:
                block["input"] = block.pop("partial_json")
        if blocks:
            is_text = all(block.get("type") == "text" for block in blocks)
            content = "".join(block.get("text", "") for block in blocks) if is_text else blocks
            run.output = {"role": "assistant", "content": content}


class _Counts:
    """Counts of several events, as one usage."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.__dict__.update(counts)


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
        return self._stream

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        self._end(error)
        return await self._manager.__aexit__(kind, error, traceback)

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
