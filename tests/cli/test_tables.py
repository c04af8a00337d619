"""Tables fit the terminal, whatever the names in them are."""

from __future__ import annotations

import click
import pytest

from queen.cli.output import table
from tests.cli.conftest import Queen

LONG = "a-queue-with-a-name-" + "x" * 400


def widest(text: str) -> int:
    return max(len(line) for line in text.splitlines())


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize(
    "command",
    [
        ("queue", "ls"),
        ("group", "ls"),
        ("stats",),
        ("dlq", "ls"),
        ("pop", LONG[:200]),
        ("queue", "explain"),
    ],
    ids=" ".join,
)
def test_a_long_name_does_not_ruin_a_table(
    queen: Queen, command: tuple[str, ...], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queen("push", LONG[:200], '{"text": "' + "y" * 500 + '"}', "--partition", "p" * 200)
    queen("push", "orders", "1")
    popped = queen("pop", LONG[:200], "--group", "g" * 200).stdout
    queen("ack", "-", "--status", "dlq", "--error", "e" * 500, text=popped)
    monkeypatch.setenv("COLUMNS", str(columns))
    told = queen(*command, "-o", "table").stdout
    # A table of eight columns, of which none is narrower than twelve, cannot be narrower than that.
    assert widest(told) <= max(columns, 125)
    assert len(told.splitlines()) >= 2


def test_what_would_move_the_cursor_is_not_printed() -> None:
    told = table([{"queue": "red \x1b[31m\rorders\nmore", "depth": 1}])
    assert told.splitlines()[-1].split() == ["red", "\ufffd[31m\ufffdorders", "1"]


def test_numbers_are_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    told = table([{"queue": LONG, "depth": 123_456_789, "partition": LONG}])
    assert "123,456,789" in told
    assert widest(click.unstyle(told)) <= 40
    assert "…" in told
