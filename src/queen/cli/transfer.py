"""`queen migrate from-v2` and `from-v3`: move a system of an earlier schema to this one, and back."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click
import msgspec

from queen.cli.progress import Bar
from queen.cli.target import Suggesting, confirm
from queen.transfer.cleanup import cleanup, describe
from queen.transfer.cutover import cutover
from queen.transfer.follow import copy, follow
from queen.transfer.generator import Sizes, generate
from queen.transfer.link import Link, open_link
from queen.transfer.model import Version
from queen.transfer.plan import Plan, plan
from queen.transfer.prepare import check, prepare
from queen.transfer.report import Report
from queen.transfer.rollback import rollback
from queen.transfer.verify import verify

T = TypeVar("T")
MEBIBYTE = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Ends:
    """From where to where."""

    version: Version
    source: str
    target: str | None

    def run(self, work: Callable[[Link], Awaitable[T]]) -> T:
        """Do something with both ends connected."""

        async def main() -> T:
            async with open_link(self.version, self.source, self.target) as link:
                return await work(link)

        return asyncio.run(main())


def commands(version: Version) -> click.Group:
    """The group `from-v2` or `from-v3`."""
    help_text = f"""Move a {version} system to this schema: plan, copy, follow, verify, cutover; rollback, cleanup.

    Each command can be interrupted and repeated. See docs/operate/migrate.md for the day itself."""

    @click.group(f"from-{version}", cls=Suggesting, help=help_text)
    @click.option("--source", required=True, envvar="QUEEN_MIGRATE_SOURCE", help="Database with the earlier schema.")
    @click.option("--target", envvar="QUEEN_MIGRATE_TARGET", help="Where to; the same database unless given.")
    @click.pass_context
    def group(ctx: click.Context, source: str, target: str | None) -> None:
        ctx.obj = Ends(version, source, target)

    for command in (plan_, copy_, follow_, verify_, cutover_, rollback_, cleanup_, generate_):
        group.add_command(command)
    return group


@click.command("plan")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--target-free", type=click.IntRange(min=0), help="Free room of the target in MiB, if it cannot be seen.")
@click.pass_obj
def plan_(ends: Ends, output: str, target_free: int | None) -> None:
    """Show what is there, what will happen, how long it takes and what is odd. Changes nothing."""

    async def work(link: Link) -> Plan:
        await check(link, target_free=None if target_free is None else target_free * MEBIBYTE)
        return await plan(link)

    found = ends.run(work)
    if output == "json":
        click.echo(msgspec.json.encode(found).decode())
        return
    click.echo(f"{found.version}, {'same database' if found.same_database else 'another database'}")
    for what, count in found.counts.items():
        click.echo(f"  {count:>14,}  {what}")
    click.echo(
        f"about {found.needed_bytes / MEBIBYTE:,.0f} MiB of room and {found.seconds / 60:,.1f} minutes for the copy"
    )
    for step in found.steps:
        click.echo(f"- {step}")
    for odd in found.odd:
        click.echo(f"odd: {odd.count:,} {odd.what}: {odd.becomes}")


@click.command("copy")
@click.option("--target-free", type=click.IntRange(min=0), help="Free room of the target in MiB, if it cannot be seen.")
@click.pass_obj
def copy_(ends: Ends, target_free: int | None) -> None:
    """Copy everything while the source is live; interrupted, it goes on where it stopped."""

    async def work(link: Link) -> int:
        if link.state is not None:
            link.require("copying", "copied")
        await check(link, target_free=None if target_free is None else target_free * MEBIBYTE)
        await prepare(link)
        return await copy(link, Bar())

    click.echo(f"copied {ends.run(work):,} messages; `follow` keeps the copy current, `verify` compares it")


@click.command("follow")
@click.option("--seconds", type=click.FloatRange(min=0), help="Stop after so long; otherwise Ctrl-C stops it.")
@click.pass_obj
def follow_(ends: Ends, seconds: float | None) -> None:
    """Apply what changes in the source, until stopped."""

    async def work(link: Link) -> str:
        link.require("copied")
        await prepare(link)
        applied = await follow(link, Bar(), seconds=seconds)
        return f"applied {applied.entries:,} changes, {applied.messages:,} messages"

    click.echo(ends.run(work))


@click.command("verify")
@click.option("--spark", "by_spark", is_flag=True, help="Compare with Spark, for large systems.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write the report as a page.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report as JSON.")
@click.pass_obj
def verify_(ends: Ends, *, by_spark: bool, master: str, html: Path | None, file: Path | None) -> None:
    """Compare both sides: messages, order, payloads, cursors, leases, dead letters. Exit code 1: they differ."""

    async def work(link: Link) -> Report:
        if by_spark:
            from queen.transfer.spark import verify_by_spark  # noqa: PLC0415 - costly to load, and only when used

            return await verify_by_spark(link, master)
        return await verify(link, Bar())

    report = ends.run(work)
    if html:
        html.write_text(report.to_html(), encoding="utf-8")
    if file:
        file.write_text(report.to_json(), encoding="utf-8")
    for each in report.differences:
        where = f"{each.queue}/{each.partition} " if each.queue else ""
        click.echo(f"{each.verdict}: {where}{each.name}  source: {each.source or '-'}  target: {each.target or '-'}")
    compared = ", ".join(f"{count:,} {kind}" for kind, count in sorted(report.compared.items()))
    verdict = "both sides are the same" if report.passed else f"{len(report.differences)} differences"
    click.echo(f"compared {compared}: {verdict}")
    if not report.passed:
        raise click.exceptions.Exit(1)


@click.command("cutover")
@click.option("--unverified", is_flag=True, help="Do without a passed verify.")
@click.pass_obj
def cutover_(ends: Ends, *, unverified: bool) -> None:
    """Let the target take over: writers of the source wait for seconds, then find the new schema."""

    async def work(link: Link) -> float:
        return await cutover(link, unverified=unverified)

    click.echo(f"the target has taken over; writers waited {ends.run(work) / 1000:.2f} s")


@click.command("rollback")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def rollback_(ends: Ends, *, yes: bool) -> None:
    """Go back: what happened since the cutover is written into the earlier tables, and they are live again."""
    confirm("The earlier schema takes over again, with everything that happened since the cutover.", yes=yes)
    click.echo(f"the earlier schema has taken over; writers waited {ends.run(rollback) / 1000:.2f} s")


@click.command("cleanup")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def cleanup_(ends: Ends, *, yes: bool) -> None:
    """Drop the earlier schema after a cutover; before one, or after a rollback, the copy."""

    async def look(link: Link) -> str:
        return describe(link)

    what = ends.run(look)
    confirm(f"This drops {what}.", yes=yes)
    ends.run(cleanup)
    click.echo(f"dropped {what}")


@click.command("generate")
@click.option("--seed", default="queen", show_default=True, help="The same seed makes the same database.")
@click.option("--queues", type=click.IntRange(1), default=3, show_default=True)
@click.option("--partitions", type=click.IntRange(1), default=20, show_default=True)
@click.option("--messages", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--groups", type=click.IntRange(1), default=3, show_default=True)
@click.option("--odd/--even", default=True, show_default=True, help="With rows that should not be there but are.")
@click.pass_obj
def generate_(ends: Ends, *, seed: str, queues: int, partitions: int, messages: int, groups: int, odd: bool) -> None:
    """Fill the empty database --source with a made-up system of the earlier schema, to rehearse on."""
    sizes = Sizes(queues, partitions, messages, groups)
    asyncio.run(generate(ends.source, ends.version, sizes, seed=seed, odd=odd))
    click.echo(f"made {messages:,} messages in {partitions:,} partitions for {groups:,} groups")
