"""The function that handles messages: whatever kind of callable it is, it runs to its end before a message counts."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

from queen.client.message import Delivered
from queen.client.threads import Threads

Function = Callable[..., Any]


class Work:
    """Calls a function for messages: asynchronous ones on the loop, all others on threads.

    What it returns is awaited where it can be, so a lambda or a decorator around an asynchronous function works too.
    """

    def __init__(self, function: Function) -> None:
        self._function = function
        self._threads = None if _is_asynchronous(function) else Threads()

    async def call(self, *arguments: object, **named: object) -> Any:
        """What the function returns; whatever it raises is raised as an Exception."""
        try:
            if self._threads is None:
                result = self._function(*arguments, **named)
            else:
                context = contextvars.copy_context()
                result = await self._threads.run(lambda: context.run(self._function, *arguments, **named))
            if inspect.isawaitable(result):
                result = await result
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise RuntimeError("the handler raised CancelledError though nobody cancelled it") from error
        except SystemExit as error:
            raise RuntimeError(f"the handler raised SystemExit({error.code!r}): only its message may end") from error
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            raise TypeError(_GENERATOR.format(name_of(self._function)))
        return result

    def close(self) -> None:
        """Let the threads end; what still runs on one is not waited for."""
        if self._threads is not None:
            self._threads.close()


_GENERATOR = (
    "the handler {} is a generator: calling it runs nothing of it; write a function that returns, without yield "
    "(to go through messages one by one, use `async for message in q.messages(...)`)"
)


def name_of(function: Function) -> str:
    """How to speak of a handler."""
    name: str = getattr(function, "__qualname__", repr(function))
    return name


def require_function(function: Function) -> None:
    """Refuse what does nothing when it is called."""
    if not callable(function):
        raise TypeError(f"the handler must be a function that takes the message, not {function!r}")
    if any(inspect.isgeneratorfunction(part) or inspect.isasyncgenfunction(part) for part in _parts(function)):
        raise TypeError(_GENERATOR.format(name_of(function)))


def payload_kind(function: Function) -> Any:
    """The `Order` of a handler of `Message[Order]` or `list[Message[Order]]`; Any when it does not say.

    Raises TypeError for what cannot handle a message.
    """
    require_function(function)
    try:
        parameters = list(inspect.signature(function).parameters)
    except ValueError:  # a function of C that does not tell
        return Any
    if not parameters:
        raise TypeError(
            f"the handler {name_of(function)} must take the message, or the list of messages, as its argument"
        )
    try:
        annotation = get_type_hints(_parts(function)[-1]).get(parameters[0], Any)
    except NameError as error:
        raise TypeError(
            f"the annotation of {name_of(function)} cannot be read ({error}): "
            "define the payload's type at module level, or name it with data=..."
        ) from error
    if isinstance(get_origin(annotation), type) and not issubclass(get_origin(annotation), Delivered):
        annotation = (get_args(annotation) or (Any,))[0]
    return (get_args(annotation) or (Any,))[0]


def _parts(function: Function) -> list[Function]:
    """The callable itself and what a call of it calls: below partials, and below an object with `__call__`."""
    parts = [function]
    while isinstance(parts[-1], functools.partial):
        parts.append(parts[-1].func)
    if not inspect.isroutine(parts[-1]) and not inspect.isclass(parts[-1]):
        parts.append(type(parts[-1]).__call__)
    return parts


def _is_asynchronous(function: Function) -> bool:
    return any(inspect.iscoroutinefunction(part) for part in _parts(function))
