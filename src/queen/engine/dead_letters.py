"""Dead letters: push them again, or remove them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from queen import errors
from queen.db.pool import Database
from queen.engine.encryption import KeyRing
from queen.engine.wake import Wake
from queen.model import Redriven
from queen.sql import query


class Selection(Struct, frozen=True, kw_only=True):
    """Which dead letters: every filter given must match."""

    ids: Sequence[int] | None = None
    queue: str | None = None
    group: str | None = None
    error_contains: str | None = None
    before: datetime | None = None

    def arguments(self) -> tuple[object, ...]:
        """The filters as parameters."""
        return (
            list(self.ids) if self.ids is not None else None,
            self.queue,
            self.group,
            self.error_contains,
            self.before,
        )


class DeadLetters:
    """Dead letters for an engine."""

    def __init__(self, database: Database, keys: KeyRing, wake: Wake) -> None:
        self._database = database
        self._keys = keys
        self._wake = wake

    async def redrive(
        self,
        selection: Selection,
        *,
        to_queue: str | None = None,
        payload: str | None = None,
        limit: int = 1000,
        dry_run: bool = False,
    ) -> Redriven:
        """Push dead letters again as new messages, to their own or another queue."""
        if payload is not None and (selection.ids is None or len(selection.ids) != 1):
            raise errors.InvalidRequest("payload", "payload may be given with a single id only")
        if not 1 <= limit <= 100_000:
            raise errors.InvalidRequest("limit", "limit must be between 1 and 100000")
        row = await self._database.fetchrow(
            query("engine/redrive"), *selection.arguments(), to_queue, payload, limit, dry_run
        )
        for queue_id in row["queue_ids"]:
            self._wake.ready(None, queue_id)
        return Redriven(matched=row["matched"], redriven=row["redriven"])

    async def purge(self, selection: Selection, *, dry_run: bool = False) -> int:
        """Remove dead letters; returns how many."""
        row = await self._database.fetchrow(query("engine/purge_dead_letters"), *selection.arguments(), dry_run)
        return int(row["purged"])
