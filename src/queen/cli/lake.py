"""`queen lake`: look into the lake, ask it in SQL, check it, and keep it tidy."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from dataclasses import asdict
from uuid import UUID

import click

from queen.cli.database import Place, placed
from queen.cli.given import content
from queen.cli.target import Suggesting


@click.group(cls=Suggesting)
def command() -> None:
    """Look into the lake, ask it in SQL, check it, and keep it tidy."""


@command.command()
@placed
def ls(place: Place) -> None:
    """List what is in the lake: rows, files and bytes by table and queue."""
    from queen.spark.lake import Lake  # noqa: PLC0415 - costly to load, and only when used

    totals: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: {"rows": 0, "files": 0, "bytes": 0})
    days: dict[tuple[str, str], set[str]] = defaultdict(set)
    for file in Lake.open(place.lake).state().files:
        total = totals[file.table, file.group or ""]
        total["rows"] += file.rows
        total["files"] += 1
        total["bytes"] += file.bytes
        days[file.table, file.group or ""].add(file.date)
    place.rows(
        [
            {"table": table, "name": name, **total, "from": min(days[table, name]), "to": max(days[table, name])}
            for (table, name), total in sorted(totals.items())
        ],
        "the lake is empty",
    )


@command.command()
@click.argument("statement")
@placed
def query(place: Place, statement: str) -> None:
    """Ask the lake in SQL: tables messages, deliveries, dead_letters, workflow_history. `@FILE` and - are read.

    queen lake query "select queue, count(*) from messages group by queue"

    Two more join it with the database: live_messages, those that are not in the lake yet, and all_messages, every
    message once.
    """
    from queen.spark.lake import Lake  # noqa: PLC0415 - costly to load, and only when used
    from queen.spark.lake.querying import needs_database  # noqa: PLC0415
    from queen.spark.lake.querying import query as ask  # noqa: PLC0415

    lake, asked = Lake.open(place.lake), content(statement).decode()
    with place.database() if needs_database(asked) else nullcontext() as url:
        names, rows = ask(lake, asked, url)
    place.rows([dict(zip(names, row, strict=True)) for row in rows], "no rows")


@command.command()
@click.option("--files-only", is_flag=True, help="Do not compare with the database.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs, such as spark://host:7077.")
@placed
def verify(place: Place, *, files_only: bool, master: str) -> None:
    """Check every file against the log, and every partition against PostgreSQL. Exit code 4: they differ."""
    from queen.cli.pipeline import started  # noqa: PLC0415 - costly to load, and only when used
    from queen.spark.lake import Lake  # noqa: PLC0415
    from queen.spark.lake.verify import verify as check  # noqa: PLC0415

    with nullcontext() if files_only else place.database() as url:
        lake = Lake.open(place.lake)
        with started(master, {}) as spark:
            verdict = check(lake, url, spark)
    for text in verdict.damaged:
        click.echo(f"damaged: {text}", err=True)
    wrong = [lane for lane in verdict.lanes if not lane.agrees or lane.twice]
    place.rows([asdict(lane) for lane in (wrong or verdict.lanes)], "no messages to compare")
    said = (
        "agrees" if verdict.agrees else f"{len(verdict.damaged)} files damaged, {verdict.differing} partitions differ"
    )
    click.echo(f"{verdict.rows:,} rows in {verdict.files:,} files: {said}", err=True)
    if not verdict.agrees:
        raise click.exceptions.Exit(4)


@command.command()
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs, such as spark://host:7077.")
@placed
def compact(place: Place, *, master: str) -> None:
    """Rewrite small files into large ones, beside whoever writes, and remove what has not counted for a day."""
    from queen.cli.pipeline import started  # noqa: PLC0415 - costly to load, and only when used
    from queen.spark.lake import Lake  # noqa: PLC0415
    from queen.spark.lake.compaction import compact as rewrite  # noqa: PLC0415
    from queen.spark.lake.compaction import vacuum  # noqa: PLC0415

    lake = Lake.open(place.lake)
    with started(master, {}) as spark:
        done = rewrite(spark, lake)
        removed = vacuum(spark, lake)
    told = {**asdict(done), "removed": removed}
    place.done(f"{done.before:,} files became {done.after:,}, {removed:,} left-overs removed", **told)


@command.command()
@placed
def convert(place: Place) -> None:
    """Make a lake of an earlier release a Delta table, in its place: the same files, each checked, under a log."""
    from queen.spark.lake.convert import convert as rewrite  # noqa: PLC0415 - costly to load, and only when used

    lake = rewrite(place.lake)
    files = lake.state().files
    rows = sum(file.rows for file in files)
    place.done(f"{rows:,} rows in {len(files):,} files are a Delta table now", rows=rows, files=len(files))


@command.command()
@placed
def adopt(place: Place) -> None:
    """Let the lake go on with the server that took over from the one it belongs to.

    Refused, with what is missing, unless everything in the lake came there too.
    """
    from queen.spark.lake import Lake  # noqa: PLC0415 - costly to load, and only when used
    from queen.spark.lake.adoption import adopt as take  # noqa: PLC0415

    with place.database() as url:
        done = take(Lake.open(place.lake), url)
    said = "belongs to this server already" if done.before == done.now else f"went from {done.before} to {done.now}"
    place.done(f"the lake, complete up to position {done.pos:,}, {said}", **asdict(done))


@command.command()
@click.argument("lake_id", required=False, type=click.UUID)
@placed
def forget(place: Place, lake_id: UUID | None) -> None:
    """Let retention no longer wait for a lake that is gone; without an id, list those it waits for."""
    from queen.spark.database import Database  # noqa: PLC0415 - costly to load, and only when used

    with place.database() as url:
        database = Database(url)
        try:
            if lake_id is None:
                place.rows(database.rows("lake/positions"), "no lake holds retention back")
                return
            gone = database.rows("lake/forget_lake", lake=str(lake_id))
        finally:
            database.close()
    if not gone:
        raise click.ClickException(f"the database knows no lake {lake_id}")
    place.done(f"{lake_id} forgotten", lake=str(lake_id))
