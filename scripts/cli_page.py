"""Write docs/reference/cli.md from the commands themselves. `--check` only compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from queen.cli import main as queen

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"
WIDTH = 100
HEAD = """\
# Commands

*Written by `scripts/cli_page.py`; change `src/queen/cli` instead.*

Commands work on a broker (`--url http://...`), on a database (`--url postgresql://...`), or, with neither,
on the embedded server in `./.queen`. `QUEEN_URL` and `QUEEN_DATABASE_URL` stand for `--url`. What works on the
database itself (`init`, `psql`, `migrate`, `pipeline`, `lake verify`, `workflow prune` and `replay`) says so when it
is given a broker.

Where JSON is asked for, `@FILE` and `-` (standard input) give it too.

On a terminal they show tables, in a pipe JSON lines; `-o table` and `-o json` choose. What cannot be undone
shows how much it concerns and asks first; `--yes` answers for scripts.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | went wrong |
| 2 | wrong usage or settings |
| 3 | not found |
| 4 | refused: a full queue, a lost lease, a no to the question, a fault found by `doctor` |
| 5 | not available: no broker or database answers |
"""


def sections(command: click.Command, name: str, parent: click.Context | None = None) -> Iterator[str]:
    """One section per command, those of a group after the group."""
    context = click.Context(command, parent, name, terminal_width=WIDTH, max_content_width=WIDTH)
    level = "##" if parent is None or parent.parent is None else "###"
    path = context.command_path
    yield f"\n{level} {path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None and not found.hidden:
                yield from sections(found, below, context)


def page() -> str:
    return HEAD + "".join(sections(queen, "queen"))


def main() -> None:
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == page() else f"{PAGE.name} is out of date: run `make docs`")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
