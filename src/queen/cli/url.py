"""`queen url`: where the database is."""

from __future__ import annotations

import click

from queen.cli.psql import address
from queen.cli.target import Target, targeted


@click.command()
@click.option("--database", is_flag=True, help="The database's, even where QUEEN_URL names a broker.")
@targeted
def command(target: Target, *, database: bool) -> None:
    """Print the address of what commands work on, for other programs: the broker's, or the database's.

    Without QUEEN_URL and QUEEN_DATABASE_URL that is the embedded server in --data-dir. It runs as long as something
    uses it: a broker, a client, `queen psql`.
    """
    if target.url is not None and not (database and target.url.startswith("http")):
        click.echo(target.url)
        return
    if database:
        target.url = target.settings.database_url
    with address(target) as url:
        click.echo(url)
