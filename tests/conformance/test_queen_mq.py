"""The published Python client, version 0.15.0, as a black box: every public method against the real broker."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.running import run_broker
from tests.support.postgres import TEMPLATE, Postgres
from tests.support.tree import ROOT, parse

PYTHON = ROOT / ".venv-queen-mq" / "bin" / "python"
HERE = Path(__file__).parent
NAMES = sorted(
    node.name.removeprefix("scenario_")
    for file in HERE.glob("*_scenarios.py")
    for node in parse(file).body
    if isinstance(node, ast.AsyncFunctionDef) and node.name.startswith("scenario_")
)
pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("queen-mq")]


@pytest.fixture(scope="module")
def report(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the client made of a broker, in one run of all scenarios."""
    assert PYTHON.exists(), "the published client is not installed: make .venv-queen-mq/.stamp"
    folder = tmp_path_factory.mktemp("queen-mq")
    with postgres.scratch(TEMPLATE) as database, run_broker(database, folder / "data") as broker:
        command = [str(PYTHON), str(HERE / "scenarios.py"), broker.url, str(folder / "report.json")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
        yield json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_what_users_of_the_client_do(report: dict[str, Any], name: str) -> None:
    assert report["failures"][name] is None, report["failures"][name]


def test_every_scenario_was_run(report: dict[str, Any]) -> None:
    assert sorted(report["failures"]) == NAMES


def test_every_public_method_of_the_client_was_called(report: dict[str, Any]) -> None:
    assert len(report["public"]) > 100, "the list is made by looking at the package"
    assert sorted(set(report["public"]) - set(report["called"])) == []
