"""Handlers of every callable kind: each runs to its end before its message counts, or is refused with what to write."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import queen
from queen.client.work import Work, payload_kind
from tests.support.wait import eventually

ran: list[object] = []


async def asynchronous(message: object) -> str:
    await asyncio.sleep(0)
    ran.append(message)
    return "done"


def synchronous(message: object) -> str:
    ran.append(message)
    return "done"


class Asynchronous:
    async def __call__(self, message: object) -> str:
        return await asynchronous(message)

    async def method(self, message: object) -> str:
        return await asynchronous(message)

    @classmethod
    async def of_class(cls, message: object) -> str:
        return await asynchronous(message)

    @staticmethod
    async def static(message: object) -> str:
        return await asynchronous(message)


class Synchronous:
    def __call__(self, message: object) -> str:
        return synchronous(message)

    def method(self, message: object) -> str:
        return synchronous(message)


def generator(message: object) -> Iterator[object]:
    ran.append(message)
    yield message


async def asynchronous_generator(message: object) -> AsyncIterator[object]:
    ran.append(message)
    yield message


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    def inner(message: object) -> object:
        return function(message)

    return inner


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(message: object) -> object:
        return function(message)

    return inner


def second(function: Callable[..., Any]) -> Callable[..., Any]:
    """A partial of a function whose first argument is something else."""

    def inner(_other: object, message: object) -> object:
        return function(message)

    return functools.partial(inner, "other")


class Slotted:
    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, message: object) -> object:
        return self.function(message)


KINDS: dict[str, Callable[..., Any]] = {
    "async function": asynchronous,
    "function": synchronous,
    "object with async __call__": Asynchronous(),
    "object with __call__": Synchronous(),
    "async bound method": Asynchronous().method,
    "bound method": Synchronous().method,
    "async class method": Asynchronous.of_class,
    "async static method": Asynchronous.static,
    "lambda": lambda message: synchronous(message) + "",
    "lambda of a coroutine": lambda message: asynchronous(*[message]),
    "partial": functools.partial(synchronous),
    "partial of a coroutine": functools.partial(asynchronous),
    "decorated": decorated(asynchronous),
}
GENERATORS: dict[str, Callable[..., Any]] = {"generator": generator, "async generator": asynchronous_generator}
LAYERS: list[Callable[..., Any]] = [
    decorated,
    wrapped,
    second,
    functools.partial,
    Slotted,
]


@given(kind=st.sampled_from(sorted(KINDS)), layers=st.lists(st.sampled_from(LAYERS), max_size=4), value=st.integers())
def test_whatever_can_be_called_runs_to_its_end_once(kind: str, layers: list[Any], value: int) -> None:
    function = KINDS[kind]
    for layer in layers:
        function = layer(function)
    payload_kind(function)
    ran.clear()

    async def call() -> object:
        handler = Work(function)
        try:
            return await handler.call(value)
        finally:
            handler.close()

    assert asyncio.run(call()) == "done"
    assert ran == [value]


@given(kind=st.sampled_from(sorted(GENERATORS)), layers=st.lists(st.sampled_from(LAYERS), max_size=3))
def test_a_generator_is_refused_and_never_counts_as_done(kind: str, layers: list[Any]) -> None:
    function = GENERATORS[kind]
    for layer in layers:
        function = layer(function)
    if all(layer is functools.partial for layer in layers):
        with pytest.raises(TypeError, match=r"is a generator: .* without yield"):
            payload_kind(function)

    async def call() -> object:
        handler = Work(function)
        try:
            return await handler.call(1)
        finally:
            handler.close()

    with pytest.raises(TypeError, match="is a generator"):
        asyncio.run(call())


@pytest.mark.parametrize("kind", KINDS)
async def test_no_message_is_acknowledged_that_no_handler_ran_for(kind: str, direct: queen.Client) -> None:
    await direct.push_many("orders", [1, 2, 3])
    ran.clear()
    consumed = await direct.consume("orders", KINDS[kind], limit=3, signals=False)
    assert [message.data for message in ran if isinstance(message, queen.Message)] == [1, 2, 3]
    assert (consumed.handled, consumed.failed) == (3, 0)


async def test_what_cannot_handle_a_message_is_refused_when_it_is_named(q: queen.Client) -> None:
    refused: list[Any] = [generator, asynchronous_generator, "orders", lambda: None]
    for handler in refused:
        with pytest.raises(TypeError, match="handler"):
            await q.consume("orders", handler, signals=False)
        with pytest.raises(TypeError, match="handler"):
            q.consumer("orders")(handler)


async def test_a_stop_iteration_fails_its_message_instead_of_waiting_for_ever(q: queen.Client) -> None:
    await q.queues.configure("orders", retry_limit=0)
    await q.push("orders", 1)
    handler: Any = lambda message: next(iter([]))  # noqa: E731
    consumed = await asyncio.wait_for(q.consume("orders", handler, limit=1, signals=False), 20)
    assert (consumed.handled, consumed.failed) == (0, 1)


async def test_a_cancellation_inside_a_handler_fails_its_message_only(q: queen.Client) -> None:
    await q.queues.configure("orders", retry_limit=0)
    await q.push_many("orders", [1, 2])
    seen: list[int] = []

    async def work(message: queen.Message[int]) -> None:
        seen.append(message.data)
        if message.data == 1:
            raise asyncio.CancelledError

    consumed = await asyncio.wait_for(q.consume("orders", work, limit=2, signals=False), 20)
    assert (seen, consumed.handled, consumed.failed) == ([1, 2], 1, 1)
    (dead,) = await q.dead_letters.list("orders")
    assert "CancelledError" in dead.error


async def test_a_failure_is_logged_with_its_place_and_its_traceback(
    q: queen.Client, caplog: pytest.LogCaptureFixture
) -> None:
    await q.queues.configure("orders", retry_limit=1)
    await q.push("orders", 1, partition="acme", transaction_id="o-1")

    async def charge(message: queen.Message[int]) -> None:
        raise ValueError("no such address")

    with caplog.at_level(logging.WARNING, "queen"):
        await q.consume("orders", charge, limit=2, signals=False)
    told = [record for record in caplog.records if record.name == "queen.client"]
    assert [record.getMessage() for record in told] == [
        "orders/acme: o-1 failed, attempt 1 of group __QUEUE_MODE__; it is delivered again",
        "orders/acme: o-1 failed, attempt 2 of group __QUEUE_MODE__; it is a dead letter now",
    ]
    assert all(record.exc_info and "in charge" in str(record.exc_text or caplog.text) for record in told)
    (dead,) = await q.dead_letters.list("orders")
    assert dead.error.startswith("ValueError: no such address\nTraceback (most recent call last):")
    assert "in charge" in dead.error
    assert "queen/client" not in dead.error


async def test_an_error_that_is_a_book_is_cut(q: queen.Client) -> None:
    await q.queues.configure("orders", retry_limit=0)
    await q.push("orders", 1)

    async def work(message: queen.Message[int]) -> None:
        raise ValueError("x" * 1_000_000)

    await q.consume("orders", work, limit=1, signals=False)
    (dead,) = await q.dead_letters.list("orders")
    assert 8000 <= len(dead.error) <= 8100


async def test_the_other_consumers_are_stopped_when_one_ends_with_an_error(direct: queen.Client) -> None:
    await direct.push("orders", 1)
    began = asyncio.Event()

    async def slow(message: queen.Message[int]) -> None:
        began.set()

    direct.consumer("orders")(slow)
    direct.consumer("orders", group="late", start=datetime(2026, 1, 1))(slow)  # noqa: DTZ001 - what is wrong here
    with pytest.raises(queen.InvalidRequest):
        await asyncio.wait_for(direct.run(signals=False), 30)
    await eventually(lambda: not [task for task in asyncio.all_tasks() if task.get_name().startswith("queen-consume")])


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_handler_that_ends_the_program_fails_its_message_only(direct: queen.Client, kind: str) -> None:
    q = direct
    await q.queues.configure("orders", retry_limit=0)
    await q.push_many("orders", [1, 2])
    seen: list[int] = []

    def leave(message: queen.Message[int]) -> None:
        seen.append(message.data)
        if message.data == 1:
            raise SystemExit(2)

    async def asynchronous_leave(message: queen.Message[int]) -> None:
        leave(message)

    handler: Any = asynchronous_leave if kind == "async" else leave
    consumed = await asyncio.wait_for(q.consume("orders", handler, limit=2, signals=False), 20)
    assert (seen, consumed.handled, consumed.failed) == ([1, 2], 1, 1)
    (dead,) = await q.dead_letters.list("orders")
    assert "SystemExit(2)" in dead.error
