from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from queen.cli import main
from queen.testing import Clock
from tests.server.running import run_broker
from tests.support.bouncer import bouncer

CHECKS = [
    "reachability", "schema version", "pooler mode", "autovacuum", "oldest transaction", "services", "unused groups",
    "clock skew",
    "disk",
]  # fmt: skip


def doctor(url: str, *options: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code and what each check found."""
    result: Result = CliRunner().invoke(main, ["doctor", "--url", url, *options])
    found = [json.loads(line) for line in result.stdout.splitlines()]
    return result.exit_code, {one["check"]: (one["state"], one["text"]) for one in found}


def only_fault(url: str, check: str, *options: str) -> str:
    """The text of a fault that must be the only one."""
    code, found = doctor(url, *options)
    assert code == 4
    assert [name for name, (state, _) in found.items() if state == "fault"] == [check]
    return found[check][1]


@contextmanager
def statement(url: str, text: str) -> Iterator[None]:
    """A statement in a transaction that stays open for the block."""
    with psycopg.connect(url) as connection:
        connection.execute(text)
        yield
        connection.rollback()


def change(url: str, text: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(text)


def test_a_healthy_database_has_no_fault(database: str) -> None:
    code, found = doctor(database)
    assert list(found) == CHECKS
    assert (code, {state for state, _ in found.values()}) == (0, {"ok"})


def test_an_outdated_schema_is_found(database: str) -> None:
    change(database, "delete from queen.schema_migrations where name = (select max(name) from queen.schema_migrations)")
    assert "run `queen migrate up`" in only_fault(database, "schema version")


def test_a_table_without_autovacuum_is_found(database: str) -> None:
    change(database, "alter table queen.partition_consumers set (autovacuum_enabled = off)")
    assert "queen.partition_consumers: autovacuum is told to leave it alone" in only_fault(database, "autovacuum")


def test_a_transaction_that_holds_back_clean_up_is_found(database: str) -> None:
    with statement(database, "select pg_current_xact_id(), pg_sleep(0.2)"):
        assert "idle in transaction" in only_fault(database, "oldest transaction", "--max-age", "0.1")


def test_a_service_that_does_not_succeed_is_found(database: str) -> None:
    change(database, "select queen.hold_service('retention', 'me', 1000)")
    change(database, "select queen.report_service('retention', 'me', null, 'STORE_UNAVAILABLE: no room')")
    change(database, "update queen.service_leases set registered_at = registered_at - interval '1 minute'")
    text = only_fault(database, "services")
    assert "retention for 6" in text
    assert "no room" in text


def test_a_clock_that_differs_is_found(database: str) -> None:
    Clock(database).advance(90)
    assert "differ by 9" in only_fault(database, "clock skew")


def test_a_disk_that_fills_up_is_found(database: str) -> None:
    assert "less than 1e+09" in only_fault(database, "disk", "--min-free", "1000000000")


def test_a_server_that_does_not_answer_is_found(empty_database: str) -> None:
    code, found = doctor("postgresql://127.0.0.1:1/nothing")
    assert (code, found["reachability"][0]) == (5, "fault")
    code, found = doctor(empty_database)
    assert (code, found["schema version"][0], found["clock skew"][0]) == (4, "fault", "ok")


def test_a_broker_is_asked_too(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_broker(database, tmp_path) as broker:
        assert doctor(broker.url) == (0, {"reachability": ("ok", "the broker answers and has 0 queues")})
    monkeypatch.setattr("queen.client.retry.Retry.delay", lambda *_: 0.0)
    assert doctor(broker.url)[0] == 5


def test_a_pooler_that_is_not_configured_is_found(database: str, tmp_path: Path) -> None:
    with bouncer(database) as url:
        code, found = doctor(url)
        assert (code, found["pooler mode"][0]) == (4, "fault")
        assert "QUEEN_POOLER=transaction" in found["pooler mode"][1]
        settings = tmp_path / "queen.toml"
        settings.write_text('pooler = "transaction"\n')
        code, found = doctor(url, "--config", str(settings))
        assert (code, found["pooler mode"][0]) == (0, "ok")


def test_a_group_nobody_uses_is_found(database: str) -> None:
    change(database, "select queen.subscribe('orders', 'billing', 'all', null)")
    change(database, "update queen.subscriptions set used_at = used_at - interval '40 days'")
    assert "billing on orders for 40 days" in only_fault(database, "unused groups")
