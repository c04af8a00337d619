"""The command line: `queen COMMAND`. Each group of commands is a module of its own, loaded when used.

Exit codes: 0 done, 1 went wrong, 2 wrong usage or settings, 3 not found, 4 refused, 5 not available.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from queen import __version__
from queen.config import ConfigError
from queen.db.embedded import EmbeddedServerError
from queen.db.migrate import MigrationError
from queen.errors import QueenError

COMMANDS = {
    "ack": "queen.cli.ack",
    "bench": "queen.cli.bench",
    "buffer": "queen.cli.buffer",
    "completion": "queen.cli.completion",
    "demo": "queen.cli.demo",
    "dlq": "queen.cli.dlq",
    "doctor": "queen.cli.doctor",
    "group": "queen.cli.group",
    "init": "queen.cli.init",
    "lake": "queen.cli.lake",
    "migrate": "queen.cli.migrate",
    "pipeline": "queen.cli.pipeline",
    "pop": "queen.cli.pop",
    "psql": "queen.cli.psql",
    "push": "queen.cli.push",
    "queue": "queen.cli.queue",
    "serve": "queen.cli.serve",
    "spark": "queen.cli.spark",
    "stats": "queen.cli.stats",
    "tail": "queen.cli.tail",
    "trace": "queen.cli.trace",
    "url": "queen.cli.url",
    "worker": "queen.cli.worker",
    "workflow": "queen.cli.workflow",
}
EXIT_CODES: dict[type[Exception], int] = {
    ConfigError: 2,
    MigrationError: 4,
    EmbeddedServerError: 5,
    OSError: 5,
    QueenError: 4,
}
BY_STATUS = {400: 2, 404: 3, 503: 5}


class LazyGroup(click.Group):
    """Imports a command only when it is called, and tells expected errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name for name, module in COMMANDS.items() if find_spec(module))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0] if args else "", self.list_commands(ctx), n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"{error.message.rstrip('.')}{hint}", ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None or find_spec(module) is None:
            return None
        command: click.Command = import_module(module).command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except tuple(EXIT_CODES) as error:
            code = next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
            if isinstance(error, QueenError):
                code = BY_STATUS.get(error.status, code)
            click.echo(f"queen: {error}", err=True)
            ctx.exit(code)


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="queen")
def main() -> None:
    """Ordered queues, durable workflows and a Spark data pipeline on PostgreSQL."""
