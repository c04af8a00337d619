"""The verbs against a model in plain Python, and defects planted to see that the comparison notices them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.sql.machine import Machine
from tests.sql.mutation import plant
from tests.support.clock import MOVABLE, SET

RUNS = int(os.environ.get("QUEEN_TEST_MODEL_RUNS", "100"))


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database whose clock the machine moves."""
    with psycopg.connect(database, autocommit=True) as opened:
        opened.execute(SET)
        opened.execute(MOVABLE)
        yield opened


def run(connection: psycopg.Connection[Any], partial: str, limit: int, *, runs: int, atomic: bool = True) -> None:
    """Run examples until one fails, and raise what was found first, with the steps that led to it."""
    found: list[Exception] = []
    try:
        run_state_machine_as_test(
            lambda: Machine(connection, partial, limit, found, atomic=atomic),  # type: ignore[arg-type]
            settings=settings(
                max_examples=runs,
                stateful_step_count=50,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
                print_blob=False,
            ),
        )
    except Exception:
        if found:
            raise found[0] from None
        raise


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("partial", "limit"), [("dlq", 1), ("retry", 2)])
def test_the_verbs_do_what_the_model_does(connection: psycopg.Connection[Any], partial: str, limit: int) -> None:
    run(connection, partial, limit, runs=RUNS)


MUTANTS = {
    "a cursor that is a time": [
        (
            "pop_lanes",
            "greatest(c.last_consumed_seq + 1, p.first_seq) as first",
            "greatest(queen.seq_at(p.id, coalesce(c.last_consumed_at, '-infinity'), true) + 1, p.first_seq) as first",
        ),
        (
            "pop_further",
            "v_from := greatest(c.cursor + 1, c.first_seq);",
            """v_from := greatest(queen.seq_at(c.partition_id, (
                    select coalesce(x.last_consumed_at, '-infinity') from queen.partition_consumers x
                     where x.partition_id = c.partition_id and x.consumer_group = p_group), true) + 1, c.first_seq);""",
        ),
    ],
    "an ack that is not fenced": [("ack_leases", "c.lease_id = u.lease limit 1", "c.lease_id is not null limit 1")],
    "single acks that are not fenced": [
        ("ack_messages", "p_lease[i] is not null and (c.lease_id is null or c.lease_id <> p_lease[i])", "false")
    ],
    "a lost wake-up on push": [("raise_heads", "and c.ready_at is null", "and c.ready_at is null and false")],
    "a lost wake-up on ack": [
        ("ack_leases", "when coalesce(s.next_seq, h.next_seq) > l.reached + 1 then", "when false then")
    ],
    "a retry counted twice": [("ack_lane", "v_retries := v_retries + 1;", "v_retries := v_retries + 2;")],
    "a lease that hides nothing": [
        ("pop_further", "lease_acquired_at = now, ready_at = expires", "lease_acquired_at = now, ready_at = now")
    ],
    "a lease that ends too early": [
        ("ack_leases", "u.up_to >= c.batch_to or c.last_consumed_seq >= c.batch_to as done", "true as done")
    ],
    "retention by the fastest group": [
        ("retain_partition", "min(c.last_consumed_seq) into v_passed", "max(c.last_consumed_seq) into v_passed")
    ],
    "a deletion without a skip": [
        ("delete_message", "update queen.partitions set has_skips = true where id = p_partition;", "")
    ],
    "a seek that keeps the lease": [("seek", "= m.target, lease_id = null, retry_count", "= m.target, retry_count")],
    "duplicates stored again": [("push_items", "if v_seq is not null then", "if v_seq is not null and v_seq < 0 then")],
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_defect_is_noticed(connection: psycopg.Connection[Any], database: str, name: str) -> None:
    changes: dict[str, list[tuple[str, str]]] = {}
    for function, old, new in MUTANTS[name]:
        changes.setdefault(function, []).append((old, new))
    for function, pairs in changes.items():
        plant(database, function, *pairs)
    with pytest.raises((AssertionError, psycopg.Error)):
        run(connection, "dlq", 1, runs=60)


def test_a_transaction_that_is_not_atomic_is_noticed(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(AssertionError):
        run(connection, "dlq", 1, runs=60, atomic=False)
