"""The same commands over HTTP: what a message need not name is not lost on the way."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import queen
from queen.cli import main
from tests.cli.conftest import Queen, lines
from tests.server.running import run_broker
from tests.support.wait import wait_for


@pytest.fixture
def over_http(database: str, tmp_path: Path) -> Iterator[Queen]:
    """Runs a command against a broker."""
    with run_broker(database, tmp_path) as broker:

        def run(*arguments: str, text: str | None = None) -> Result:
            return CliRunner(env={"QUEEN_URL": broker.url}).invoke(main, arguments, input=text)

        yield run


def test_single_messages_without_any_name_of_their_own_are_all_stored(over_http: Queen) -> None:
    pushed = [lines(over_http("push", "orders", f'{{"n": {number}}}'))[0] for number in range(3)]
    assert [one["status"] for one in pushed] == ["queued"] * 3
    assert [one["seq"] for one in pushed] == [1, 2, 3]
    assert len({one["transaction_id"] for one in pushed}) == 3
    found = lines(over_http("pop", "orders", "--batch", "10"))
    assert [message["data"]["n"] for message in found] == [0, 1, 2]
    for name in ("id", "transaction_id"):
        assert [message[name] for message in found] == [one[name] for one in pushed]


def test_lines_without_any_name_of_their_own_are_all_stored(over_http: Queen) -> None:
    assert lines(over_http("push", "orders", "--batch", "2", text="1\n2\n3\n")) == [
        {"queued": 3, "duplicate": 0, "scheduled": 0}
    ]


def test_every_optional_field_arrives(over_http: Queen) -> None:
    trace = "0198c0de-0000-7000-8000-000000000001"
    given = ("--partition", "acme", "--transaction-id", "o-1", "--trace-id", trace)
    (pushed,) = lines(over_http("push", "orders", "1", *given))
    (message,) = lines(over_http("pop", "orders"))
    assert (message["id"], message["partition"], message["transaction_id"], message["trace_id"]) == (
        pushed["id"],
        "acme",
        "o-1",
        trace,
    )
    assert lines(over_http("push", "orders", "1", *given))[0]["status"] == "duplicate"


def test_an_empty_transaction_id_is_refused_and_not_replaced(over_http: Queen, queen: Queen) -> None:
    for run in (over_http, queen):
        refused = run("push", "orders", "1", "--transaction-id", "")
        assert refused.exit_code != 0
        assert "transactionId must have 1 to" in refused.output


@pytest.mark.parametrize("end", ["interrupt", "terminate", "pipe", "limit"])
@pytest.mark.parametrize("place", ["broker", "database"])
def test_tail_leaves_no_group_behind(database: str, tmp_path: Path, end: str, place: str) -> None:
    """Whichever way it ends: a group that stays would hold back retention."""
    with run_broker(database, tmp_path) as broker, queen.connect_sync(database) as q:
        q.push("orders", 0)
        command = [sys.executable, "-m", "queen", "tail", "orders", "-o", "json"]
        command += [
            "--url",
            broker.url if place == "broker" else database,
            *(["--limit", "2"] if end == "limit" else []),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            try:
                wait_for(lambda: q.groups.list("orders"))
                q.push_many("orders", [1, 2, 3])
                assert process.stdout is not None
                assert process.stdout.readline()
                if end in ("interrupt", "terminate"):
                    process.send_signal(signal.SIGINT if end == "interrupt" else signal.SIGTERM)
                elif end == "pipe":
                    process.stdout.close()
                    q.push("orders", 4)
                code = process.wait(20)
                assert process.stderr is not None
                assert (code, process.stderr.read()) == (0, b"")
            finally:
                process.kill()
        assert not q.groups.list("orders")
