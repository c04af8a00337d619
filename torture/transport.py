"""A transport that writes down every call that pushes, pops or tells, before it is made and when it is answered."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from queen.client.transport import Transport
from queen.engine import Committed
from queen.errors import QueenError
from queen.ids import as_callers
from queen.model import Ack, Acked, Message, NewMessage, PopRequest, Pushed
from torture.history import History, now


class Noting:
    """Stands between a client and its transport; whatever is not noted goes straight through."""

    def __init__(self, inner: Transport, history: History, *, over_http: bool) -> None:
        self._inner = inner
        self._history = history
        self._over_http = over_http
        self._numbers = itertools.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def name_of(self, item: NewMessage) -> str:
        """The transaction id a message will have."""
        if item.transaction_id is not None:
            return item.transaction_id
        assert item.id is not None
        return as_callers(item.id) if self._over_http else str(item.id)

    async def push(self, items: Sequence[NewMessage], *, again: bool) -> list[Pushed]:
        """Noted as `push`, then `pushed` or `refused`."""
        number = next(self._numbers)
        listed = [[item.queue, item.partition, self.name_of(item), item.deliver_at is not None] for item in items]
        self._history.note("push", number, listed)
        try:
            pushed = await self._inner.push(items, again=again)
        except QueenError as error:
            self._history.note("refused", number, error.code)
            raise
        self._history.note("pushed", number, [one.status for one in pushed])
        return pushed

    async def pop(self, request: PopRequest, *, namespace: str | None, task: str | None) -> list[Message]:
        """Noted as `popped` with the time it was asked for."""
        asked = now()
        found = await self._inner.pop(request, namespace=namespace, task=task)
        batches: dict[tuple[str, str, str], list[list[Any]]] = {}
        for one in found:
            key = (one.queue, one.partition, str(one.lease_id))
            batches.setdefault(key, []).append([one.transaction_id, one.retry_count])
        if batches:
            kept = [[*key, messages] for key, messages in batches.items()]
            self._history.note("popped", asked, request.group, request.lease_seconds, request.prefetch, kept)
        return found

    async def ack(self, acks: Sequence[Ack]) -> list[Acked]:
        """Noted as `tell`, then `told`."""
        number = self._tell(
            [[one.partition_id, one.group, str(one.lease_id), one.transaction_id, one.status] for one in acks]
        )
        return self._told(number, await self._inner.ack(acks))

    async def ack_up_to(self, messages: Sequence[Message]) -> list[Acked]:
        """Noted as `tell`, then `told`."""
        last = {(one.partition_id, one.lease_id): one for one in messages}
        number = self._tell(
            [[one.partition_id, one.group, str(one.lease_id), one.transaction_id, "completed"] for one in last.values()]
        )
        return self._told(number, await self._inner.ack_up_to(messages))

    async def transaction(self, pushes: Sequence[NewMessage], acks: Sequence[Ack]) -> Committed:
        """Noted as `tell`, then `told`."""
        number = self._tell(
            [[one.partition_id, one.group, str(one.lease_id), one.transaction_id, one.status] for one in acks]
        )
        committed = await self._inner.transaction(pushes, acks)
        self._told(number, committed.acked)
        return committed

    async def release(self, leases: Sequence[UUID], delay: float, *, failed: bool = False) -> list[int]:
        """Noted as `release`."""
        self._history.note("release", [str(lease) for lease in leases], failed)
        return await self._inner.release(leases, delay, failed=failed)

    def _tell(self, entries: list[list[Any]]) -> int:
        number = next(self._numbers)
        self._history.note("tell", number, entries)
        return number

    def _told(self, number: int, acked: list[Acked]) -> list[Acked]:
        self._history.note("told", number, [one.verdict for one in acked])
        return acked
