"""Producers commit out of order; whoever follows by anything but the horizon loses or disorders messages."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import TupleRow
from pyspark.sql import SparkSession

from tests.spark.support.followers import ByCreatedAt, ByHorizon, BySequence, ByTransaction, Follower
from tests.spark.support.queues import Queues, push
from tests.spark.support.streams import Batches, start, stream
from tests.support.wait import wait_for

ENOUGH = 50
STORED = "select count(*) from queen.messages"


def story(follower: Follower) -> None:
    """An old transaction pushes last, one that pushed early commits late, an unrelated one stays open."""
    queues, queue = follower.queues, follower.queue
    with queues.connect() as old, queues.connect() as slow, queues.connect() as unrelated:
        old.execute("select pg_current_xact_id()")
        unrelated.execute("select pg_current_xact_id()")
        push(slow, queue, "a", 1)
        for number in range(3):
            queues.push(queue, "b", number)
        follower.poll()
        slow.commit()
        for number in range(3):
            queues.push(queue, "c", number)
        follower.poll()
        push(old, queue, "c", "last")
        queues.push(queue, "d", 1)
        follower.poll()
        old.commit()
        queues.push(queue, "c", "after")
        follower.poll()
        unrelated.rollback()
    follower.poll()


@pytest.mark.parametrize("batch", [1, 3, 1000])
def test_by_horizon_nothing_is_missed_or_misordered(queues: Queues, batch: int) -> None:
    with ByHorizon(queues, "orders", batch, first="b") as follower:
        story(follower)
    assert follower.problems() == []
    assert len(follower.seen) == 11


@pytest.mark.parametrize("kind", [ByCreatedAt, BySequence, ByTransaction])
def test_every_other_position_misses_or_misorders(queues: Queues, kind: type[Follower]) -> None:
    with kind(queues, "orders", 3, first="b") as follower:
        story(follower)
    assert follower.problems() != []


def test_a_transaction_that_does_not_push_holds_nothing_back(queues: Queues) -> None:
    with ByHorizon(queues, "orders", 10, first="a") as follower, queues.connect() as unrelated:
        unrelated.execute("create table unrelated (n int)")
        queues.push("orders", "a", 2)
        follower.poll()
        assert follower.seen == [("a", 1), ("a", 2)]


def produce(queues: Queues, seed: int, stop: threading.Event) -> None:
    """Pushes in transactions of many shapes: held open, rolled back, in savepoints, stricter than usual."""
    chance = random.Random(seed)
    with queues.connect() as connection:
        number = 0
        while not stop.is_set():
            connection.isolation_level = chance.choice([None, psycopg.IsolationLevel.SERIALIZABLE])
            try:
                if chance.random() < 0.3:
                    connection.execute("select pg_current_xact_id()")
                    stop.wait(chance.random() * 0.05)
                for _ in range(chance.randint(1, 4)):
                    number = push_somewhere(connection, chance, seed, number)
                    stop.wait(chance.random() * 0.02)
                (connection.rollback if chance.random() < 0.2 else connection.commit)()
            except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                connection.rollback()


def push_somewhere(connection: psycopg.Connection[TupleRow], chance: random.Random, seed: int, number: int) -> int:
    connection.execute("savepoint here")
    push(connection, "orders", chance.choice("abcdefgh"), [seed, number])
    connection.execute("rollback to here" if chance.random() < 0.2 else "release here")
    return number + 1


def run_producers(queues: Queues, seconds: float) -> threading.Event:
    """Four producers for some seconds, and until they stored enough: they get into deadlocks, which take a second each.

    They end by themselves; the event tells when.
    """
    stop, ended = threading.Event(), threading.Event()
    threads = [threading.Thread(target=produce, args=(queues, seed, stop)) for seed in range(4)]
    for thread in threads:
        thread.start()
    earliest = time.monotonic() + seconds

    def end() -> None:
        try:
            wait_for(lambda: time.monotonic() > earliest and queues.value(STORED) > ENOUGH, limit=60)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            ended.set()

    threading.Thread(target=end).start()
    return ended


def test_under_stress_nothing_is_missed_or_misordered(queues: Queues) -> None:
    with ByHorizon(queues, "orders", 5, first="a") as follower:
        ended = run_producers(queues, 4)
        while not ended.is_set():
            follower.poll()
        follower.poll()
    assert follower.problems() == []
    assert len(follower.seen) > ENOUGH


def test_a_running_stream_with_small_triggers_misses_nothing(
    spark: SparkSession, queues: Queues, tmp_path: Path
) -> None:
    queues.push("orders", "a", "first")
    batches = Batches()
    frame = stream(spark, queues, queue="orders", maxOffsetsPerTrigger=200)
    query = start(frame, batches, tmp_path / "checkpoint", processingTime="0 seconds")
    try:
        assert run_producers(queues, 6).wait(90)
        total = queues.value(STORED)
        wait_for(lambda: len(batches.all) >= total, limit=90)
    finally:
        query.stop()
    stored = queues.rows(
        """select p.name, array_agg(m.seq order by m.seq) from queen.messages m
             join queen.partitions p on p.id = m.partition_id group by p.name"""
    )
    assert batches.lanes() == dict(stored)
    assert len(batches.sizes) > 2
