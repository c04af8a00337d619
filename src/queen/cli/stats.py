"""`queen stats`: queues and how fast they move."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from queen.cli.output import table
from queen.cli.target import Target, targeted
from queen.client.client import Client
from queen.client.status import GroupStatus, QueueStatus


@click.command()
@click.option(
    "--interval", default=1.0, show_default=True, type=click.FloatRange(0.1, 3600), help="Seconds between looks."
)
@click.option("--count", type=int, help="Look this often; once in a pipe, until Ctrl-C on a terminal.")
@targeted
def command(target: Target, interval: float, count: int | None) -> None:
    """Watch queues: what waits, what is being worked on, and how fast it moves."""
    looks = count or (None if sys.stdout.isatty() else 1)

    async def work(client: Client) -> None:
        before: tuple[float, dict[str, QueueStatus]] | None = None
        number = 0
        while looks is None or number < looks:
            if number:
                await asyncio.sleep(interval)
            queues, groups = await client.queues.list(), await client.groups.list()
            now = time.monotonic()
            rows = [_row(one, _behind(groups, one.name), before, now) for one in queues]
            _show(target, rows, clear=looks != 1)
            before = (now, {one.name: one for one in queues})
            number += 1

    try:
        target.run(work)
    except KeyboardInterrupt:
        click.echo()


def _behind(groups: Sequence[GroupStatus], queue: str) -> float:
    return max((one.behind for one in groups if one.queue == queue), default=0.0)


def _row(
    one: QueueStatus, behind: float, before: tuple[float, dict[str, QueueStatus]] | None, now: float
) -> dict[str, Any]:
    pushed = done = 0.0
    if before is not None and one.name in before[1]:
        seconds, last = now - before[0], before[1][one.name]
        pushed = max(one.total - last.total, 0) / seconds
        done = max(pushed - (one.depth - last.depth) / seconds, 0.0)
    return {
        "queue": one.name,
        "partitions": one.partitions,
        "waiting": one.depth - one.processing,
        "processing": one.processing,
        "behind_seconds": behind,
        "pushed_per_second": pushed,
        "done_per_second": done,
        "paused": one.paused,
    }


def _show(target: Target, rows: list[dict[str, Any]], *, clear: bool) -> None:
    if not target.as_table:
        target.rows(rows)
        return
    if clear:
        click.clear()
    click.echo(table(rows) if rows else "no queues yet")
