"""Reading for people: every report is one read-only transaction with a time limit of its own."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from queen import errors
from queen.db.pool import Database, Row
from queen.sql import query

if TYPE_CHECKING:
    from queen.db.pool import Connection

T = TypeVar("T")

LIMIT: Final = 5.0
MAX_PAGE: Final = 1000
MAX_OFFSET: Final = 10_000


class Page(Struct, Generic[T], frozen=True):
    """Some items of a list, and where the next ones begin; None at the end."""

    items: list[T]
    next_cursor: str | None = None


class Window(Struct, frozen=True, kw_only=True):
    """Which page of a list: `limit` items after `cursor`, or after the first `offset`."""

    limit: int = 100
    offset: int = 0
    cursor: str | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_PAGE:
            raise errors.InvalidRequest("limit", f"limit must be between 1 and {MAX_PAGE}")
        if not 0 <= self.offset <= MAX_OFFSET:
            raise errors.InvalidRequest("offset", f"offset must be between 0 and {MAX_OFFSET}; go on by cursor instead")

    def position(self, *kinds: type) -> tuple[Any, ...]:
        """The place the cursor stands for, one value per kind; Nones without a cursor."""
        if self.cursor is None:
            return (None,) * len(kinds)
        try:
            padded = self.cursor + "=" * (-len(self.cursor) % 4)
            shape: Any = tuple.__class_getitem__(kinds)
            values: tuple[Any, ...] = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=shape)
        except (binascii.Error, ValueError, msgspec.MsgspecError):
            raise errors.InvalidRequest("cursor", "cursor must be a nextCursor of the same list") from None
        return tuple(_in_zone(value) for value in values)

    def page(self, items: Sequence[T], place: Sequence[Any]) -> Page[T]:
        """A page of at most `limit` items; `place` says where each stands; one more than fits: there is more."""
        shown = list(items[: self.limit])
        if len(items) <= self.limit:
            return Page(shown)
        encoded = base64.urlsafe_b64encode(msgspec.json.encode(place[self.limit - 1])).decode()
        return Page(shown, encoded.rstrip("="))


def _in_zone(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


class Reader:
    """Runs statements that only read, within `limit` seconds, so that no report can hold up the verbs."""

    def __init__(self, database: Database, *, limit: float = LIMIT) -> None:
        self._database = database
        self._limit = f"{limit}s"

    async def fetch(self, name: str, *args: Any) -> list[Row]:
        """The rows of one statement, named by its file below `queries/read`."""
        return (await self.fetch_all((name, *args)))[0]

    async def first(self, name: str, *args: Any) -> Row | None:
        """The first row of one statement, if there is one."""
        rows = await self.fetch(name, *args)
        return rows[0] if rows else None

    async def fetch_all(self, *calls: tuple[Any, ...]) -> list[list[Row]]:
        """The rows of several statements on one snapshot."""

        async def run(connection: Connection) -> list[list[Row]]:
            await connection.fetch(query("engine/limit"), self._limit, self._limit)
            return [await connection.fetch(query(f"read/{name}"), *args) for name, *args in calls]

        return await self._database.transaction(run, "repeatable_read")
