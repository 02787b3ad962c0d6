"""A run: one step of an agent, from its beginning to its end."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterable
from time import monotonic, time
from typing import Any, Literal, Protocol

from . import capture, stack
from .buffer import Event
from .encoding import TAGS, bounded
from .scope import OUTSIDE, CurrentRun, Scope
from .version import ROOT_METADATA

RunType = Literal["agent", "chain", "tool", "llm"]
NOTHING: Any = object()
"""No input at all, as opposed to the input None."""
COUNT_MOST = 1 << 53
"""Tokens the server can count."""
MESSAGE_CHARS = 8_000
STANDARD_TIERS = frozenset(("", "auto", "default", "standard", "standard_only"))
"""What providers call the tier that has no price of its own."""

_random = random.Random(os.urandom(32))
_bits = _random.getrandbits


def new_id() -> str:
    """32 random hexadecimal digits."""
    return f"{_bits(128):032x}"


def start_anew() -> None:
    """In the child of a fork: makes other ids than its parent."""
    _random.seed(os.urandom(32))


class Reporter(Protocol):
    """The client of a run."""

    enabled: bool
    app_id: str | None
    captures_input: bool
    captures_output: bool
    value_bytes: int
    process: int

    def put(self, event: Event) -> None:
        """Queues an event."""

    def fault(self, error: BaseException) -> None:
        """Logs an error that the application does not see."""


class Run(Scope):
    """A run that has begun. Set what is known of it, then end it; whatever is set after the end is lost.

    `with spindle_client.tool("name") as run:` makes one and ends it. None of its methods raises.
    """

    __slots__ = (
        "_base",
        "_before_s",
        "_began_s",
        "_client",
        "_fields",
        "_is_ended",
        "_process",
        "_size",
        "id",
        "name",
        "parent_id",
        "type",
    )

    def __init__(self, client: Reporter, type: RunType, name: str, around: Scope, parent: CurrentRun | None) -> None:
        self._client = client
        self._fields: dict[str, Any] = {}
        self._size = 0
        # Disabled clients report nothing.
        self._is_ended = not client.enabled
        # Children of a fork do not end what their parent began.
        self._process = client.process
        self._began_s = time()
        self._before_s = monotonic()
        self.id = new_id()
        self.name = name
        self.type: RunType = type
        # What all events of this run say: one of them may be lost. Nothing is added to it once it is queued.
        base: dict[str, Any] = {"name": name, "type": type, "run_id": self.id}
        self._base = base
        self.parent_id = None if parent is None else parent.id
        if parent is not None:
            base["parent_run_id"] = parent.id
        self.tag_names = around.tag_names
        self.user_email = around.user_email
        self.thread_id = around.thread_id
        self.agent = name if type == "agent" else around.agent
        self.is_set = around.is_set or type == "agent"
        if self.is_set:
            self.describe(base)
        if client.app_id is not None:
            base["app_id"] = client.app_id

    @property
    def run(self) -> Run:  # type: ignore[override]
        """Of what happens inside of this run, this is the run."""
        return self

    @property
    def value_bytes(self) -> int:
        """How large an output may be and is kept whole; 0 where outputs are not reported."""
        return self._client.value_bytes if self._client.captures_output else 0

    @property
    def output(self) -> None:
        """What came out; a copy is kept of what is set. It cannot be read back."""

    @output.setter
    def output(self, value: Any) -> None:
        if self._client.captures_output:
            self._set("output", value)

    @property
    def input(self) -> None:
        """What went in, if it was not known when the run began. It cannot be read back."""

    @input.setter
    def input(self, value: Any) -> None:
        if self._client.captures_input:
            self._set("input", value)

    @property
    def model(self) -> str | None:
        """The model that answered."""
        model: str | None = self._fields.get("model")
        return model

    @model.setter
    def model(self, name: str | None) -> None:
        try:
            if name and not self._is_ended:
                self._fields["model"] = bounded(name)
        except Exception as error:
            self._client.fault(error)

    def metadata(self, **keys: Any) -> None:
        """Stores these keys with the run; keys of a second call replace equal keys of the first."""
        if keys and not self._is_ended:
            try:
                before = capture.thaw(self._fields.get("metadata"), self._client.value_bytes)
                self._set("metadata", {**before, **keys} if isinstance(before, dict) else keys)
            except Exception as error:
                self._client.fault(error)

    def tags(self, *tags: str) -> None:
        """Adds tags."""
        if self._is_ended:
            return
        try:
            self._fields["tags"] = unite(self._fields.get("tags", self.tag_names), tags)
        except Exception as error:
            self._client.fault(error)

    @property
    def response_id(self) -> str | None:
        """The identifier that the provider gave to the response: runs of one response are counted once."""
        response_id: str | None = self._fields.get("response_id")
        return response_id

    @response_id.setter
    def response_id(self, response_id: str | None) -> None:
        if isinstance(response_id, str) and response_id and not self._is_ended:
            self._fields["response_id"] = bounded(response_id)

    def first_token(self) -> None:
        """Call it when the first token of a streamed answer is there: it sets `ttft_ms`. Only the first call counts."""
        if "ttft_ms" not in self._fields and not self._is_ended:
            self._fields["ttft_ms"] = max(0, round((monotonic() - self._before_s) * 1000))

    def usage(
        self,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        total_tokens: int | None = None,
        cached_tokens: int | None = None,
        reasoning_tokens: int | None = None,
        *,
        cache_write_tokens: int | None = None,
        cache_write_1h_tokens: int | None = None,
        input_audio_tokens: int | None = None,
        input_image_tokens: int | None = None,
        output_audio_tokens: int | None = None,
        requests: int | None = None,
        service_tier: str | None = None,
        cost: float | None = None,
        estimated_cost: float | None = None,
        ttft_ms: float | None = None,
    ) -> None:
        """What a model call used.

        `prompt_tokens` and `completion_tokens` include everything. The other tokens are parts of them, and no token is
        in two parts: `cached_tokens` were read from a cache, `cache_write_tokens` and `cache_write_1h_tokens` written
        to one of the default lifetime and of one hour, `input_audio_tokens` and `input_image_tokens` are further parts
        of the prompt, `reasoning_tokens` and `output_audio_tokens` of the completion. `requests` are billed beside
        tokens, such as searches. `cost` is what the provider charged, USD; `estimated_cost` counts only for models
        without a price on the server. A second call replaces what it names.
        """
        if self._is_ended:
            return
        fields = self._fields
        for name, count in (
            ("prompt_tokens", prompt_tokens),
            ("completion_tokens", completion_tokens),
            ("total_tokens", total_tokens),
            ("cached_tokens", cached_tokens),
            ("reasoning_tokens", reasoning_tokens),
            ("cache_write_tokens", cache_write_tokens),
            ("cache_write_1h_tokens", cache_write_1h_tokens),
            ("input_audio_tokens", input_audio_tokens),
            ("input_image_tokens", input_image_tokens),
            ("output_audio_tokens", output_audio_tokens),
            ("requests", requests),
        ):
            if type(count) is int and 0 <= count <= COUNT_MOST:
                fields[name] = count
        try:
            if isinstance(service_tier, str) and service_tier.lower() not in STANDARD_TIERS:
                fields["service_tier"] = bounded(service_tier)
            for name, number in (("cost", cost), ("estimated_cost", estimated_cost), ("ttft_ms", ttft_ms)):
                if number is not None and not isinstance(number, (bool, str)):
                    value = float(number)
                    if math.isfinite(value) and value >= 0:
                        fields[name] = round(value) if name == "ttft_ms" else value
        except Exception as error:
            self._client.fault(error)

    @property
    def is_ended(self) -> bool:
        """Whether it has ended; later calls have no effect."""
        return self._is_ended

    def fault(self, error: BaseException) -> None:
        """For integrations: something about this run could not be read, and is left out."""
        self._client.fault(error)

    def end(self, output: Any = None) -> None:
        """Ends the run well. Only the first end of a run counts."""
        if self._is_ended:
            return
        try:
            if output is not None and self._client.captures_output:
                self._fields["output"], size = capture.freeze(output, self._client.value_bytes)
                self._size += size
            self._report("_end")
        except Exception as error:
            self._client.fault(error)

    def fail(self, error: object) -> None:
        """Ends the run with an error: an exception, with its stack, or a text."""
        if self._is_ended:
            return
        try:
            self._fields["error"] = described(error)
            self._size += 2_000
            self._report("_error")
        except Exception as fault:
            self._client.fault(fault)

    @classmethod
    def silent(cls, client: Reporter) -> Run:
        """A run that reports nothing, for where one could not be made."""
        run = cls(client, "chain", "", OUTSIDE, None)
        run._is_ended = True
        return run

    def begin(self, input: Any) -> None:
        """Reports that the run has begun. Called once, by the client."""
        if self._is_ended:
            return
        client = self._client
        more = self._fields.copy()
        if self.parent_id is None:
            # Shared, and never changed.
            more.setdefault("metadata", ROOT_METADATA)
        size = EVENT_BYTES
        if input is not NOTHING and client.captures_input:
            more["input"], input_size = capture.freeze(input, client.value_bytes)
            size += input_size
        client.put((self._base, "_start", self._began_s, more, size))

    def _report(self, phase: str) -> None:
        self._is_ended = True
        if self._process == self._client.process:
            # The clock of the wall may be set meanwhile; how long a run took may not depend on that.
            took_s = monotonic() - self._before_s
            if self.type == "llm":
                # The last to name the model names the one that answered; the server tells milliseconds apart.
                took_s = max(took_s, 0.001)
            ended_s = self._began_s + took_s
            self._client.put((self._base, phase, ended_s, self._fields, EVENT_BYTES + self._size))

    def _set(self, name: str, value: Any) -> None:
        if self._is_ended:
            return
        try:
            self._fields[name], size = capture.freeze(value, self._client.value_bytes)
            self._size += size
        except Exception as error:
            self._client.fault(error)

    def __repr__(self) -> str:
        return f"<Run {self.type} {self.name!r} {self.id}>"


EVENT_BYTES = 700
"""About what an event takes in memory beside its values."""


def unite(tags: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    """Tags without repetition, each as the server takes it."""
    return tuple(dict.fromkeys([*tags, *(bounded(tag) for tag in more)]))[:TAGS]


def described(error: object) -> dict[str, Any]:
    """An error as the server shows it, with its stack as it was taken."""
    if not isinstance(error, BaseException):
        return {"message": capture.cut_long(str(error), MESSAGE_CHARS)}
    try:
        message = str(error)
    except Exception:
        message = "its message cannot be read"
    said: dict[str, Any] = {"name": type(error).__name__, "message": capture.cut_long(message, MESSAGE_CHARS)}
    try:
        said["stack"] = stack.taken(error, said["message"])
    except Exception:
        pass
    return said
