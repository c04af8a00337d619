"""What is done at a terminal is in the audit log, under the name of whoever sits there."""

from __future__ import annotations

from pathlib import Path

import psycopg
from click.testing import CliRunner

from queen.cli import main
from queen.cli.target import operator
from tests.cli.conftest import Queen
from tests.server.running import run_broker


def noted(database: str) -> list[tuple[str, str, str | None, str | None]]:
    with psycopg.connect(database) as connection:
        rows = connection.execute("select act, subject, queue, target from queen.audit order by id").fetchall()
    return [(row[0], row[1], row[2], row[3]) for row in rows]


def done(queen: Queen, *arguments: str) -> None:
    result = queen(*arguments)
    assert result.exit_code == 0, result.output


def test_acts_straight_on_the_database(queen: Queen, database: str) -> None:
    for arguments in (
        ("push", "orders", "1"),
        ("queue", "configure", "orders", "lease_time=5m"),
        ("queue", "pause", "orders"),
        ("queue", "resume", "orders"),
        ("pop", "orders", "--group", "billing", "--auto-ack"),
        ("group", "seek", "orders", "billing", "--to", "end", "--dry-run"),
        ("group", "seek", "orders", "billing", "--to", "start", "--yes"),
        ("group", "rm", "billing", "--queue", "orders", "--yes"),
        ("queue", "clear", "orders", "--yes"),
        ("queue", "rm", "orders", "--yes"),
    ):
        done(queen, *arguments)
    me = operator()
    assert noted(database) == [
        ("configure", me, "orders", None),
        ("pause", me, "orders", None),
        ("resume", me, "orders", None),
        ("seek", me, "orders", "billing"),
        ("forget", me, "orders", "billing"),
        ("clear", me, "orders", None),
        ("delete-queue", me, "orders", None),
    ]


def test_over_a_broker_it_is_noted_once(database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path) as running:
        queen = CliRunner(env={"QUEEN_URL": running.url})
        for arguments in (["push", "orders", "1"], ["queue", "pause", "orders"]):
            assert queen.invoke(main, arguments).exit_code == 0
    assert [(act, subject) for act, subject, _, _ in noted(database)] == [("pause", "anyone")]
