"""`queen pop`: take messages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import click

from queen.cli.messages import brief, shown
from queen.cli.target import Target, targeted
from queen.client.client import Client
from queen.client.message import Message
from queen.model import QUEUE_MODE


@click.command()
@click.argument("queue")
@click.option("--group", default=QUEUE_MODE, help="Consumer group; queue mode unless given.")
@click.option("--batch", default=1, show_default=True, help="Most messages to take.")
@click.option("--partitions", default=1, show_default=True, help="Most partitions to take from.")
@click.option("--partition", help="Only this partition.")
@click.option("--wait", default=0.0, help="Seconds to wait for messages.")
@click.option("--lease", type=int, help="Seconds until they come back; the queue's own unless given.")
@click.option("--auto-ack", is_flag=True, help="Acknowledge at delivery.")
@click.option(
    "--from", "start", default="all", show_default=True, help="Where a new group starts: all, new, or a time."
)
@targeted
def command(target: Target, /, queue: str, group: str, start: str, *, auto_ack: bool, **options: object) -> None:
    """Take messages under a lease.

    The JSON lines can be piped into `queen ack -`.
    """

    async def work(client: Client) -> list[Message[Any]]:
        await target.require_queue(client, queue)
        popped: list[Message[Any]] = await client.pop(  # type: ignore[call-overload]
            queue, group=group, start=start_of(start), auto_ack=auto_ack, **options
        )
        return popped

    found = target.run(work)
    target.rows([brief(one) if target.as_table else shown(one) for one in found], "nothing waiting")


def start_of(text: str) -> Literal["all", "new"] | datetime:
    """Where a new group starts."""
    if text == "all":
        return "all"
    if text == "new":
        return "new"
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError("--from must be all, new, or an ISO time such as 2026-11-15T04:00:00Z") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
