"""Workflows and activities as typed objects made by decorators and called by reference."""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Callable, Coroutine, Mapping
from types import SimpleNamespace
from typing import Any, Generic, Protocol, TypeVar, TypeVarTuple, Unpack, overload

from queen.durable.activity_context import ActivityContext
from queen.durable.codec import decode, decode_arguments, encode, encode_arguments
from queen.durable.errors import CallFailed, DirectCall, OrchestrationRaised, RegistrationError
from queen.durable.limits import Limit, Place
from queen.durable.registry import DEFAULT_VERSION, RegisteredActivity, RegisteredOrchestration
from queen.durable.replay.action import RunActivity
from queen.durable.replay.inside import is_inside_turn
from queen.durable.replay.machine import Entry, Machine
from queen.durable.replay.syscalls import TAKE_PLACE
from queen.durable.workflow_context import WorkflowContext

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Ts = TypeVarTuple("Ts")

_log = logging.getLogger("queen.durable.trace")


class _Signature:
    """The JSON types of a function's parameters and result, without the context it may ask for."""

    def __init__(self, function: Callable[..., Any], *, always_context: bool) -> None:
        hints = _hints(function, but_first=always_context)
        found = [
            each
            for each in inspect.signature(function).parameters.values()
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        self.takes_context = always_context or (bool(found) and hints.get(found[0].name) is ActivityContext)
        if self.takes_context:
            found = found[1:]
        self._signature = inspect.Signature(found)
        self._kinds = tuple(hints.get(each.name, Any) for each in found)
        self._defaults = tuple(each.default for each in found if each.default is not each.empty)
        self.result = hints.get("return", Any)

    def bind(self, name: str, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> tuple[object, ...]:
        """The arguments by position. Defaults at the end are left to the code that runs them."""
        try:
            bound = self._signature.bind(*arguments, **keywords)
        except TypeError as error:
            raise TypeError(f"{name}{self._signature}: {error}") from None
        if keywords:
            last = max(list(self._signature.parameters).index(each) for each in bound.arguments)
            bound.apply_defaults()
            return bound.args[: last + 1]
        return bound.args

    def filled(self, arguments: tuple[object, ...]) -> tuple[object, ...]:
        """Arguments by position with the defaults of those left out."""
        bound = self._signature.bind(*arguments)
        bound.apply_defaults()
        return bound.args

    def decode(self, text: str) -> tuple[Any, ...]:
        """The arguments of a stored input; what it does not have gets its default."""
        return decode_arguments(text, self._kinds, self._defaults)


def _hints(function: Callable[..., Any], *, but_first: bool) -> dict[str, Any]:
    """The types of JSON values; a context or connection need not be resolvable."""
    told = dict(getattr(function, "__annotations__", {}))
    if but_first:
        told.pop(next(iter(inspect.signature(function).parameters), ""), None)
    try:
        return typing.get_type_hints(SimpleNamespace(__annotations__=told), globalns=function.__globals__)
    except NameError as error:
        raise RegistrationError(
            f"the annotations of {function.__name__!r} cannot be resolved ({error}); use types defined at module level"
        ) from error


class Activity(Generic[R_co, *Ts]):
    """A step with effects: run at least once, its result recorded once. Call it directly in unit tests."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None,
        limit: Limit | None = None,
        *,
        in_transaction: bool = False,
    ) -> None:
        if in_transaction and not inspect.iscoroutinefunction(function):
            raise RegistrationError(f"transaction {function.__name__!r} must be an async def")
        self.function = function
        self.name = name or function.__name__
        self.limit = limit
        self.in_transaction = in_transaction
        self._signature = _Signature(function, always_context=in_transaction)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The plain function, for tests; inside a workflow it would run in every replay, and is refused."""
        if is_inside_turn():
            called = self.function.__name__
            raise DirectCall(
                f"activity {self.name!r} was called directly inside a workflow, where it would run again in every "
                f"replay; write: await ctx.activity({called}, ...)"
            )
        return self.function(*arguments, **keywords)

    def encode(self, arguments: tuple[object, ...], keywords: Mapping[str, object] | None = None) -> str:
        """The arguments as the activity's input."""
        return encode_arguments(self._signature.bind(f"activity {self.name!r}", arguments, keywords or {}))

    def place(self, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> Place | None:
        """What a call waits for before it runs."""
        if self.limit is None:
            return None
        bound = self._signature.bind(f"activity {self.name!r}", arguments, keywords)
        return self.limit.place(f"activity {self.name}", self._signature.filled(bound))

    def decode(self, text: str) -> R_co:
        """A recorded result."""
        result: R_co = decode(text, self._signature.result)
        return result

    def registered(self) -> RegisteredActivity:
        """As the registry wants it."""
        signature, function = self._signature, self.function

        def arguments(context: ActivityContext, text: str) -> tuple[Any, ...]:
            decoded = signature.decode(text)
            first = context.connection if self.in_transaction else context
            return (first, *decoded) if signature.takes_context else decoded

        if inspect.iscoroutinefunction(function):

            async def call_async(context: ActivityContext, text: str) -> str:
                return encode(await function(*arguments(context, text)))

            return RegisteredActivity(self.name, call_async, is_async=True, in_transaction=self.in_transaction)

        def call(context: ActivityContext, text: str) -> str:
            return encode(function(*arguments(context, text)))

        return RegisteredActivity(self.name, call, is_async=False)


class Workflow(Generic[R_co, *Ts]):
    """An `async def` that survives crashes. `version` tells apart the code of running and new instances.

    One declared with a version is started in that version, one without in the newest that is registered.
    """

    def __init__(
        self,
        function: Callable[..., Coroutine[Any, Any, R_co]],
        name: str | None,
        version: str | None,
        limit: Limit | None = None,
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            raise RegistrationError(f"workflow {function.__name__!r} must be an async def")
        self.function = function
        self.name = name or function.__name__
        self.version = version or DEFAULT_VERSION
        self.pinned_version = version
        self.limit = limit
        self._signature = _Signature(function, always_context=True)

    def encode(self, arguments: tuple[object, ...], keywords: Mapping[str, object] | None = None) -> str:
        """The arguments as the workflow's input."""
        return encode_arguments(self._signature.bind(f"workflow {self.name!r}", arguments, keywords or {}))

    def decode(self, text: str) -> R_co:
        """A recorded result."""
        result: R_co = decode(text, self._signature.result)
        return result

    def registered(self) -> RegisteredOrchestration:
        """As the registry wants it."""
        return RegisteredOrchestration(self.name, self.version, self.entry, limited=self.limit is not None)

    @property
    def entry(self) -> Entry:
        """What the replay machine runs."""
        return self._begin

    async def _begin(self, machine: Machine) -> str:
        started = machine.started
        try:
            arguments = self._signature.decode(started.input)
            if started.limited:
                await machine.run_activity(self._take_place(arguments))
            return encode(await self.function(WorkflowContext(machine), *arguments))
        except CallFailed as failed:
            raise OrchestrationRaised(str(failed)) from failed
        except Exception as error:
            if not machine.replaying:
                _log.warning("workflow %s (%s) raised", started.instance, self.name, exc_info=True)
            raise OrchestrationRaised(f"{type(error).__name__}: {error}") from error

    def _take_place(self, arguments: tuple[Any, ...]) -> RunActivity:
        place = None if self.limit is None else self.limit.place(f"workflow {self.name}", arguments, kept=True)
        return RunActivity(name=TAKE_PLACE, input="null", place=place)


class _MakesActivity(Protocol):
    @overload
    def __call__(
        self, function: Callable[[ActivityContext, Unpack[Ts]], Coroutine[Any, Any, R]], /
    ) -> Activity[R, *Ts]: ...
    @overload
    def __call__(self, function: Callable[[Unpack[Ts]], Coroutine[Any, Any, R]], /) -> Activity[R, *Ts]: ...
    @overload
    def __call__(self, function: Callable[[ActivityContext, Unpack[Ts]], R], /) -> Activity[R, *Ts]: ...
    @overload
    def __call__(self, function: Callable[[Unpack[Ts]], R], /) -> Activity[R, *Ts]: ...


@overload
def activity(function: Callable[[ActivityContext, Unpack[Ts]], Coroutine[Any, Any, R]], /) -> Activity[R, *Ts]: ...
@overload
def activity(function: Callable[[Unpack[Ts]], Coroutine[Any, Any, R]], /) -> Activity[R, *Ts]: ...
@overload
def activity(function: Callable[[ActivityContext, Unpack[Ts]], R], /) -> Activity[R, *Ts]: ...
@overload
def activity(function: Callable[[Unpack[Ts]], R], /) -> Activity[R, *Ts]: ...
@overload
def activity(*, name: str | None = None, limit: Limit | None = None) -> _MakesActivity: ...
def activity(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, limit: Limit | None = None
) -> Any:
    """Make a function an activity. Sync functions run on threads, async ones on the worker's loop.

    >>> @activity
    ... async def charge(card: str, cents: int) -> str: ...
    """
    if function is None:
        return lambda made: Activity(made, name, limit)
    return Activity(function, name, limit)


@overload
def transaction(function: Callable[[Any, Unpack[Ts]], Coroutine[Any, Any, R]], /) -> Activity[R, *Ts]: ...
@overload
def transaction(
    *, name: str | None = None, limit: Limit | None = None
) -> Callable[[Callable[[Any, Unpack[Ts]], Coroutine[Any, Any, R]]], Activity[R, *Ts]]: ...
def transaction(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, limit: Limit | None = None
) -> Any:
    """Make an `async def` an activity that runs inside a transaction of the store's database, exactly once.

    Its first parameter is an asyncpg connection: what is written there is committed together with the result, or not
    at all. PostgreSQL only.

    >>> @transaction
    ... async def book(connection: asyncpg.Connection, order: str) -> int:
    ...     return await connection.fetchval("insert into bookings (ord) values ($1) returning id", order)
    """
    if function is None:
        return lambda made: Activity(made, name, limit, in_transaction=True)
    return Activity(function, name, limit, in_transaction=True)


@overload
def workflow(function: Callable[[WorkflowContext, Unpack[Ts]], Coroutine[Any, Any, R]], /) -> Workflow[R, *Ts]: ...
@overload
def workflow(
    *, name: str | None = None, version: str | None = None, limit: Limit | None = None
) -> Callable[[Callable[[WorkflowContext, Unpack[Ts]], Coroutine[Any, Any, R]]], Workflow[R, *Ts]]: ...
def workflow(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    limit: Limit | None = None,
) -> Any:
    """Make an `async def` a workflow.

    >>> @workflow
    ... async def checkout(ctx: WorkflowContext, order: str) -> str:
    ...     return await ctx.activity(charge, order, 100)
    """
    if function is None:
        return lambda made: Workflow(made, name, version, limit)
    return Workflow(function, name, version, limit)
