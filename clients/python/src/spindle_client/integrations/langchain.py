"""The `langchain-core` package: a callback handler that makes runs of chains, agents, models, tools and retrievers.

chain.invoke(question, config={"callbacks": [SpindleHandler()]})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

import spindle_client
from spindle_client.capture import DEPTH, NODES
from spindle_client.client import Client
from spindle_client.integrations.fields import count, parts
from spindle_client.integrations.observed import served
from spindle_client.integrations.openai import usage
from spindle_client.run import Run, RunType

OPEN_RUNS = 10_000
"""Runs that may be open at a time; the oldest are forgotten, for some never end."""
HIDDEN = "langsmith:hidden"
"""Marks the inner steps of the package, which say nothing to a person."""
INNER_TAGS = ("seq:step:", "map:key:", "branch:", "condition:", "langsmith:", "graph:step:")
ROLES = {"human": "user", "ai": "assistant", "HumanMessageChunk": "user", "AIMessageChunk": "assistant"}
PARAMETERS = ("temperature", "max_tokens", "max_completion_tokens", "top_p", "stop", "tool_choice", "tools")


class SpindleHandler(BaseCallbackHandler):
    """Reports what LangChain does. One handler may be used by many calls and threads at a time.

    Its runs are inside of the run that surrounds the call. `spindle` is the client to report to, if it is not that of
    the module.
    """

    run_inline = True
    """In the order of the events, also where the application is asynchronous."""

    def __init__(self, *, spindle: Client | None = None) -> None:
        super().__init__()
        self._client = spindle
        self._runs: dict[UUID, Run | None] = {}

    # Beginnings.

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A chain, or an agent if its name says so."""
        name = _name(serialized, kwargs, "chain")
        self._start("agent" if "agent" in name.lower() else "chain", name, inputs, run_id, kwargs)

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool."""
        given = kwargs.get("inputs") or input_str
        self._start("tool", _name(serialized, kwargs, "tool"), given, run_id, kwargs)

    def on_retriever_start(self, serialized: Any, query: str, *, run_id: UUID, **kwargs: Any) -> None:
        """A retriever is a tool that finds documents."""
        self._start("tool", _name(serialized, kwargs, "retriever"), query, run_id, kwargs)

    def on_llm_start(self, serialized: Any, prompts: list[str], *, run_id: UUID, **kwargs: Any) -> None:
        """A model that completes text."""
        given = prompts[0] if len(prompts) == 1 else prompts
        self._start("llm", _name(serialized, kwargs, "llm"), given, run_id, kwargs)

    def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A model that answers messages."""
        given = messages[0] if len(messages) == 1 else messages
        self._start("llm", _name(serialized, kwargs, "chat model"), given, run_id, kwargs)

    def _start(self, type: RunType, name: str, given: Any, run_id: UUID, said: Mapping[str, Any]) -> None:
        client = self._client or spindle_client.client()
        try:
            tags = [tag for tag in said.get("tags") or [] if not tag.startswith(INNER_TAGS)]
            parent_id = said.get("parent_run_id")
            parent = self._runs.get(parent_id) if parent_id is not None else None
            if HIDDEN in (said.get("tags") or []):
                # What happens inside of it is inside of what it is itself inside of.
                self._keep(run_id, parent)
                return
            parameters = said.get("invocation_params") or {}
            metadata = {
                key: value for key, value in (said.get("metadata") or {}).items() if not key.startswith(("ls_", "lc_"))
            }
            metadata.update((key, parameters[key]) for key in PARAMETERS if parameters.get(key) is not None)
            model = parameters.get("model") or parameters.get("model_name")
            model = model or (said.get("metadata") or {}).get("ls_model_name")
            run = client.start(
                type,
                name,
                input=_plain(given),
                model=str(model) if type == "llm" and model else None,
                tags=tags,
                metadata=metadata,
                parent=parent,
            )
            self._keep(run_id, run)
        except Exception as error:
            client.fault(error)

    def _keep(self, run_id: UUID, run: Run | None) -> None:
        # Without a lock, which a fork could leave closed for ever: each step of this is one for the interpreter.
        self._runs[run_id] = run
        if len(self._runs) > OPEN_RUNS:
            try:
                self._runs.pop(next(iter(self._runs)), None)
            except (RuntimeError, StopIteration):
                # Another thread changed them meanwhile, and forgets the oldest itself.
                pass

    def _pop(self, run_id: UUID, said: Mapping[str, Any]) -> Run | None:
        run = self._runs.pop(run_id, None)
        # A hidden step stands for its parent, which goes on.
        return None if run is not None and HIDDEN in (said.get("tags") or []) else run

    # Ends.

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **_: Any) -> None:
        """A piece of a streamed answer."""
        run = self._runs.get(run_id)
        if run is not None and (token or getattr(getattr(chunk, "message", None), "tool_call_chunks", None)):
            run.first_token()

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A chain or an agent."""
        self._end(self._pop(run_id, kwargs), outputs)

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool."""
        self._end(self._pop(run_id, kwargs), output)

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **kwargs: Any) -> None:
        """A retriever."""
        self._end(self._pop(run_id, kwargs), documents)

    def on_llm_end(self, response: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """A model, of either kind."""
        run = self._pop(run_id, kwargs)
        if run is None:
            return
        try:
            answers = [generation for several in response.generations for generation in several]
            said = [_plain(getattr(answer, "message", None) or answer.text) for answer in answers]
            _tell_usage(run, answers, response.llm_output or {})
            run.output = said[0] if len(said) == 1 else said
        except Exception as error:
            run.fault(error)
        run.end()

    def _end(self, run: Run | None, output: Any) -> None:
        if run is not None:
            try:
                run.output = _plain(output)
            except Exception as error:
                run.fault(error)
            run.end()

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A chain or an agent failed."""
        self._fail(error, run_id, kwargs)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A tool failed."""
        self._fail(error, run_id, kwargs)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A retriever failed."""
        self._fail(error, run_id, kwargs)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """A model failed."""
        self._fail(error, run_id, kwargs)

    def _fail(self, error: BaseException, run_id: UUID, said: Mapping[str, Any]) -> None:
        run = self._pop(run_id, said)
        if run is not None:
            run.fail(error)


def _name(serialized: Any, said: Mapping[str, Any], otherwise: str) -> str:
    """What the application or the package calls a step."""
    known = serialized if isinstance(serialized, dict) else {}
    path = known.get("id") or [otherwise]
    return str(said.get("name") or known.get("name") or path[-1])


def _plain(value: Any) -> Any:
    """Messages as role and content, wherever they stand; documents by their text."""
    try:
        return _Plain().value(value, 0)
    except Exception:
        # Changed by another thread, or it cannot be read: kept as what it is, as far as that goes.
        return value


class _Plain:
    """One way through a value, with how many parts of it may still be looked at.

    What is too deep or too many stays as it is: `freeze` bounds it, and says where it cut.
    """

    def __init__(self) -> None:
        self._left = NODES

    def value(self, value: Any, depth: int) -> Any:
        """A part of the value."""
        self._left -= 1
        if self._left < 0 or depth > DEPTH:
            return value
        if isinstance(value, (dict, list, tuple)):
            if len(value) > self._left:
                return value
            if isinstance(value, dict):
                return {key: self.value(part, depth + 1) for key, part in list(value.items())}
            return [self.value(part, depth + 1) for part in value]
        kind = getattr(value, "type", None)
        if isinstance(kind, str) and hasattr(value, "content") and hasattr(value, "additional_kwargs"):
            said = {"role": getattr(value, "role", None) or ROLES.get(kind, kind), "content": value.content}
            for name in ("tool_calls", "tool_call_id", "name"):
                if getattr(value, name, None):
                    said[name] = getattr(value, name)
            return said
        if hasattr(value, "page_content"):
            return {"page_content": value.page_content, "metadata": getattr(value, "metadata", None)}
        if hasattr(value, "to_messages"):
            return self.value(value.to_messages(), depth + 1)
        return value


def _tell_usage(run: Run, answers: list[Any], output: Mapping[str, Any]) -> None:
    """Tokens as the messages count them, else as the package that called the model does."""
    messages = [getattr(answer, "message", None) for answer in answers]
    counts = [getattr(message, "usage_metadata", None) for message in messages]
    metadata: Mapping[str, Any] = {}
    for message in messages:
        metadata = metadata or getattr(message, "response_metadata", None) or {}
    model = output.get("model_name") or metadata.get("model_name") or metadata.get("model")
    served(run, model, _response_id(messages, metadata))
    known = [one for one in counts if one]
    said = output.get("token_usage") or output.get("usage") or {}
    tier = metadata.get("service_tier")
    if len(answers) > 1:
        if _is_whole(said):
            usage(run, said, service_tier=tier)
            return
        # Some packages give each answer the usage of the whole response.
        known = [one for place, one in enumerate(known) if one not in known[:place]]
    if known:
        _tell_known(run, known, tier)
    else:
        usage(run, said, service_tier=tier)


def _response_id(messages: list[Any], metadata: Mapping[str, Any]) -> Any:
    """The provider's identifier; where it is unknown the package makes one, which says nothing."""
    found = metadata.get("id") or (getattr(messages[0], "id", None) if messages else None)
    is_made = isinstance(found, str) and found.startswith(("run-", "lc_"))
    return None if is_made else found


TIERS = ("priority", "flex")
"""The package for OpenAI puts these before the names of the counts."""


def _tell_known(run: Run, known: list[Any], tier: Any) -> None:
    """The usage of messages; several answers to one prompt each count the prompt."""
    first = known[0].get("input_token_details") or {}
    outs = [one.get("output_token_details") or {} for one in known]
    tier = tier or next((name for name in TIERS if name in first or any(name in out for out in outs)), None)
    prompt = known[0].get("input_tokens")
    completion = sum(one.get("output_tokens") or 0 for one in known)
    hour = _detail(first, "ephemeral_1h_input_tokens")
    short = _detail(first, "ephemeral_5m_input_tokens")
    created = _detail(first, "cache_creation")
    written = None if created is None and short is None else max((created or 0) - (hour or 0), short or 0)
    cached, written, hour, audio, image = parts(
        prompt, _detail(first, "cache_read"), written, hour, _detail(first, "audio"), _detail(first, "image")
    )
    reasoning, spoken = parts(completion, _sum(outs, "reasoning"), _sum(outs, "audio"))
    run.usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=known[0].get("total_tokens") if len(known) == 1 else None,
        cached_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=hour,
        input_audio_tokens=audio,
        input_image_tokens=image,
        reasoning_tokens=reasoning,
        output_audio_tokens=spoken,
        service_tier=tier,
    )


def _detail(details: Mapping[str, Any], name: str) -> int | None:
    """A part of the tokens, with or without its tier."""
    found = [count(details, name), *(count(details, f"{tier}_{name}") for tier in TIERS)]
    known = [one for one in found if one is not None]
    return sum(known) if known else None


def _sum(details: list[Any], name: str) -> int | None:
    known = [one for one in (_detail(each, name) for each in details) if one is not None]
    return sum(known) if known else None


def _is_whole(said: Any) -> bool:
    """Whether this counts the whole response, as the packages for OpenAI and those like it do."""
    return isinstance(said, Mapping) and all(
        type(said.get(f"{part}_tokens")) is int for part in ("prompt", "completion")
    )
