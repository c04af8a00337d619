"""A request as a route sees it: parameters, body, caller, and the broker behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl

from queen import errors
from queen.config import Settings
from queen.engine import Engine
from queen.server.auth import NOBODY, Identity

if TYPE_CHECKING:
    from queen.server.broker import Broker
    from queen.server.routing import Receive

T = TypeVar("T")
_TRUE: Final = ("true", "1")
_FIELDS: Final = 1000


class ClientGone(Exception):
    """The caller hung up; there is nobody to answer."""


class Request:
    """One request. `params` are the path's parameters in order, percent-decoded.

    `changed` is False when an act turned out to change nothing, so that there is nothing to note.
    `receive` tells of the rest of the body, if `arrived` is not all of it, and of the caller hanging up.
    """

    __slots__ = (
        "_query",
        "arrived",
        "body",
        "broker",
        "changed",
        "headers",
        "id",
        "identity",
        "method",
        "params",
        "raw_path",
        "raw_query",
        "receive",
    )

    def __init__(
        self,
        broker: Broker,
        method: str,
        raw_path: bytes,
        raw_query: bytes,
        headers: Mapping[bytes, bytes],
        receive: Receive,
        arrived: bytes | None = None,
    ) -> None:
        self.broker = broker
        self.method = method
        self.raw_path = raw_path
        self.raw_query = raw_query
        self.headers = headers
        self.receive = receive
        self.arrived = arrived
        self.body = b""
        self.id = b""
        self.params: tuple[str, ...] = ()
        self.identity: Identity = NOBODY
        self.changed = True
        self._query: dict[str, str] | None = None

    @property
    def engine(self) -> Engine:
        """The engine of this process."""
        return self.broker.engine

    @property
    def settings(self) -> Settings:
        """The settings of this process."""
        return self.broker.settings

    @property
    def query(self) -> dict[str, str]:
        """The query string's parameters; of repeated ones the last counts."""
        if self._query is None:
            try:
                pairs = parse_qsl(
                    self.raw_query.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
                )
            except (UnicodeDecodeError, ValueError):
                raise errors.InvalidRequest("query", "the query must be percent-encoded UTF-8") from None
            self._query = dict(pairs)
        return self._query

    def text(self, name: str, default: str | None = None) -> str | None:
        """A text parameter; an empty one counts as not given."""
        value = self.query.get(name)
        if value and "\0" in value:
            raise errors.InvalidRequest(name, f"{name} must not contain NUL")
        return value or default

    def flag(self, name: str, *, default: bool = False) -> bool:
        """A boolean parameter: `true` or `1`; anything else is false."""
        value = self.query.get(name)
        return default if value is None else value.lower() in _TRUE

    def number(self, name: str, default: int, low: int = 0, high: int = 2**31 - 1) -> int:
        """A whole number; what does not parse falls back to the default, what is out of range is refused."""
        value = self.query.get(name)
        if value is None:
            return default
        try:
            found = int(value)
        except ValueError:
            return default
        if not low <= found <= high:
            raise errors.InvalidRequest(name, f"{name} must be between {low} and {high}")
        return found

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which is cancelled when the caller hangs up meanwhile (ClientGone)."""
        task = asyncio.ensure_future(work)
        watch = asyncio.ensure_future(self._hung_up())
        try:
            await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise ClientGone
        finally:
            watch.cancel()
            if not task.done():
                task.cancel()

    async def _hung_up(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
