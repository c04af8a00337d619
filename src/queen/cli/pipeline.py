"""`queen pipeline`: run the pipelines over the lake, see what they found, and make your own."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from queen.cli.database import Place, placed
from queen.cli.pipeline_new import new
from queen.cli.pipeline_schedule import schedule
from queen.cli.progress import Bar
from queen.cli.signals import heeding
from queen.cli.spark import pack
from queen.cli.target import Suggesting, did_you_mean
from queen.db.pool import Database, PoolOptions
from queen.engine.pipelines import PipelineNotFound, Pipelines, Run
from queen.engine.reading import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from queen.spark.pipelines.running import Finished, Job

T = TypeVar("T")


@click.group(cls=Suggesting)
def command() -> None:
    """Run pipelines over the lake: archive, analyses and report, replay and reconcile, verify, compact and vacuum."""


command.add_command(new)
command.add_command(schedule)


def _moment(_ctx: click.Context, option: click.Parameter, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} must be a time like 2026-01-31 or 2026-01-31T12:00Z", param=option
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs, such as spark://host:7077.")
@click.option("--once", is_flag=True, help="End when everything that is there now is done.")
@click.option("--every", type=click.FloatRange(min=0), default=10.0, show_default=True, help="Seconds between rounds.")
@click.option("--since", callback=_moment, help="Only what happened from this time on (ISO 8601, UTC).")
@click.option("--until", callback=_moment, help="Only what happened before this time.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the pipeline.")
@click.option("--conf", "confs", multiple=True, metavar="NAME=VALUE", help="A setting of Spark.")
@click.option("--open", "open_", is_flag=True, help="Open the report in a browser.")
@placed
def run(place: Place, /, names: tuple[str, ...], *, open_: bool, **given: Any) -> None:
    """Run pipelines: built-in ones by name, all of them as `all`, your own as file.py or package.module:function.

    Pipelines that follow the queues (archive) go on round after round until stopped, unless --once is given.
    """
    with place.database() as url:
        for done in _run(place, url, names, **given):
            place.one(
                {"pipeline": done.pipeline, "run": done.run_id, "rows": done.outcome.rows, **done.outcome.figures}
            )
            shown = done.outcome.figures.get("path")
            if open_ and shown:
                click.launch(str(shown))


def _run(
    place: Place,
    url: str,
    names: tuple[str, ...],
    *,
    master: str = "local[*]",
    once: bool = True,
    every: float = 10.0,
    since: datetime | None = None,
    until: datetime | None = None,
    options: tuple[str, ...] = (),
    confs: tuple[str, ...] = (),
) -> list[Finished]:
    from queen.spark.pipelines.definition import Period  # noqa: PLC0415 - costly to load, and only when used
    from queen.spark.pipelines.running import Job  # noqa: PLC0415

    sys.path.insert(0, str(Path.cwd()))
    job = Job(names, url, place.lake, master, Period(since, until), parse_options(options))
    follows = not once and any(each.continuous for each in job.pipelines)
    return work_on(Job(**{**vars(job), "every": every if follows else None}), parse_options(confs))


def work_on(job: Job, confs: Mapping[str, str]) -> list[Finished]:
    """Run a job in Spark; SIGINT and SIGTERM end it after the round."""
    from queen.spark.pipelines.running import Runner, check  # noqa: PLC0415 - only when used

    check(job)
    bar = Bar()
    with sparking(job.master, confs) as spark:
        runner = Runner(job, spark, bar)
        with heeding(lambda: _stop(runner.stopping.is_set, runner.stopping.set, follows=job.every)):
            try:
                return runner.run()
            finally:
                bar.end()


@contextmanager
def sparking(master: str, confs: Mapping[str, str]) -> Iterator[Callable[[], SparkSession]]:
    """The way to a Spark session, which is started once it is asked for and ends with the block."""
    with ExitStack() as stack:
        yield cache(lambda: stack.enter_context(started(master, confs)))


@contextmanager
def started(master: str, confs: Mapping[str, str]) -> Iterator[SparkSession]:
    """The Spark session that runs in this process already, or one of its own that ends with the block."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only when used

    from queen.spark.pipelines.running import SETTINGS  # noqa: PLC0415
    from queen.spark.session import session  # noqa: PLC0415

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    with tempfile.TemporaryDirectory(prefix="queen-pipeline-") as folder:
        settings = {**SETTINGS, "spark.driver.memory": "1g", "spark.ui.enabled": "false", **confs}
        if not master.startswith("local"):
            settings["spark.submit.pyFiles"] = str(pack(Path(folder) / "queen.zip"))
        spark = session(master, app="queen-pipeline", settings=settings)
        spark.sparkContext.setLogLevel("OFF")
        try:
            yield spark
        finally:
            spark.stop()


def _stop(stopping: Callable[[], bool], stop: Callable[[], None], *, follows: float | None) -> None:
    """The first signal lets a round end; a second one, or one in a single run, breaks it off."""
    if follows is None or stopping():
        raise KeyboardInterrupt
    stop()


def parse_options(texts: Sequence[str]) -> dict[str, str]:
    """Options given as NAME=VALUE."""
    given = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{text!r} must be NAME=VALUE")
        given[name] = value
    return given


@command.command()
@placed
def ls(place: Place) -> None:
    """List the pipelines there are, with their newest runs."""
    from queen.spark.pipelines.definition import available  # noqa: PLC0415 - costly to load, and only when used

    async def work(pipelines: Pipelines) -> dict[str, Any]:
        page = await pipelines.known(Window(limit=1000))
        return {each.name: each for each in page.items}

    known = _ask(place, work)
    summaries = {each.name: each.summary for each in available()}
    rows = []
    for name in [*summaries, *(name for name in known if name not in summaries)]:
        found = known.get(name)
        last = found.last if found else None
        rows.append(
            {
                "name": name,
                "state": last.state if last else None,
                "rows": last.rows if last else None,
                "started_at": last.started_at if last else None,
                "next_at": found.next_at if found else None,
                "summary": summaries.get(name, ""),
            }
        )
    place.rows(rows)


@command.command()
@click.argument("name")
@click.option("--runs", default=5, show_default=True, help="How many runs to show.")
@click.option("--kind", help="Show the results of this kind, of the newest run that ended well.")
@click.option("--limit", default=20, show_default=True, help="How many results to show.")
@placed
def show(place: Place, name: str, *, runs: int, kind: str | None, limit: int) -> None:
    """Show the newest runs of a pipeline, or what it found."""

    async def list_runs(pipelines: Pipelines) -> tuple[list[Run], dict[str, int]]:
        page = await pipelines.runs(name, Window(limit=runs))
        good = [each for each in page.items if each.state == "done"]
        return page.items, await pipelines.kinds(good[0].id) if good else {}

    async def list_results(pipelines: Pipelines) -> list[dict[str, Any]]:
        _, page = await pipelines.results(name, Window(limit=limit), kind=kind)
        return [{"key": each.key, **_flat(json.loads(each.value))} for each in page.items]

    try:
        if kind is not None:
            place.rows(_squared(_ask(place, list_results)), f"no results of kind {kind!r}")
            return
        found, kinds = _ask(place, list_runs)
    except PipelineNotFound as error:
        from queen.spark.pipelines.definition import there  # noqa: PLC0415 - costly to load, and only when used

        raise PipelineNotFound(f"{error}{did_you_mean(name, set(there()) - {name})}") from None
    place.rows([_said(each) for each in found])
    if kinds:
        click.echo(f"results: {', '.join(f'{each} ({count:,})' for each, count in kinds.items())}", err=True)


def _said(run: Run) -> dict[str, Any]:
    ended = run.finished_at or run.heartbeat_at
    return {
        "id": str(run.id),
        "state": run.state,
        "rows": run.rows,
        "lag": run.lag,
        "started_at": run.started_at,
        "seconds": (ended - run.started_at).total_seconds(),
        "figures": json.loads(run.figures),
        "progress": json.loads(run.progress) if run.state == "running" else None,
        "error": run.error,
    }


def _flat(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"value": value}


def _squared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that all have the same columns."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in names} for row in rows]


def _ask(place: Place, work: Callable[[Pipelines], Awaitable[T]]) -> T:
    """Read run records."""

    async def main(url: str) -> T:
        database = Database(url, PoolOptions(size=1))
        await database.open()
        try:
            return await work(Pipelines(database))
        finally:
            await database.close()

    with place.database() as url:
        return asyncio.run(main(url))
