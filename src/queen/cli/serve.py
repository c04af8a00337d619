"""`queen serve`: the broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from queen import config
from queen.server.supervisor import serve


@click.command()
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file.")
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on.")
@click.option("--workers", type=int, help="Broker processes on that port.")
@click.option("--database-url", help="PostgreSQL to use; the embedded one unless given.")
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Where the embedded one lives.")
@click.option("--log-level", help="Least severity that is logged.")
@click.option("--log-format", help="auto, console or json.")
def command(file: Path | None, **flags: Any) -> None:
    """Serve queues over HTTP.

    Without a database address it starts an embedded PostgreSQL. SIGTERM stops it: parked polls are
    answered at once, what is under way is finished.
    """
    if not serve(config.load(file, flags=flags)):
        raise SystemExit(1)
