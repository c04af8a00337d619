"""Tables for people, JSON lines for programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click
import msgspec

from queen.model import QUEUE_MODE

Row = Mapping[str, Any]
_NARROWEST: Final = 12


class Output:
    """Shows rows as a table on a terminal and as JSON lines in a pipe, unless told which."""

    def __init__(self, shape: str | None) -> None:
        self.as_table = shape == "table" or (shape is None and sys.stdout.isatty())

    def rows(self, rows: Sequence[Row], empty: str = "nothing there") -> None:
        """Show a list."""
        if not self.as_table:
            for row in rows:
                click.echo(_json(row))
        elif rows:
            click.echo(table(rows))
        else:
            click.echo(empty, err=True)

    def one(self, row: Row) -> None:
        """Show one thing."""
        if not self.as_table:
            click.echo(_json(row))
            return
        width = max(len(_title(name)) for name in row)
        for name, value in row.items():
            click.echo(f"{click.style(_title(name).ljust(width), dim=True)}  {_cell(value)}")

    def done(self, text: str, **facts: Any) -> None:
        """Say that something was done."""
        click.echo(text if self.as_table else _json(facts))


def table(rows: Sequence[Row]) -> str:
    """Rows under their names; numbers to the right."""
    names = list(rows[0])
    cells = [[_line(_cell(row[name])) for name in names] for row in rows]
    numeric = [all(isinstance(row[name], int | float) for row in rows) for name in names]
    widths = [max(len(_title(name)), *(len(line[place]) for line in cells)) for place, name in enumerate(names)]
    _narrow(widths, [not right for right in numeric])

    def line(parts: Sequence[str]) -> str:
        fitted = [
            part.rjust(width) if right else _cut(part, width).ljust(width)
            for part, width, right in zip(parts, widths, numeric, strict=True)
        ]
        return "  ".join(fitted).rstrip()

    return "\n".join([click.style(line([_title(name) for name in names]), bold=True), *map(line, cells)])


def _narrow(widths: list[int], may_shrink: Sequence[bool]) -> None:
    """Take from the widest columns of text until the table fits the terminal; none gets narrower than 12."""
    over = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size((160, 24)).columns
    while over > 0:
        width, place = max(((width, place) for place, width in enumerate(widths) if may_shrink[place]), default=(0, 0))
        if width <= _NARROWEST:
            return
        widths[place] -= 1
        over -= 1


def _line(text: str) -> str:
    """The first line, without what would move a terminal's cursor."""
    first = text.partition("\n")[0]
    return first if first.isprintable() else "".join(each if each.isprintable() else "\ufffd" for each in first)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _title(name: str) -> str:
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return words.replace("_", " ").strip()


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.1f}"
        case int():
            return f"{value:,}"
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
        case str():
            return "queue mode" if value == QUEUE_MODE else value
        case _:
            return _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
