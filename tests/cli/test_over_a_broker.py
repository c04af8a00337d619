"""The same commands over HTTP: what a message need not name is not lost on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queen.cli import main
from tests.cli.conftest import Queen, lines
from tests.server.running import run_broker


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
