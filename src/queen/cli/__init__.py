"""The command line: `queen COMMAND`. Each group of commands is a module of its own, loaded when used."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import click

from queen import __version__

COMMANDS: dict[str, str] = {
    "migrate": "queen.cli.migrate",
    "serve": "queen.cli.serve",
}


class LazyGroup(click.Group):
    """Imports a command only when it is called, so that `queen --help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name for name, module in COMMANDS.items() if find_spec(module))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None or find_spec(module) is None:
            return None
        command: click.Command = import_module(module).command
        return command


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="queen")
def main() -> None:
    """Ordered queues, durable workflows and a Spark data pipeline on PostgreSQL."""
