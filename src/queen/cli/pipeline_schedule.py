"""`queen pipeline schedule`: let pipelines run by themselves."""

from __future__ import annotations

from dataclasses import asdict
from threading import Event
from typing import TYPE_CHECKING

import click

from queen.cli.database import Place, placed
from queen.cli.signals import heeding
from queen.errors import QueenError

if TYPE_CHECKING:
    from queen.spark.pipelines.schedules import Schedules

LOOK_EVERY = 1.0


@click.command()
@click.argument("name", required=False)
@click.option("--cron", help="When, as a cron expression in UTC: '*/5 * * * *'.")
@click.option("--every", type=click.FloatRange(min=0, min_open=True), help="Seconds between runs.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs, such as spark://host:7077.")
@click.option("--option", "options", multiple=True, metavar="NAME=VALUE", help="An option of the pipeline.")
@click.option("--remove", is_flag=True, help="Run it no longer.")
@click.option("--work", is_flag=True, help="Run what is due, until stopped.")
@click.option("--once", is_flag=True, help="With --work: run what is due now, and end.")
@placed
def schedule(
    place: Place,
    /,
    name: str | None,
    *,
    cron: str | None,
    every: float | None,
    master: str,
    options: tuple[str, ...],
    remove: bool,
    work: bool,
    once: bool,
) -> None:
    """Let a pipeline run by itself; without a name, list the schedules or, with --work, run what is due.

    queen pipeline schedule archive --cron '*/5 * * * *' --lake /data/lake

    queen pipeline schedule --work
    """
    from queen.cli.pipeline import parse_options  # noqa: PLC0415 - it offers this command
    from queen.spark.database import Database  # noqa: PLC0415 - costly to load, and only when used
    from queen.spark.pipelines.running import Job, settle  # noqa: PLC0415
    from queen.spark.pipelines.schedules import Schedules  # noqa: PLC0415

    with place.database() as url:
        database = Database(url)
        try:
            schedules = Schedules(database)
            if work:
                run_due(schedules, url, once=once)
            elif name is None:
                place.rows([asdict(each) for each in schedules.list()], "nothing is scheduled")
            elif remove:
                if not schedules.remove(name):
                    raise click.ClickException(f"{name} is not scheduled")
                place.done(f"{name} is no longer scheduled", pipeline=name)
            else:
                job = Job([name], url, place.lake, master, options=parse_options(options))
                settle(job, job.pipelines)
                next_at = schedules.set(job, cron=cron, every=every)
                place.done(f"{name} runs next at {next_at:%Y-%m-%d %H:%M:%S}Z", pipeline=name, nextAt=next_at)
        finally:
            database.close()


def run_due(schedules: Schedules, url: str, *, once: bool) -> None:
    """Run whatever is due, one after the other; what fails is told and tried again when it is due again."""
    from queen.cli.pipeline import work_on  # noqa: PLC0415 - it offers this command

    stopping = Event()
    with heeding(stopping.set):
        while not stopping.is_set():
            taken = schedules.take()
            if taken is not None:
                try:
                    work_on(taken.job(url), {})
                except QueenError as error:
                    click.echo(f"queen: {taken.pipeline}: {error}", err=True)
                except KeyboardInterrupt:
                    click.echo(f"queen: {taken.pipeline}: stopped by hand", err=True)
                    return
            elif once or stopping.wait(LOOK_EVERY):
                return
