from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Queen, lines


def test_push_pop_ack(queen: Queen) -> None:
    (pushed,) = lines(queen("push", "orders", '{"n": 1}', "--partition", "acme", "--transaction-id", "o-1"))
    assert (pushed["status"], pushed["seq"], pushed["partition"]) == ("queued", 1, "acme")
    (again,) = lines(queen("push", "orders", '{"n": 1}', "--partition", "acme", "--transaction-id", "o-1"))
    assert (again["status"], again["id"]) == ("duplicate", pushed["id"])
    popped = queen("pop", "orders", "--batch", "5")
    (message,) = lines(popped)
    assert (message["data"], message["transaction_id"]) == ({"n": 1}, "o-1")
    assert lines(queen("pop", "orders")) == []
    (acked,) = lines(queen("ack", "-", text=popped.stdout))
    assert acked["verdict"] == "acked"
    late = queen("ack", "-", "--status", "failed", text=popped.stdout)
    assert (late.exit_code, json.loads(late.stdout)["verdict"]) == (4, "lost")


def test_ack_one_by_its_ids(queen: Queen) -> None:
    queen("push", "orders", "1")
    (message,) = lines(queen("pop", "orders", "--group", "billing"))
    at = (message["partition_id"], message["transaction_id"], "--group", "billing", "--lease", message["lease_id"])
    (acked,) = lines(queen("ack", *at, "--status", "dlq", "--error", "no"))
    assert acked["dead_letter"]
    assert queen("ack", "nonsense", "x").exit_code == 2
    assert queen("ack", message["partition_id"]).exit_code == 2


def test_push_lines(queen: Queen, tmp_path: Path) -> None:
    text = "".join(f'{{"customer": "c{number % 3}", "order": {number}}}\n' for number in range(30))
    fields = ("--partition-field", "customer", "--transaction-field", "order", "--batch", "7")
    assert lines(queen("push", "orders", *fields, text=text + "\n\n")) == [
        {"queued": 30, "duplicate": 0, "scheduled": 0}
    ]
    file = tmp_path / "orders.ndjson"
    file.write_text(text)
    assert lines(queen("push", "orders", *fields, "--file", str(file)))[0]["duplicate"] == 30
    (queue,) = lines(queen("queue", "ls"))
    assert (queue["partitions"], queue["depth"]) == (3, 30)
    found = lines(queen("pop", "orders", "--partition", "c1", "--batch", "100"))
    assert [message["data"]["order"] for message in found] == list(range(1, 30, 3))


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ('{"a": 1}\nnonsense\n', (), "line 2 cannot be pushed"),
        ('{"a": 1}\n', ("--partition-field", "b"), "line 1 cannot be pushed: 'there is no field b'"),
    ],
)
def test_a_bad_line_is_named(queen: Queen, text: str, options: tuple[str, ...], words: str) -> None:
    result = queen("push", "orders", *options, text=text)
    assert result.exit_code == 2
    assert words in result.stderr


def test_tail_shows_and_leaves_no_trace(queen: Queen) -> None:
    queen("push", "orders", text="1\n2\n3\n")
    seen = lines(queen("tail", "orders", "--from", "all", "--limit", "2"))
    assert [message["data"] for message in seen] == [1, 2]
    assert [group["group"] for group in lines(queen("group", "ls"))] == []
    table = queen("tail", "orders", "--from", "all", "--limit", "1", "-o", "table").stdout
    assert "Default #1  1" in table


def test_trace(queen: Queen) -> None:
    trace = "0198c0de-0000-7000-8000-000000000001"
    queen("push", "orders", "1", "--trace-id", trace)
    (message,) = lines(queen("trace", trace))
    assert (message["queue"], message["parent_id"]) == ("orders", None)
    assert "orders/Default" in queen("trace", trace, "-o", "table").stdout
    assert queen("trace", "0198c0de-0000-7000-8000-000000000002").exit_code == 3


def test_bench_cleans_up(queen: Queen) -> None:
    rows = lines(queen("bench", "--messages", "200", "--batch", "20"))
    assert [(row["verb"], row["messages"]) for row in rows] == [("push", 200), ("consume", 200)]
    assert lines(queen("queue", "ls")) == []


def test_stats_looks_as_often_as_asked(queen: Queen) -> None:
    queen("push", "orders", text="1\n2\n")
    (row,) = lines(queen("stats"))
    assert (row["queue"], row["waiting"], row["paused"]) == ("orders", 2, False)
    assert len(lines(queen("stats", "--count", "2", "--interval", "0.1"))) == 2
    assert "waiting" in queen("stats", "--count", "1", "-o", "table").stdout
    assert "waiting" in queen("stats", "-o", "table").stdout  # once: nobody watches a pipe
