from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from queen.spark.pipelines.blocking import blocked_lanes, waits
from queen.spark.pipelines.payloads import sampled, some
from queen.spark.pipelines.skew import Limits, by_partition, evenness, heat, hot_keys, hottest, suggested
from tests.pipelines.support.frames import Tables, rows

LIMITS = Limits(factor=4, share=0.02, blocked=60_000, messages=3)


def spread_out(spark: SparkSession, hot: int) -> Tables:
    """Thirty customers with about as many messages each, and one with `hot`; all in few warehouses."""
    chance = random.Random(4)
    tables = Tables(spark)
    for customer in range(30):
        count = chance.randrange(15, 25) if customer else hot
        for seq in range(1, count + 1):
            payload = {"customer": f"c{customer}", "shop": f"s{seq % 12}", "order": f"o{customer}-{seq}", "n": seq % 2}
            tables.message(f"orders/c{customer}", seq, chance.randrange(86_400), payload)
            tables.message(f"parcels/w{chance.randrange(5)}", 1000 * customer + seq, 0, payload)
    return tables


def test_a_sample_is_cut_down_before_it_is_brought_together(spark: SparkSession) -> None:
    plan = some(Tables(spark).messages)._jdf.queryExecution().sparkPlan().toString()
    assert "WindowGroupLimit" in plan, plan


def test_a_hot_partition_and_key_are_found_with_what_would_split_them(spark: SparkSession) -> None:
    messages = spread_out(spark, 400).messages.cache()
    hot = rows(hottest(by_partition(messages), ["queue"], LIMITS))
    assert [(row["queue"], row["partition"], row["messages"]) for row in hot] == [("orders", "c0", 400)]
    fields = sampled(messages)
    assert fields.keys() == {"orders": ["customer"], "parcels": ["customer"]}
    keys = hot_keys(messages, fields.keys(), LIMITS)
    assert {(row["queue"], row["field"], row["key"]) for row in keys} == {
        ("orders", "customer", "c0"), ("parcels", "customer", "c0"),
    }  # fmt: skip
    (split,) = suggested(messages, hot, fields.names(), LIMITS)
    assert (split["field"], split["lanes"]) == ("shop", 12)
    assert split["largest_share"] == pytest.approx(34 / 400)


def test_nothing_is_hot_in_an_even_queue(spark: SparkSession) -> None:
    messages = spread_out(spark, 20).messages.cache()
    assert rows(hottest(by_partition(messages), ["queue"], LIMITS)) == []
    assert hot_keys(messages, sampled(messages).keys(), LIMITS) == []
    assert suggested(messages, [], {}, LIMITS) == []


def test_named_keys_are_weighed_too(spark: SparkSession) -> None:
    fields = sampled(spread_out(spark, 20).messages)
    assert fields.keys("shop, nothing") == {"orders": ["shop"], "parcels": ["shop"]}


def test_gini(spark: SparkSession) -> None:
    tables = Tables(spark)
    for lane, count in {"even/a": 2, "even/b": 2, "odd/a": 1, "odd/b": 9}.items():
        for seq in range(1, count + 1):
            tables.message(lane, seq, seq)
    found = {row["queue"]: row for row in rows(evenness(by_partition(tables.messages)))}
    assert found["even"]["gini"] == pytest.approx(0)
    assert found["odd"]["gini"] == pytest.approx(0.4)
    assert (found["odd"]["largest"], found["odd"]["partitions"], found["odd"]["median"]) == (9, 2, 5)


def held_up(spark: SparkSession) -> Tables:
    """Message 1 fails twice for a long time; 2 to 5 come meanwhile. The lane q is idle for as long."""
    tables = Tables(spark)
    for seq, moment in enumerate((0, 10, 50, 130, 200), 1):
        tables.message("orders/p", seq, moment)
    tables.deliver("orders/p", "g", (1, 1), 0, 100, "failed", failed=1)
    tables.deliver("orders/p", "g", (1, 1), 120, 200, retry_count=1)
    tables.deliver("orders/p", "g", (2, 5), 210, 215)
    tables.message("orders/q", 1, 0)
    tables.deliver("orders/q", "g", (1, 1), 500, 501)
    return tables


def test_waiting_behind_others_is_told_from_waiting_for_a_consumer(spark: SparkSession) -> None:
    tables = held_up(spark)
    found = rows(waits(tables.messages, tables.deliveries, tables.letters))
    blocked = {(row["partition"], row["seq"]): row["blocked_ms"] for row in found}
    assert blocked == {
        ("p", 1): 0, ("p", 2): 170_000, ("p", 3): 130_000, ("p", 4): 70_000, ("p", 5): 0, ("q", 1): 0,
    }  # fmt: skip


def test_a_blocked_lane_names_what_held_it_up(spark: SparkSession) -> None:
    tables = held_up(spark)
    (lane,) = rows(blocked_lanes(tables.messages, tables.deliveries, tables.letters, 60_000, 3))
    assert (lane["partition"], lane["messages"], lane["longest_ms"]) == ("p", 3, 170_000)
    assert (lane["held_by"], lane["held_ms"], lane["attempts"]) == (1, 180_000, 2)
    assert rows(blocked_lanes(tables.messages, tables.deliveries, tables.letters, 60_000, 4)) == []


def test_the_heat_map_counts_every_message_of_the_largest(spark: SparkSession) -> None:
    tables = spread_out(spark, 50)
    found = {row["queue"]: row for row in heat(tables.messages)}
    assert found["orders"]["partitions"][0] == "c0"
    assert sum(found["orders"]["counts"][0]) == 50
    assert len(found["orders"]["partitions"]) == 20
    assert len(found["parcels"]["partitions"]) == 5
    assert list(heat(Tables(spark).messages)) == []
