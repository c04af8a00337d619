"""`queen group`: look at consumer groups and move them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NoReturn

import click
import msgspec

from queen.cli.target import Suggesting, Target, confirm, did_you_mean, targeted
from queen.client.client import Client
from queen.client.status import GroupPartition, GroupStatus
from queen.model import QUEUE_MODE


@click.group(cls=Suggesting)
def command() -> None:
    """Look at consumer groups and move them."""


@command.command()
@click.option("--queue", help="Only the groups of this queue.")
@targeted
def ls(target: Target, queue: str | None) -> None:
    """List the groups with how far behind they are."""

    async def work(client: Client) -> Sequence[GroupStatus]:
        await target.require_queue(client, queue)
        return await client.groups.list(queue)

    found = target.run(work)
    target.rows([msgspec.structs.asdict(one) for one in found], "no groups yet: the first pop of a queue makes one")


@command.command()
@click.argument("group")
@targeted
def show(target: Target, group: str) -> None:
    """Show a group partition by partition, the furthest behind first."""

    async def work(client: Client) -> Sequence[GroupPartition]:
        return await client.groups.get(group) or await _unknown(client, group)

    found = target.run(work)
    target.rows([msgspec.structs.asdict(one) for one in found])


@command.command()
@click.argument("queue")
@click.argument("group", default=QUEUE_MODE)
@click.option("--to", required=True, help="start, end, a time such as 2026-11-15T04:00:00Z, or a seq.")
@click.option("--partition", help="Only this partition.")
@click.option("--dry-run", is_flag=True, help="Only tell what would happen.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@targeted
def seek(target: Target, queue: str, group: str, to: str, partition: str | None, *, dry_run: bool, yes: bool) -> None:
    """Move a group; without a name, queue mode. Leases it holds end."""
    where = _place(to)

    async def work(client: Client) -> None:
        await target.require_queue(client, queue)
        found = await client.groups.seek(queue, group, to=where, partition=partition, dry_run=True)
        facts = msgspec.structs.asdict(found)
        if not dry_run:
            confirm(
                f"This delivers {found.redelivered:,} messages again and skips {found.skipped:,}, "
                f"on {found.partitions:,} partitions of {queue}.",
                yes=yes,
            )
            facts = msgspec.structs.asdict(await client.groups.seek(queue, group, to=where, partition=partition))
            await target.note(client, "seek", f"{group} stands at {to} of {queue}", queue=queue, target=group, **facts)
        target.one({"queue": queue, "group": group, "dry_run": dry_run, **facts})

    target.run(work)


async def _unknown(client: Client, group: str) -> NoReturn:
    hint = did_you_mean(group, {one.group for one in await client.groups.list()})
    click.echo(f"queen: there is no group {group!r}{hint}", err=True)
    raise SystemExit(3)


def _place(to: str) -> str | int | datetime:
    if to in ("start", "end"):
        return to
    if to.isdigit():
        return int(to)
    try:
        time = datetime.fromisoformat(to)
    except ValueError:
        raise click.UsageError(f"--to {to!r} must be start, end, an ISO time, or a seq") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


@command.command()
@click.argument("group")
@click.option("--queue", help="Only on this queue.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@targeted
def rm(target: Target, group: str, queue: str | None, *, yes: bool) -> None:
    """Forget a group: its cursors and where it started."""

    async def work(client: Client) -> None:
        await target.require_queue(client, queue)
        found = await client.groups.get(group) or await _unknown(client, group)
        lanes = [one for one in found if queue in (None, one.queue)]
        confirm(f"This forgets where {group} is on {len(lanes):,} partitions.", yes=yes)
        count = await client.groups.delete(group, queue=queue)
        text = f"{group} is forgotten on {queue or 'every queue'}"
        await target.note(client, "forget", text, queue=queue, target=group, cursors=count)
        target.done(f"{group} forgotten on {count:,} partitions", group=group, partitions=count)

    target.run(work)
