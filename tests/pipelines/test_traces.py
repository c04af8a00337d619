from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from queen.spark.pipelines.definition import Period
from queen.spark.pipelines.flows import edges, parts, shapes
from queen.spark.pipelines.spans import Handling, Span, explain
from queen.spark.pipelines.traces import drawn, explained, gathered
from tests.pipelines.support.frames import Tables, at, rows


def span(name: str, parent: str | None, queue: str, created: int, *handled: tuple[str, int | None, int | None]) -> Span:
    return Span(name, parent, queue, created * 1000, [
        Handling(group, leased and leased * 1000, finished and finished * 1000) for group, leased, finished in handled
    ])  # fmt: skip


def test_the_critical_path_leads_to_what_ended_last() -> None:
    found = explain(
        "t",
        [
            span("1", None, "orders", 0, ("shop", 10, 30)),
            span("2", "1", "payments", 20, ("bank", 25, 60)),
            span("3", "1", "mail", 22, ("mailer", 30, 500)),
            span("4", "2", "shipping", 50, ("packing", 80, 90)),
        ],
        [],
    )
    assert [hop["id"] for hop in found["path"]] == ["1", "3"]
    assert found["total_ms"] == 500
    assert found["hops"] == 3
    assert found["shape"] == "orders(mail, payments(shipping))"
    assert found["path"][0] == {"id": "1", "queue": "orders", "group": "shop", "wait_ms": 10, "work_ms": 20}
    assert not found["broken"]
    assert {(e["source"], e["target"]): (e["latency_ms"], e["critical"]) for e in found["edges"]} == {
        ("orders", "payments"): (20, False),
        ("orders", "mail"): (22, True),
        ("payments", "shipping"): (30, False),
    }


def test_a_hop_is_measured_by_the_group_that_pushed_the_next() -> None:
    root = span("1", None, "orders", 0, ("early", 1, 5), ("mover", 8, 30), ("late", 900, 990))
    found = explain("t", [root, span("2", "1", "mail", 20, ("slow", 40, 900), ("quick", 41, 50))], [])
    assert [hop["group"] for hop in found["path"]] == ["mover", "quick"]
    assert found["total_ms"] == 50


def test_a_missing_parent_breaks_a_trace_and_starts_a_tree_of_its_own() -> None:
    found = explain("t", [span("1", None, "a", 0), span("2", "gone", "b", 5, ("g", 6, 9))], ["gone"])
    assert found["broken"]
    assert found["missing"] == ["gone"]
    assert found["shape"] == "a + b"
    assert [hop["id"] for hop in found["path"]] == ["2"]


def test_messages_that_name_each_other_do_not_hang() -> None:
    found = explain("t", [span("1", "2", "a", 0), span("2", "1", "b", 1)], [])
    assert found["broken"]
    assert found["path"] == []


def test_a_long_chain_is_followed_to_its_end() -> None:
    chain = [span(str(n), str(n - 1) if n else None, "q", n) for n in range(5000)]
    assert explain("t", chain, [])["hops"] == 5000


def test_unfinished_work_has_no_times() -> None:
    found = explain("t", [span("1", None, "a", 7), span("2", "1", "b", 9, ("g", 12, None))], [])
    assert found["path"][-1]["wait_ms"] is None
    assert found["total_ms"] == 2


def shop(spark: SparkSession) -> Tables:
    tables = Tables(spark)
    for number in range(4):
        order = tables.message("orders/p", number + 1, number * 100, trace_id=f"t{number}")
        tables.deliver("orders/p", "shop", (number + 1, number + 1), number * 100 + 1, number * 100 + 3)
        parent = "nowhere" if number == 3 else order
        tables.message("mail/p", number + 1, number * 100 + 2, trace_id=f"t{number}", parent_id=parent)
        tables.deliver("mail/p", "mailer", (number + 1, number + 1), number * 100 + 5, number * 100 + 9 + number)
    tables.message("orders/p", 5, 900)
    return tables


def test_traces_are_gathered_from_the_tables(spark: SparkSession) -> None:
    tables = shop(spark)
    found = explained(gathered(tables.messages, tables.deliveries, tables.letters, Period())).cache()
    by_id = {row["trace_id"]: row for row in rows(found)}
    assert {name for name, row in by_id.items() if row["broken"]} == {"t3"}
    assert by_id["t3"]["missing"] == ["nowhere"]
    assert {name: row["total_ms"] for name, row in by_id.items()} == {
        "t0": 9000,
        "t1": 10_000,
        "t2": 11_000,
        "t3": 10_000,
    }
    kept = {kind: [row["value"] for row in part] for kind, part in parts(found, 2, ["t1"], whole=True)}
    (shape,) = drawn(shapes(kept["shapes"], kept["places"]))
    assert (shape["shape"], shape["count"], shape["slowest"]) == ("orders(mail)", 3, "t2")
    assert shape["total_p50_ms"] == pytest.approx(10_000, rel=0.01)
    (edge,) = edges(kept["edges"])
    assert (edge["source"], edge["target"], edge["count"]) == ("orders", "mail", 3)
    assert edge["latency_p50_ms"] == pytest.approx(2000, rel=0.01)
    assert edge["critical_ms"] == 6000
    by_place = {row["place"]: (row["wait_p50_ms"], row["work_p50_ms"]) for row in shape["places"]}
    assert by_place == {
        "orders": pytest.approx((1000, 2000), rel=0.01), "orders > mail": pytest.approx((3000, 5000), rel=0.01),
    }  # fmt: skip
    assert [one["trace"]["trace_id"] for one in kept["slowest"]] == ["t2", "t1"]
    assert [one["trace"]["trace_id"] for one in kept["wanted"]] == ["t1"]
    assert [one["trace"]["missing"] for one in kept["broken"]] == [["nowhere"]]
    assert shape["picture"].startswith("<svg")
    assert ">mail<" in shape["picture"]


def test_a_trace_that_is_too_large_is_left_out_before_its_messages_are_brought_together(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queen.spark.pipelines.traces.LARGEST", 2)
    tables = shop(spark)
    for seq in range(6, 9):
        tables.message("orders/p", seq, 900 + seq, trace_id="huge")
    found = gathered(tables.messages, tables.deliveries, tables.letters, Period())
    plan = found._jdf.queryExecution().optimizedPlan().toString().splitlines()
    (collected,) = (number for number, line in enumerate(plan) if "collect_list(struct(id" in line)
    assert any("count" in line and "> 2" in line for line in plan[collected + 1 :]), "below, so before"
    assert {row["trace_id"] for row in rows(found)} == {"t0", "t1", "t2", "t3"}


def test_a_period_takes_whole_traces(spark: SparkSession) -> None:
    tables = shop(spark)
    found = gathered(tables.messages, tables.deliveries, tables.letters, Period(at(101.5), at(103)))
    (row,) = rows(explained(found))
    assert (row["trace_id"], row["spans"], row["broken"]) == ("t1", 2, False)
