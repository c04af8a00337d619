"""`queen ack`: say what became of messages."""

from __future__ import annotations

from uuid import UUID

import click
import msgspec

from queen.cli.given import content
from queen.cli.target import Target, targeted
from queen.client.client import Client
from queen.ids import from_wire
from queen.model import QUEUE_MODE, Ack, AckStatus


class Popped(msgspec.Struct):
    """What `queen pop` printed about a message."""

    partition_id: str
    transaction_id: str
    group: str = QUEUE_MODE
    lease_id: UUID | None = None


@click.command()
@click.argument("partition_id")
@click.argument("transaction_id", required=False)
@click.option("--lease", type=click.UUID, help="The lease it is held under.")
@click.option("--group", default=QUEUE_MODE, help="Consumer group; queue mode unless given.")
@click.option("--status", type=click.Choice(["completed", "failed", "dlq", "retry"]), default="completed")
@click.option("--error", help="Why it failed.")
@targeted
def command(
    target: Target,
    partition_id: str,
    transaction_id: str | None,
    lease: UUID | None,
    group: str,
    status: AckStatus,
    error: str | None,
) -> None:
    """Acknowledge one message, or all that `queen pop` printed to standard input (`-`) or to a file (`@FILE`)."""
    if partition_id == "-" or partition_id.startswith("@"):
        lines = content(partition_id).splitlines()
        popped = [_popped(line, number) for number, line in enumerate(lines, 1) if line.strip()]
    elif transaction_id is None:
        raise click.UsageError("give PARTITION_ID and TRANSACTION_ID, or - or @FILE with what `queen pop` printed")
    else:
        popped = [Popped(partition_id, transaction_id, group, lease)]
    acks = [_ack(one, status, error) for one in popped]

    async def work(client: Client) -> None:
        acked = await client.transport.ack(acks)
        target.rows(
            [
                {"transaction_id": ack.transaction_id, "verdict": one.verdict, "dead_letter": one.dead_letter}
                for ack, one in zip(acks, acked, strict=True)
            ]
        )
        if not all(one.ok for one in acked):
            raise SystemExit(4)

    target.run(work)


def _popped(line: bytes, number: int) -> Popped:
    try:
        return msgspec.json.decode(line, type=Popped)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise click.UsageError(f"line {number} is none that `queen pop -o json` prints: {error}") from None


def _ack(one: Popped, status: AckStatus, error: str | None) -> Ack:
    partition = from_wire("partition", one.partition_id)
    if partition is None:
        raise click.UsageError(f"{one.partition_id!r} is no partition id: it is one that `queen pop -o json` prints")
    return Ack(
        partition_id=partition,
        transaction_id=one.transaction_id,
        group=one.group,
        lease_id=one.lease_id,
        status=status,
        error=error,
    )
