"""The command line on a database of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from queen.cli import main

Queen = Callable[..., Result]


@pytest.fixture
def queen(database: str) -> Queen:
    """Runs a command on a fresh database."""

    def run(*arguments: str, text: str | None = None) -> Result:
        return CliRunner(env={"QUEEN_URL": database}).invoke(main, arguments, input=text)

    return run


def lines(result: Result) -> list[Any]:
    """The JSON lines a command printed."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
