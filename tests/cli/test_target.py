from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from queen.cli import main
from tests.cli.conftest import lines
from tests.server.running import run_broker


def test_commands_work_on_a_broker_as_on_a_database(database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path) as broker:
        runner = CliRunner(env={"QUEEN_URL": broker.url})
        assert lines(runner.invoke(main, ["push", "orders"], input="1\n2\n3\n")) == [
            {"queued": 3, "duplicate": 0, "scheduled": 0}
        ]
        popped = runner.invoke(main, ["pop", "orders", "--batch", "2"])
        assert [message["data"] for message in lines(popped)] == [1, 2]
        failed = runner.invoke(main, ["ack", "-", "--status", "dlq", "--error", "no"], input=popped.stdout)
        assert [one["dead_letter"] for one in lines(failed)] == [True, True]
        assert len(lines(runner.invoke(main, ["dlq", "ls"]))) == 2
        assert lines(runner.invoke(main, ["dlq", "redrive", "--queue", "orders", "--yes"]))[0]["redriven"] == 2
        assert lines(runner.invoke(main, ["queue", "configure", "orders", "retry_limit=7"]))[0]["retry_limit"] == 7
        assert lines(runner.invoke(main, ["queue", "show", "orders"]))[0]["lanes"][0]["total"] == 5
        assert lines(runner.invoke(main, ["group", "seek", "orders", "--to", "end", "--yes"]))[0]["skipped"] == 3
        assert len(lines(runner.invoke(main, ["tail", "orders", "--from", "all", "--limit", "5"]))) == 5
        assert [group["lag"] for group in lines(runner.invoke(main, ["group", "ls"]))] == [0]
        assert runner.invoke(main, ["queue", "rm", "orders", "--yes"]).exit_code == 0
        assert runner.invoke(main, ["init"]).exit_code == 2


def test_with_no_address_the_embedded_server_is_used(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUEEN_URL", raising=False)
    monkeypatch.delenv("QUEEN_DATABASE_URL", raising=False)
    runner = CliRunner(env={"QUEEN_DATA_DIR": str(scratch)})
    assert lines(runner.invoke(main, ["push", "orders", "1"]))[0]["status"] == "queued"
    assert lines(runner.invoke(main, ["queue", "ls"]))[0]["depth"] == 1
