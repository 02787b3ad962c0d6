"""Steps: a decorator and a context manager in one, for the four kinds of runs."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator, Iterable, Mapping
from contextvars import Token
from types import AsyncGeneratorType, CoroutineType, GeneratorType, TracebackType
from typing import Any, Callable, Protocol, TypeVar, cast, overload

from .log import LOGGER
from .run import NOTHING, Run, RunType
from .scope import CURRENT, Scope, enter, leave
from .streams import Parts, astream, stream

Function = TypeVar("Function", bound=Callable[..., Any])
Entered = tuple[Run, Token[Scope], Scope]
_METHODS = (classmethod, staticmethod)
_LATER = frozenset((GeneratorType, AsyncGeneratorType, CoroutineType))


class Starter(Protocol):
    """The client of a step."""

    enabled: bool

    def start(
        self,
        type: RunType,
        name: str | None = None,
        *,
        input: Any = NOTHING,
        model: str | None = None,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
    ) -> Run:
        """Begins a run inside of the current one."""


class Steps:
    """Makes steps of one kind: `@tool`, `@tool("name")` or `with tool("name") as run:`."""

    def __init__(self, client_of: Callable[[], Starter], type: RunType) -> None:
        self._client_of = client_of
        self._type: RunType = type

    @overload
    def __call__(self, name: Function) -> Function: ...

    @overload
    def __call__(
        self,
        name: str | None = None,
        *,
        model: str | None = None,
        input: Any = NOTHING,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        capture_input: bool = True,
        capture_output: bool = True,
    ) -> Step: ...

    def __call__(
        self,
        name: Any = None,
        *,
        model: str | None = None,
        input: Any = NOTHING,
        tags: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        capture_input: bool = True,
        capture_output: bool = True,
    ) -> Any:
        """A step. As a decorator its name is the function's, its input the arguments and its output the result.

        `capture_input=False` and `capture_output=False` keep secrets out of the report; the settings of the client
        can do so for all steps.
        """
        step = Step(self._client_of, self._type)
        step.model = model
        step.input = input
        step.tags = (tags,) if type(tags) is str else tags
        step.metadata = metadata
        step.capture_input = capture_input
        step.capture_output = capture_output
        if name is None or isinstance(name, str):
            step.name = name
            return step
        if callable(name) or isinstance(name, _METHODS):
            return step(name)
        if hasattr(type(name), "__get__"):
            LOGGER.warning("%s of a %s: only functions and methods are steps", self._type, type(name).__name__)
            return name
        # A number or an object as a name: it is reported as text.
        step.name = name
        return step


class Step:
    """One step, to decorate functions with or to enter once. `Steps` makes it."""

    name: str | None
    model: str | None
    input: Any
    tags: Iterable[str]
    metadata: Mapping[str, Any] | None
    capture_input: bool
    capture_output: bool

    def __init__(self, client_of: Callable[[], Starter], type: RunType) -> None:
        self.name = None
        self._client_of = client_of
        self._type: RunType = type
        self._parameters: tuple[str, ...] = ()
        self._skipped = 0
        self._entered: list[Entered] = []

    # As a context manager.

    def __enter__(self) -> Run:
        entered = self._enter(self._client_of(), self.input)
        self._entered.append(entered)
        return entered[0]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._entered:
            run, token, before = self._entered.pop()
            leave(token, before)
            if error is None:
                run.end()
            else:
                run.fail(error)

    async def __aenter__(self) -> Run:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, traceback)

    def _enter(self, client: Starter, given: Any) -> Entered:
        before = CURRENT.get()
        run = client.start(
            self._type,
            self.name,
            input=given if self.capture_input else NOTHING,
            model=self.model,
            tags=self.tags,
            metadata=self.metadata,
        )
        return run, enter(run), before

    # As a decorator.

    def __call__(self, function: Function) -> Function:
        """The function as a step: everything a caller sees of it stays as it is."""
        if isinstance(function, _METHODS):
            return cast(Function, type(function)(self(function.__func__)))
        # One decorator may be used for many functions: each has a step, and with it a name, of its own.
        return copy.copy(self)._decorate(function)

    def _decorate(self, function: Function) -> Function:
        if self.name is None:
            self.name = getattr(function, "__name__", type(function).__name__)
        self._parameters, self._skipped = _parameters_of(function)
        made: Callable[..., Any]
        if inspect.iscoroutinefunction(function):
            made = self._coroutine(function)
        elif inspect.isasyncgenfunction(function):
            made = self._async_generator(function)
        elif inspect.isgeneratorfunction(function):
            made = self._generator(function)
        else:
            made = self._function(function)
        return cast(Function, functools.wraps(function)(made))

    def _given(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
        """The arguments by the names of their parameters."""
        if self._skipped:
            arguments = arguments[1:]
        given = dict(zip(self._parameters, arguments))
        if len(arguments) > len(self._parameters):
            given["args"] = arguments[len(self._parameters) :]
        if keywords:
            given.update(keywords)
        return given

    def _ended(self, run: Run, result: Any) -> None:
        run.end(result if self.capture_output else None)

    def _function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **keywords: Any) -> Any:
            client = self._client_of()
            if not client.enabled:
                return function(*arguments, **keywords)
            run, token, before = self._enter(client, self._given(arguments, keywords))
            try:
                result = function(*arguments, **keywords)
            except BaseException as error:
                leave(token, before)
                run.fail(error)
                raise
            leave(token, before)
            if type(result) in _LATER:
                return self._later(run, result)
            self._ended(run, result)
            return result

        return wrapper

    def _later(self, run: Run, result: Any) -> Any:
        """What a plain function returned and is still going to happen."""
        if isinstance(result, CoroutineType):
            return self._awaited(run, result)
        if isinstance(result, GeneratorType):
            return stream(run, result, self._parts(run))
        return astream(run, result, self._parts(run))

    def _parts(self, run: Run) -> Parts:
        return Parts(run.value_bytes if self.capture_output else 0)

    async def _awaited(self, run: Run, awaitable: Awaitable[Any]) -> Any:
        before = CURRENT.get()
        token = enter(run)
        try:
            result = await awaitable
        except BaseException as error:
            leave(token, before)
            run.fail(error)
            raise
        leave(token, before)
        self._ended(run, result)
        return result

    def _coroutine(self, function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def wrapper(*arguments: Any, **keywords: Any) -> Any:
            client = self._client_of()
            if not client.enabled:
                return await function(*arguments, **keywords)
            run, token, before = self._enter(client, self._given(arguments, keywords))
            try:
                result = await function(*arguments, **keywords)
            except BaseException as error:
                leave(token, before)
                run.fail(error)
                raise
            leave(token, before)
            self._ended(run, result)
            return result

        return wrapper

    # A generator begins with its first item, and so does its run: one that is never read is no run.

    def _generator(self, function: Callable[..., Any]) -> Callable[..., Generator[Any, Any, Any]]:
        def wrapper(*arguments: Any, **keywords: Any) -> Generator[Any, Any, Any]:
            run = self._begun(arguments, keywords)
            return (yield from stream(run, function(*arguments, **keywords), self._parts(run)))

        return wrapper

    def _async_generator(self, function: Callable[..., Any]) -> Callable[..., AsyncGenerator[Any, Any]]:
        async def wrapper(*arguments: Any, **keywords: Any) -> AsyncGenerator[Any, Any]:
            run = self._begun(arguments, keywords)
            source = astream(run, function(*arguments, **keywords), self._parts(run))
            sent: Any = None
            try:
                item = await source.asend(None)
                while True:
                    try:
                        sent = yield item
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        item = await source.athrow(error)
                    else:
                        item = await source.asend(sent)
            except StopAsyncIteration:
                return
            finally:
                await source.aclose()

        return wrapper

    def _begun(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Run:
        run, token, before = self._enter(self._client_of(), self._given(arguments, keywords))
        leave(token, before)
        return run


def _parameters_of(function: Callable[..., Any]) -> tuple[tuple[str, ...], int]:
    """The names of the parameters that take arguments by position, and how many are an object's own."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return (), 0
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = tuple(parameter.name for parameter in parameters if parameter.kind in by_position)
    skipped = 1 if names and names[0] in ("self", "cls") else 0
    return names[skipped:], skipped
