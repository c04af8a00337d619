"""The database that commands of Spark and the lake work on, and the options that choose it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from queen import config
from queen.cli.output import Output
from queen.cli.target import database_address
from queen.db.embedded import EmbeddedServer
from queen.errors import QueenError

T = TypeVar("T")
P = ParamSpec("P")

EXIT_CODES = {
    "INVALID_OPTION": 2,
    "INVALID_QUERY": 2,
    "PIPELINE_NOT_FOUND": 3,
    "LAKE_NOT_FOUND": 3,
    "STORE_UNAVAILABLE": 5,
}


class Place(Output):
    """Where the database and the lake are, and how results are shown."""

    def __init__(self, url: str | None, file: Path | None, data_dir: Path | None, lake: str, shape: str | None) -> None:
        super().__init__(shape)
        self.settings = config.load(file, flags={"data_dir": data_dir})
        self.lake = lake
        self._url = url

    @contextmanager
    def database(self) -> Iterator[str]:
        """The address of the database; the embedded one runs meanwhile unless another is configured."""
        if address := database_address(self._url, self.settings):
            yield address
            return
        with EmbeddedServer.start(self.settings.data_dir) as embedded:
            yield embedded.dsn()


def placed(command: Callable[Concatenate[Place, P], T]) -> Callable[P, T]:
    """Give a command its place, and the options that choose it."""

    @click.option("--url", envvar="QUEEN_DATABASE_URL", help="The database: postgresql://...")
    @click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file.")
    @click.option("--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Where the embedded one lives.")
    @click.option(
        "--lake",
        envvar="QUEEN_LAKE",
        default="lake",
        show_default=True,
        help="The lake: a directory, or s3://, gs:// or abfss://.",
    )
    @click.option(
        "-o", "--output", "shape", type=click.Choice(["table", "json"]), help="Table on a terminal, else JSON."
    )
    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> T:
        if find_spec("pyspark") is None or find_spec("duckdb") is None:
            raise click.ClickException("the pipelines need more packages: pip install -e '.[spark]' in the clone")
        place = Place(*[options.pop(name) for name in ("url", "file", "data_dir", "lake", "shape")])
        try:
            return command(place, *args, **options)
        except QueenError as error:
            click.echo(f"queen: {error}", err=True)
            raise click.exceptions.Exit(EXIT_CODES.get(error.code, 4)) from error

    return run
