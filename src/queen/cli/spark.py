"""`queen spark`: PySpark with everything set for queues."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import click

from queen import config
from queen.cli.target import Suggesting
from queen.errors import QueenError

PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}
PACKAGES = ("queen", "pyspark_queen")
LOGGING = """rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""
"""Spark's own file lets it tell everything it does."""


@click.group(cls=Suggesting)
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file.")
@click.option("--database-url", help="PostgreSQL with the queues; scripts then need no option `url`.")
@click.option("--master", default="local[*]", show_default=True, help="Where Spark runs, such as spark://host:7077.")
@click.option(
    "--log-level",
    type=click.Choice(["error", "warn", "info", "debug"]),
    default="warn",
    show_default=True,
    help="What Spark itself says.",
)
@click.pass_context
def command(ctx: click.Context, file: Path | None, database_url: str | None, master: str, log_level: str) -> None:
    """Run PySpark with queues: finds or brings a Java, ships the connector, keeps passwords out of sight."""
    if find_spec("pyspark") is None:
        raise click.ClickException("PySpark is not installed: pip install -e '.[spark]' in the clone")
    settings = config.load(file, flags={"database_url": database_url})
    address = settings.database_url or os.environ.get("QUEEN_URL")
    database = address if address and address.startswith(("postgresql://", "postgres://")) else None
    secrets = {"QUEEN_DATABASE_URL": database, "QUEEN_ENCRYPTION_KEYS": ",".join(settings.encryption_keys)}
    ctx.obj = Launch(master, {name: value for name, value in secrets.items() if value}, log_level)


class Launch:
    """One run of a program of Spark's."""

    def __init__(self, master: str, secrets: Mapping[str, str], log_level: str) -> None:
        self.master = master
        self.secrets = secrets
        self.log_level = log_level

    def run(self, program: str, arguments: Sequence[str]) -> int:
        """Start it, wait for it, and hand on its exit code."""
        from queen.spark.session import environment, require_master  # noqa: PLC0415 - only when PySpark is there

        try:
            require_master(self.master)
        except QueenError as error:
            raise click.ClickException(str(error)) from error
        with self._properties() as properties:
            options = ["--master", self.master, "--properties-file", str(properties)]
            given = {**os.environ, **environment(self.master), **self.secrets}
            path = str(Path(sys.executable).parent / program)
            return subprocess.run([path, *options, *arguments], env=given, check=False).returncode

    @contextmanager
    def _properties(self) -> Iterator[Path]:
        """Spark's settings in a file only we can read: the command line is for all to see."""
        from queen.spark.session import SETTINGS  # noqa: PLC0415 - only when PySpark is there

        with tempfile.TemporaryDirectory(prefix="queen-spark-") as name:
            folder = Path(name)
            values = dict(SETTINGS) | {f"spark.executorEnv.{key}": value for key, value in self.secrets.items()}
            if "SPARK_CONF_DIR" not in os.environ:
                logging = folder / "log4j2.properties"
                logging.write_text(LOGGING.format(level=self.log_level))
                values["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={logging.as_uri()}"
            if not self.master.startswith("local"):
                values["spark.submit.pyFiles"] = str(pack(folder / "queen.zip"))
            properties = folder / "spark.properties"
            properties.touch(mode=0o600)
            properties.write_text("".join(f"{key}={escaped(value)}\n" for key, value in values.items()))
            yield properties


def escaped(value: str) -> str:
    """A value as a Java properties file wants it."""
    return value.replace("\\", "\\\\")


def pack(target: Path) -> Path:
    """Our own packages as one file, for executors that do not have them installed."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            spec = find_spec(package)
            for place in map(Path, (spec.submodule_search_locations or []) if spec else []):
                for path in sorted(place.rglob("*")):
                    if path.is_file() and "__pycache__" not in path.parts:
                        archive.write(path, Path(package) / path.relative_to(place))
    return target


@command.command(context_settings=PASS_ON)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_obj
def shell(launch: Launch, arguments: tuple[str, ...]) -> None:
    """An interactive session; `spark` is there. Arguments go to `pyspark`."""
    raise SystemExit(launch.run("pyspark", arguments))


@command.command(context_settings=PASS_ON)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_obj
def submit(launch: Launch, arguments: tuple[str, ...]) -> None:
    """Run a script: `queen spark submit [OPTIONS OF spark-submit] SCRIPT [ITS ARGUMENTS]`."""
    raise SystemExit(launch.run("spark-submit", arguments))
