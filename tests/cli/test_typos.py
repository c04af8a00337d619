from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from queen.cli import main
from tests.cli.conftest import Queen, lines
from tests.cli.test_over_a_broker import over_http

__all__ = ["over_http"]


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["psh", "orders"], "push"),
        (["quue", "ls"], "queue"),
        (["queue", "configur", "orders"], "configure"),
        (["group", "sek"], "seek"),
        (["dlq", "redriv"], "redrive"),
        (["migrate", "stats"], "status"),
        (["workflow", "lst"], "ls"),
    ],
)
def test_a_mistyped_command_is_told_what_was_meant(arguments: list[str], meant: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert f"did you mean '{meant}'?" in done.stderr.lower()


@pytest.mark.parametrize(
    "arguments",
    [
        ["pop", "ordrs"],
        ["tail", "ordrs", "--idle", "1"],
        ["queue", "show", "ordrs"],
        ["queue", "pause", "ordrs"],
        ["queue", "resume", "ordrs"],
        ["queue", "clear", "ordrs", "--yes"],
        ["queue", "rm", "ordrs", "--yes"],
        ["group", "seek", "ordrs", "--to", "start", "--yes"],
    ],
    ids=lambda arguments: "-".join(arguments[:2]),
)
def test_a_mistyped_queue_is_refused_where_making_one_makes_no_sense(queen: Queen, arguments: list[str]) -> None:
    queen("push", "orders", "1")
    done = queen(*arguments)
    assert done.exit_code == 3, done.output
    assert "did you mean 'orders'?" in done.stderr
    assert [one["name"] for one in lines(queen("queue", "ls"))] == ["orders"]


def test_the_same_over_a_broker(over_http: Queen) -> None:
    over_http("push", "orders", "1")
    assert over_http("pop", "ordrs").exit_code == 3
    told = over_http("push", "oders", "1")
    assert "oders is a new queue; did you mean 'orders'?" in told.stderr


def test_a_payload_from_a_file_or_standard_input(queen: Queen, tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text('{"n": 1}\n')
    assert lines(queen("push", "orders", f"@{file}"))[0]["status"] == "queued"
    assert lines(queen("push", "orders", "-", text='{"n": 2}\n{"n": 3}\n')) == [
        {"queued": 2, "duplicate": 0, "scheduled": 0}
    ]
    found = lines(queen("pop", "orders", "--batch", "10"))
    assert [message["data"] for message in found] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert queen("push", "orders", f"@{tmp_path}/nothing").exit_code == 2


def test_what_is_no_message_cannot_be_acknowledged(queen: Queen) -> None:
    for text in ("garbage\n", "{}\n", '{"partition_id": 1}\n', "\xff\n"):
        done = queen("ack", "-", text=text)
        assert done.exit_code == 2
        assert "line 1 is none that `queen pop -o json` prints" in done.stderr


def test_url_and_psql(queen: Queen, database: str) -> None:
    assert queen("url").stdout.strip() == database
    assert queen("psql", "--", "-c", "select 1").exit_code == 0
    assert queen("psql", "--", "-c", "select nonsense").exit_code == 1
    over = CliRunner(env={"QUEEN_URL": "http://localhost:1"})
    assert over.invoke(main, ["url"]).stdout == "http://localhost:1\n"
    assert "works on the database itself" in over.invoke(main, ["psql"]).stderr


def test_workflows_are_looked_for_where_queen_url_says(
    queen: Queen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert queen("workflow", "ls").exit_code == 0
    assert not Path(".queen").exists(), "an embedded database was started"
    over = CliRunner(env={"QUEEN_URL": "http://localhost:1"}).invoke(main, ["workflow", "ls"])
    assert over.exit_code == 5
    assert "no broker can be reached" in over.stderr
