"""`queen tail`: watch messages go by."""

from __future__ import annotations

import os
import sys

import click
import msgspec

from queen.cli.messages import shown
from queen.cli.pop import start_of
from queen.cli.target import Target, targeted
from queen.client.client import Client
from queen.client.message import Message
from queen.ids import uuid7


@click.command()
@click.argument("queue")
@click.option("--from", "start", default="new", show_default=True, help="Where to start: all, new, or a time.")
@click.option("--limit", type=int, help="Stop after this many messages.")
@click.option("--idle", type=float, help="Stop after this many seconds without a message.")
@targeted
def command(target: Target, queue: str, start: str, limit: int | None, idle: float | None) -> None:
    """Show messages as they come, without taking them from anybody.

    It reads with a consumer group of its own, which is forgotten at the end. Ctrl-C ends it.
    """
    group = f"tail-{uuid7()}"
    where = start_of(start)

    async def work(client: Client) -> None:
        async def show(messages: list[Message[object]]) -> None:
            try:
                for message in messages:
                    click.echo(_line(message) if target.as_table else msgspec.json.encode(shown(message)).decode())
            except BrokenPipeError:
                client.stop()
                sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123, ASYNC230 - for what is flushed at the end

        await target.require_queue(client, queue)
        try:
            await client.consume_batches(
                queue, show, group=group, start=where, batch=100, partitions=100, limit=limit, idle=idle
            )
        finally:
            await client.groups.delete(group)

    target.run(work)


def _line(message: Message[object]) -> str:
    place = click.style(f"{message.partition} #{message.seq}", fg="cyan")
    return f"{message.created_at:%H:%M:%S.%f}  {place}  {message.payload}"
