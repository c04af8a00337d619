from __future__ import annotations

import psycopg
import pytest

from tests.cli.conftest import Queen, lines

ALTERED = """
create or replace function queen.find_message(p_partition bigint, p_transaction_id text) returns bigint
language sql stable as $$ select 1::bigint $$
"""


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("drop function queen.push cascade", "function queen.push("),
        ("drop index queen.consumers_by_ready", "index queen.consumers_by_ready is missing"),
        ("drop view queen.queue_depths", "view queen.queue_depths is missing"),
        (
            ALTERED,
            "function queen.find_message(",
        ),
    ],
    ids=["function", "index", "view", "body"],
)
def test_the_doctor_sees_what_is_not_there_and_repair_puts_it_back(
    queen: Queen, database: str, damage: str, told: str
) -> None:
    queen("push", "orders", "1")
    assert queen("doctor").exit_code == 0
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(damage.encode())
    seen = queen("doctor")
    assert seen.exit_code == 4
    assert told in seen.stdout
    assert "queen init --repair" in seen.stdout
    (mended,) = lines(queen("init", "--repair"))
    assert any(told in one for one in mended["repaired"])
    assert queen("doctor").exit_code == 0
    assert lines(queen("init", "--repair")) == [{"repaired": []}]
    assert lines(queen("push", "orders", "2"))[0]["seq"] == 2


def test_a_table_that_is_gone_took_its_data(queen: Queen, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("drop table queen.traces cascade")
    refused = queen("init", "--repair")
    assert refused.exit_code == 4
    assert "table queen.traces is missing" in refused.stderr
    assert "restore a backup" in refused.stderr
