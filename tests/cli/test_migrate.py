from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queen.cli import main
from queen.db import migrate


def queen(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_help_lists_what_exists() -> None:
    result = queen("--help")
    assert result.exit_code == 0
    assert "migrate" in result.output
    assert queen("nonsense").exit_code == 2


def test_up_status_plan_down(empty_database: str) -> None:
    at = ("migrate", "--database-url", empty_database, "--set", "queen")
    assert queen(*at, "status", "--check").exit_code == 4
    assert queen(*at, "up").exit_code == 0
    assert queen(*at, "up").output == "queen is current\n"
    assert queen(*at, "plan").output == ""
    lines = queen(*at, "status", "--check").output.splitlines()
    assert {json.loads(line)["state"] for line in lines} == {"applied"}
    assert queen(*at, "down", "--to", "0", "--yes").exit_code == 0
    assert queen(*at, "status", "--check").exit_code == 4


def test_the_database_of_queen_url_is_used_and_a_broker_refused(
    empty_database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("QUEEN_DATABASE_URL", raising=False)
    monkeypatch.setenv("QUEEN_URL", empty_database)
    at = ("migrate", "--data-dir", str(tmp_path / "data"), "--set", "queen")
    assert "applied" in queen(*at, "up").output
    monkeypatch.setenv("QUEEN_URL", "http://localhost:6632")
    refused = queen(*at, "status")
    assert (refused.exit_code, "works on the database itself" in refused.output) == (2, True)
    monkeypatch.setenv("QUEEN_DATABASE_URL", empty_database)
    assert queen(*at, "status", "--check").exit_code == 0
    assert not (tmp_path / "data").exists()


def test_down_asks_first(database: str) -> None:
    result = CliRunner().invoke(main, ["migrate", "--database-url", database, "down", "--to", "0"], input="n\n")
    assert result.exit_code == 1
    assert queen("migrate", "--database-url", database, "status", "--check").exit_code == 0


def test_plan_needs_no_database() -> None:
    url = "postgresql://127.0.0.1:1/nowhere"
    result = queen("migrate", "--database-url", url, "--set", "queen", "plan", "--offline")
    assert result.exit_code == 0
    for script in migrate.QUEEN.migrations:
        assert f"-- queen: migration {script.name}\n" in result.output


def test_two_processes_migrate_once(empty_database: str) -> None:
    command = [sys.executable, "-m", "queen", "migrate", "--database-url", empty_database, "--set", "queen", "up"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = sorted(process.communicate(timeout=60)[0] for process in processes)
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs.count("queen is current\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--database-url", "postgresql://127.0.0.1:1/x"), 5, "cannot connect to PostgreSQL"),
        (("--database-url", "mysql://x"), 2, "must start with postgresql://"),
        (("--config", "nowhere.toml"), 2, "cannot read the configuration file nowhere.toml"),
        (("--data-dir", "/dev/null/x"), 5, "/dev/null"),
    ],
)
def test_an_expected_error_is_one_line(arguments: tuple[str, ...], code: int, message: str) -> None:
    result = queen("migrate", *arguments, "up")
    assert result.exit_code == code
    assert message in result.output
    assert len(result.output.splitlines()) == 1


def test_the_embedded_server_is_used_unless_told_otherwise(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUEEN_DATABASE_URL", raising=False)
    monkeypatch.setenv("QUEEN_DATA_DIR", str(scratch))
    assert queen("migrate", "up").exit_code == 0
    assert queen("migrate", "status", "--check").exit_code == 0
    assert (scratch / "postgres" / "PG_VERSION").exists()
