"""Model calls of other packages' clients as runs: what the integrations for such packages have in common."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import spindle_client
from spindle_client.client import Client
from spindle_client.run import Run

ABSENT = frozenset(("NotGiven", "Omit", "NoneType"))
"""The names of the types by which these packages say that an argument is not given."""
MARK = "__spindle_observed__"


class Reading:
    """How the calls of one method are read. Reads only attributes, so that no package has to be imported."""

    name = "call"
    """The run's name."""
    parameters: tuple[str, ...] = ()
    """The arguments that are kept as metadata."""

    def input(self, given: Mapping[str, Any]) -> Any:
        """What went into the model."""
        raise NotImplementedError

    def result(self, run: Run, response: Any) -> None:
        """Tells the run what came out of the model."""
        raise NotImplementedError

    def collect(self) -> Collected:
        """What keeps the parts of a stream."""
        raise NotImplementedError


class Collected:
    """The parts of a stream, as far as they make the output."""

    def add(self, part: Any) -> bool:
        """Takes a part; whether it holds something that the model said."""
        raise NotImplementedError

    def tell(self, run: Run) -> None:
        """Tells the run what came out of the model so far."""
        raise NotImplementedError


def given(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments without those that say they are none."""
    return {name: value for name, value in keywords.items() if type(value).__name__ not in ABSENT}


def begin(client: Client | None, reading: Reading, keywords: Mapping[str, Any]) -> Run:
    """Begins the run of a call."""
    client = client or spindle_client.client()
    try:
        arguments = given(keywords)
        metadata = {name: arguments[name] for name in reading.parameters if name in arguments}
        model = arguments.get("model")
        return client.start(
            "llm", reading.name, input=reading.input(arguments), model=model and str(model), metadata=metadata
        )
    except Exception as error:
        client.fault(error)
        return Run.silent(client)


def finish(run: Run, tell: Callable[[], None]) -> None:
    """Ends the run of a call that went well; what cannot be read of its result is left out."""
    try:
        tell()
    except Exception as error:
        run.fault(error)
    run.end()


def served(run: Run, model: Any, response_id: Any = None) -> None:
    """Tells the run which model answered, as it costs what that one costs, and which response it is."""
    if response_id is not None:
        run.response_id = response_id
    if isinstance(model, str) and model and model != run.model:
        if run.model:
            run.metadata(requested_model=run.model)
        run.model = model


def observe_method(resource: Any, name: str, reading: Reading, client: Client | None) -> None:
    """Makes a run of each call of a method, and leaves what the method returns as it is."""
    original = getattr(resource, name, None)
    if original is None or getattr(original, MARK, False):
        return
    is_async = type(resource).__name__.startswith("Async") or inspect.iscoroutinefunction(original)
    made = _async_method(original, reading, client) if is_async else _method(original, reading, client)
    setattr(made, MARK, True)
    setattr(resource, name, made)


def _method(original: Any, reading: Reading, client: Client | None) -> Any:
    @functools.wraps(original)
    def method(*arguments: Any, **keywords: Any) -> Any:
        run = begin(client, reading, keywords)
        try:
            response = original(*arguments, **keywords)
        except BaseException as error:
            run.fail(error)
            raise
        if keywords.get("stream") is True and hasattr(response, "__iter__"):
            return ObservedStream(response, run, reading.collect())
        finish(run, lambda: reading.result(run, response))
        return response

    return method


def _async_method(original: Any, reading: Reading, client: Client | None) -> Any:
    @functools.wraps(original)
    async def method(*arguments: Any, **keywords: Any) -> Any:
        run = begin(client, reading, keywords)
        try:
            response = await original(*arguments, **keywords)
        except BaseException as error:
            run.fail(error)
            raise
        if keywords.get("stream") is True and hasattr(response, "__aiter__"):
            return ObservedAsyncStream(response, run, reading.collect())
        finish(run, lambda: reading.result(run, response))
        return response

    return method


class _Observed:
    """Stands for a stream and is like it in everything; its run ends with it."""

    def __init__(self, stream: Any, run: Run, collected: Collected) -> None:
        self._spindle = (stream, run, collected)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._spindle[0])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spindle[0], name)

    def __del__(self) -> None:
        self._end()

    def _add(self, part: Any) -> Any:
        _, run, collected = self._spindle
        try:
            if collected.add(part):
                run.first_token()
        except Exception as error:
            run.fault(error)
        return part

    def _end(self) -> None:
        _, run, collected = self._spindle
        if not run.is_ended:
            finish(run, lambda: collected.tell(run))

    def _fail(self, error: BaseException) -> None:
        _, run, collected = self._spindle
        if not run.is_ended:
            try:
                collected.tell(run)
            except Exception as fault:
                run.fault(fault)
            run.fail(error)


class ObservedStream(_Observed):
    """A stream."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                part = self.__next__()
            except StopIteration:
                return
            yield part

    def __next__(self) -> Any:
        try:
            return self._add(next(self._spindle[0]))
        except StopIteration:
            self._end()
            raise
        except BaseException as error:
            self._fail(error)
            raise

    def __enter__(self) -> ObservedStream:
        self._spindle[0].__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        self._end()
        return self._spindle[0].__exit__(*error)

    def close(self) -> None:
        """Closes the stream."""
        self._end()
        self._spindle[0].close()


class ObservedAsyncStream(_Observed):
    """An asynchronous stream."""

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            try:
                part = await self.__anext__()
            except StopAsyncIteration:
                return
            yield part

    async def __anext__(self) -> Any:
        try:
            return self._add(await self._spindle[0].__anext__())
        except StopAsyncIteration:
            self._end()
            raise
        except BaseException as error:
            self._fail(error)
            raise

    async def __aenter__(self) -> ObservedAsyncStream:
        await self._spindle[0].__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        self._end()
        return await self._spindle[0].__aexit__(*error)

    async def close(self) -> None:
        """Closes the stream."""
        self._end()
        await self._spindle[0].close()
