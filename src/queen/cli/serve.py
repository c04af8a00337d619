"""`queen serve`: the broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from queen import config
from queen.demo.beside import shop_beside
from queen.server.supervisor import serve

DEMO_DIR = Path(".queen-demo")


@click.command()
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file.")
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on.")
@click.option("--workers", type=int, help="Broker processes on that port.")
@click.option("--database-url", help="PostgreSQL to use; the embedded one unless given.")
@click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Where the embedded one lives.")
@click.option("--log-level", help="Least severity that is logged.")
@click.option("--log-format", help="auto, console or json.")
@click.option("--demo", is_flag=True, help="With a shop at work in it; its data are in .queen-demo unless --data-dir.")
def command(file: Path | None, demo: bool, **flags: Any) -> None:  # noqa: FBT001
    """Serve queues over HTTP.

    Without a database address it starts an embedded PostgreSQL. SIGTERM stops it: parked polls are
    answered at once, what is under way is finished.
    """
    settings = config.load(file, flags=flags)
    if not (_serve_demo(settings, chosen=flags["data_dir"] is not None) if demo else serve(settings)):
        raise SystemExit(1)


def _serve_demo(settings: config.Settings, *, chosen: bool) -> bool:
    if settings.database_url or settings.jwt_enabled:
        raise click.UsageError("--demo makes a database of its own and asks for no tokens: leave both out")
    if not chosen:
        settings = msgspec.structs.replace(settings, data_dir=DEMO_DIR)
    click.echo(f"A shop opens in a moment. Look at http://{settings.host}:{settings.port}", err=True)
    with shop_beside(settings):
        return serve(settings)
