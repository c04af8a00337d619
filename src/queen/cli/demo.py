"""`queen demo`: a shop to look at."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from queen.cli.target import Target, targeted
from queen.client.client import Client
from queen.client.direct import DirectTransport
from queen.demo.history import make_history
from queen.demo.live import Shop
from queen.demo.planted import Planted
from queen.demo.storing import store


@click.command()
@click.option("--messages", type=click.IntRange(1, 5_000_000), help="Instant history of this many messages.")
@click.option("--days", default=7.0, show_default=True, type=click.FloatRange(0.01, 3650), help="Its length.")
@click.option("--rate", type=click.FloatRange(0.1, 10_000), help="Live instead: this many orders a second.")
@click.option("--seconds", default=60.0, show_default=True, type=click.FloatRange(1, 86_400), help="For this long.")
@click.option("--seed", default=1, show_default=True, help="The same seed makes the same shop.")
@click.option("--plain", is_flag=True, help="Plant nothing: no hot keys, no errors, no broken traces.")
@click.option("--prefix", default="", help="Begins the names of the queues.")
@click.option("--until", help="When the history ends, an ISO time; now unless given.")
@targeted
def command(target: Target, /, messages: int | None, rate: float | None, **options: Any) -> None:
    """Fill queues with a shop: orders, payments, shipping, notifications; failures, hot keys, traces.

    Instant history (--messages, the default with 20,000) or live traffic (--rate). Prints what it planted.
    """
    if messages is not None and rate is not None:
        raise click.UsageError("--messages makes history, --rate runs live: choose one")
    work = _history(messages or 20_000, **options) if rate is None else _live(rate, **options)
    _show(target, target.run(work))


def _history(messages: int, *, days: float, seed: int, plain: bool, prefix: str, until: str | None, **_: Any) -> Any:
    end = _time(until)

    async def work(client: Client) -> Planted:
        if not isinstance(client.transport, DirectTransport):
            raise click.UsageError("history is written straight into a database: use a postgresql:// address")
        history = make_history(messages, days, seed=seed, until=end, plain=plain)
        await store(client.transport.engine, history, prefix)
        return history.planted

    return work


def _live(rate: float, *, seconds: float, seed: int, plain: bool, prefix: str, **_: Any) -> Any:
    async def work(client: Client) -> Planted:
        return await Shop(client, seed=seed, plain=plain, prefix=prefix).run(rate, seconds)

    return work


def _time(text: str | None) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError("--until must be an ISO time such as 2026-11-15T04:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _show(target: Target, planted: Planted) -> None:
    if not target.as_table:
        target.one(planted.facts())
        return
    click.echo(f"{planted.messages:,} messages of {planted.traces:,} orders, {planted.dead_letters:,} dead letters")
    _list("hot keys", [f"{one.queue}  {one.field} {one.key}: {one.messages:,} messages" for one in planted.hot_keys])
    _list(
        "error clusters",
        [f"{one.queue} {one.version}  {one.error}: {one.messages:,}" for one in planted.error_clusters],
    )
    _list(
        "blocked lanes",
        [
            f"{one.queue}/{one.partition}  held up by #{one.seq} for {one.seconds:,.0f} s"
            for one in planted.blocked_lanes
        ],
    )
    _list("broken traces", planted.broken_traces)


def _list(title: str, lines: Sequence[str], limit: int = 20) -> None:
    click.echo(click.style(f"{title}: {len(lines) or 'none'}", bold=True))
    for line in lines[:limit]:
        click.echo(f"  {line}")
    if len(lines) > limit:
        click.echo(f"  and {len(lines) - limit} more")
