"""`queen worker`: run the tasks of an application."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from queen.cli.supervising import Supervisor
from queen.cli.working import Job

_ADDRESS = re.compile(r"(?:(?P<host>[^:]+):)?(?P<port>\d{1,5})")


@click.command()
@click.argument("application", metavar="MODULE:APP")
@click.option("--queues", help="Only these queues, separated by commas; all of the application's unless given.")
@click.option(
    "--concurrency", default=10, show_default=True, type=click.IntRange(1), help="Messages of a queue at once."
)
@click.option(
    "--prefetch", default=1, show_default=True, type=click.IntRange(1), help="Messages of a partition fetched at once."
)
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1, 256), help="Worker processes.")
@click.option("--drain", default=30.0, show_default=True, help="Seconds running tasks may take to finish at the end.")
@click.option("--health", metavar="[HOST:]PORT", help="Answer GET /health there; on 127.0.0.1 unless a host is given.")
@click.option("--reload", is_flag=True, help="Start again whenever a .py file below this directory changes.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
def command(
    application: str,
    queues: str | None,
    processes: int,
    health: str | None,
    *,
    reload: bool,
    **options: Any,
) -> None:
    """Run the tasks of MODULE:APP, such as `queen worker shop.tasks:app`, until told to stop.

    SIGTERM and Ctrl-C end it: running tasks are finished, the rest is handed back at once. A process that ends is
    started again. On a terminal it shows what is being done.
    """
    names = [name.strip() for name in queues.split(",") if name.strip()] if queues else None
    job = Job(application=application, queues=names, **options)
    arguments = [sys.executable, "-m", "queen.cli.working", msgspec.json.encode(job).decode()]
    supervisor = Supervisor(arguments, processes, options["drain"], Path.cwd() if reload else None)
    code = asyncio.run(supervisor.run(_address(health)))
    if code:
        raise SystemExit(code)


def _address(given: str | None) -> tuple[str, int] | None:
    if given is None:
        return None
    found = _ADDRESS.fullmatch(given)
    if found is None or not 0 <= int(found["port"]) <= 65_535:
        raise click.UsageError(f"--health {given} must be a port, or HOST:PORT")
    return found["host"] or "127.0.0.1", int(found["port"])
