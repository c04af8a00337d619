"""transaction: pushes and acks that commit together or not at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from queen import errors
from queen.db.pool import Database, Isolation
from queen.engine.ack import message_arguments, read_acked
from queen.engine.push import Pusher
from queen.engine.wake import Wake
from queen.model import Ack, Acked, NewMessage, Pushed
from queen.sql import query

if TYPE_CHECKING:
    from queen.db.pool import Connection


@dataclass(frozen=True, slots=True)
class Committed:
    """The results of a transaction, in the order of its pushes and of its acks."""

    pushed: list[Pushed]
    acked: list[Acked]


class RolledBack(errors.RequestError):
    """An acknowledgement of the transaction did not count, so nothing of it happened."""

    code = "TRANSACTION_ROLLED_BACK"
    status = 409

    def __init__(self, message: str, acked: Acked, index: int) -> None:
        super().__init__(message)
        self.acked = acked
        self.index = index


class DuplicateRefused(errors.RequestError):
    """A message of the transaction was stored before, and the caller wanted it to be new."""

    code = "DUPLICATE_REFUSED"
    status = 409


class Transactor:
    """Runs transactions for an engine."""

    def __init__(self, database: Database, pusher: Pusher, wake: Wake) -> None:
        self._database = database
        self._pusher = pusher
        self._wake = wake

    async def transaction(
        self,
        pushes: Sequence[NewMessage],
        acks: Sequence[Ack],
        *,
        leases: Sequence[UUID] = (),
        work: Callable[[Connection], Awaitable[None]] | None = None,
        isolation: Isolation = "read_committed",
        at_once: bool = True,
        unique: bool = False,
    ) -> Committed:
        """Push, then ack, then run the caller's own statements, in one commit.

        Pushes come first whatever order the caller had: that is the order of locks (R1). `leases`
        must all be live. `at_once`: a failed ack dead-letters its message without spending retries.
        `unique`: a transaction id that is already there fails the transaction.
        """
        ready = await self._pusher.prepare(pushes)

        async def run(connection: Connection) -> tuple[Committed, list[tuple[str | None, int]]]:
            pushed, woken = await self._pusher.push_in(connection, ready)
            if unique and (repeated := [one.transaction_id for one in pushed if one.status == "duplicate"]):
                raise DuplicateRefused(f"duplicate transactionId {repeated[0]!r}; the transaction was rolled back")
            if leases:
                rows = await connection.fetch(query("engine/live_leases"), list(leases))
                if len(rows) < len(set(leases)):
                    raise errors.LeaseLost("a required lease ended and was given on; the transaction was rolled back")
            acked: list[Acked] = []
            if acks:
                rows = await connection.fetch(query("engine/ack_messages"), *message_arguments([acks]), True, at_once)
                acked = [read_acked(row) for row in rows]
                woken += [(row["queue_name"], row["queue_id"]) for row in rows if row["released"]]
                for index, outcome in enumerate(acked):
                    if not outcome.ok:
                        raise RolledBack(
                            f"{_REASONS[outcome.verdict]}; the transaction was rolled back", outcome, index
                        )
            if work is not None:
                await work(connection)
            return Committed(pushed, acked), [*woken]

        committed, woken = await self._database.transaction(run, isolation)
        for queue, queue_id in woken:
            self._wake.ready(queue, queue_id)
        return committed


_REASONS = {
    "lost": "Invalid or expired lease",
    "unknown": "Message not found (unresolvable transactionId)",
    "committed": "Message is already committed",
    "invalid": "status is not allowed in a transaction",
}
