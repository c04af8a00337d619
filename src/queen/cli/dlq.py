"""`queen dlq`: look at dead letters, push them again, remove them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from queen.cli.given import json_of
from queen.cli.target import Suggesting, Target, confirm, targeted
from queen.client.client import Client
from queen.client.status import DeadLetter


@click.group(cls=Suggesting)
def command() -> None:
    """Look at dead letters, push them again, remove them."""


def selecting(function: Callable[..., None]) -> Callable[..., None]:
    """The options that say which dead letters."""
    for option in (
        click.option("--before", help="Only those that failed before this time."),
        click.option("--error", "error_contains", help="Only those whose error contains this text."),
        click.option("--group", help="Only of this consumer group."),
        click.option("--queue", help="Only of this queue."),
        click.option("--id", "ids", type=int, multiple=True, help="Only this one; may be repeated."),
    ):
        function = option(function)
    return function


@command.command()
@click.option("--queue", help="Only of this queue.")
@click.option("--group", help="Only of this consumer group.")
@click.option("--error", "error_contains", help="Only those whose error contains this text.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1000))
@targeted
def ls(target: Target, /, limit: int, **filters: Any) -> None:
    """List dead letters, newest first."""
    queue = filters.pop("queue")

    async def work(client: Client) -> Sequence[DeadLetter]:
        await target.require_queue(client, queue)
        return await client.dead_letters.list(queue, limit=limit, **filters)

    found = target.run(work)
    target.rows([_row(one, brief=target.as_table) for one in found], "no dead letters")


@command.command()
@click.argument("number", type=int)
@targeted
def show(target: Target, number: int) -> None:
    """Show one dead letter with its payload."""
    target.one(_row(target.run(lambda client: client.dead_letters.get(number)), brief=False))


@command.command()
@selecting
@click.option("--to-queue", help="Push them there instead of where they came from.")
@click.option("--to-all", is_flag=True, help="For every group, not only the one that failed.")
@click.option("--payload", help="JSON to push instead of the payload, - or @FILE with it; with a single --id only.")
@click.option("--limit", default=1000, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--dry-run", is_flag=True, help="Only tell how many.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@targeted
def redrive(
    target: Target,
    /,
    to_queue: str | None,
    payload: str | None,
    limit: int,
    *,
    to_all: bool,
    dry_run: bool,
    yes: bool,
    **which: Any,
) -> None:
    """Push dead letters again as new messages, for the group that failed."""
    data = None if payload is None else json_of("--payload", payload)
    chosen = _chosen(which) | {"to_queue": to_queue, "to_all": to_all, "data": data, "limit": limit}

    async def work(client: Client) -> None:
        await target.require_queue(client, which["queue"])
        found = await client.dead_letters.redrive(**chosen, dry_run=True)
        if not dry_run and found.matched:
            confirm(f"This pushes {found.matched:,} dead letters again.", yes=yes)
            found = await client.dead_letters.redrive(**chosen)
            await target.note(client, "redrive", f"{found.redriven:,} dead letters redriven", queue=chosen.get("queue"))
        target.one({"matched": found.matched, "redriven": found.redriven, "dry_run": dry_run})

    target.run(work)


@command.command()
@selecting
@click.option("--dry-run", is_flag=True, help="Only tell how many.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@targeted
def purge(target: Target, /, *, dry_run: bool, yes: bool, **which: Any) -> None:
    """Remove dead letters for good."""
    chosen = _chosen(which)

    async def work(client: Client) -> None:
        await target.require_queue(client, which["queue"])
        count = await client.dead_letters.purge(**chosen, dry_run=True)
        if not dry_run and count:
            confirm(f"This removes {count:,} dead letters for good.", yes=yes)
            count = await client.dead_letters.purge(**chosen)
            await target.note(client, "purge", f"{count:,} dead letters removed for good", queue=chosen.get("queue"))
        target.one({"purged": 0 if dry_run else count, "matched": count, "dry_run": dry_run})

    target.run(work)


def _chosen(which: dict[str, Any]) -> dict[str, Any]:
    chosen = {name: value for name, value in which.items() if value}
    if not chosen:
        raise click.UsageError("say which dead letters: --id, --queue, --group, --error or --before")
    if "ids" in chosen:
        chosen["ids"] = list(chosen["ids"])
    if "before" in chosen:
        try:
            before = datetime.fromisoformat(chosen["before"])
        except ValueError:
            raise click.UsageError("--before must be an ISO time such as 2026-11-15T04:00:00Z") from None
        chosen["before"] = before if before.tzinfo else before.replace(tzinfo=UTC)
    return chosen


def _row(letter: DeadLetter, *, brief: bool) -> dict[str, Any]:
    row = msgspec.structs.asdict(letter)
    row["data"] = msgspec.Raw(row.pop("payload").encode())
    if brief:
        shown = ("id", "queue", "partition", "group", "error", "retry_count", "failed_at")
        row = {name: row[name] for name in shown} | {"error": letter.error[:60]}
    return row
