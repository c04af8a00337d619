from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from msgspec import Struct
from pydantic import BaseModel

import queen
from queen.client.payload import decode, encode
from queen.client.work import payload_kind


class Line(Struct):
    item: str


@dataclass
class Order:
    number: int
    lines: list[Line]


class Customer(BaseModel):
    name: str
    since: datetime


class Account(Struct):
    customer: Customer
    balance: float


NOW = datetime(2026, 11, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Order(1, [Line("pen")]), Order),
        (Line("pen"), Line),
        (Customer(name="acme", since=NOW), Customer),
        (Account(Customer(name="acme", since=NOW), 1.5), Account),
        ([Customer(name="acme", since=NOW)], list[Customer]),
        ({"a": [1, None, "x"]}, Any),
        ({"a": 1}, object),
        (UUID(int=7), UUID),
        (NOW, datetime),
        (None, None),
    ],
)
def test_values_come_back_as_their_type(value: object, kind: Any) -> None:
    assert decode(encode(value), kind) == value


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ('{"number": "x", "lines": []}', Order, "does not fit Order: Expected `int`, got `str` - at `$.number`"),
        ('{"name": "acme", "since": "soon"}', Customer, "does not fit Customer"),
        ('{"customer": {"name": 1}, "balance": 1}', Account, "does not fit Account"),
        ("{", Line, "does not fit Line"),
    ],
)
def test_a_misfit_says_where(text: str, kind: Any, words: str) -> None:
    with pytest.raises(queen.DecodeError) as caught:
        decode(text, kind)
    assert words in str(caught.value)
    assert caught.value.code == "PAYLOAD_MISMATCH"


def test_what_has_no_json_is_refused() -> None:
    for value in (object(), {1: {2, object()}}, float):
        with pytest.raises(queen.InvalidRequest, match="payload cannot be written as JSON"):
            encode(value)


async def one(message: queen.Message[Order]) -> None: ...


async def many(messages: list[queen.Message[Line]]) -> None: ...


async def untyped(message: queen.Message) -> None: ...  # type: ignore[type-arg]


async def bare(message) -> None: ...  # type: ignore[no-untyped-def]


def plain(message: queen.SyncMessage[Order]) -> None: ...


def test_a_handler_says_what_it_wants() -> None:
    kinds = [payload_kind(handler) for handler in (one, many, untyped, bare, plain)]
    assert kinds == [Order, Line, Any, Any, Order]


def test_a_handler_that_cannot_be_read_is_refused_at_once() -> None:
    class Local(Struct):
        n: int

    async def local(message: queen.Message[Local]) -> None: ...

    async def nothing() -> None: ...

    with pytest.raises(TypeError, match="define the payload's type at module level"):
        payload_kind(local)
    with pytest.raises(TypeError, match="must take the message"):
        payload_kind(nothing)
