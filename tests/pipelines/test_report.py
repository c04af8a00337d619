from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from queen.spark.pipelines.definition import Period
from queen.spark.pipelines.pictures import draw_heat, draw_lines, draw_path, draw_shape, duration, nice
from queen.spark.pipelines.report import SECTIONS, findings, rendered
from queen.spark.pipelines.running import Job, Runner
from tests.pipelines.support.frames import START
from tests.pipelines.support.lakes import Pond

NASTY = "<script>alert('x')</script>"


def found(**given: Any) -> dict[str, dict[str, list[dict[str, Any]]]]:
    return {name: {kind: given.get(f"{name}_{kind}", []) for kind in SECTIONS[name]} for name in SECTIONS}


def series() -> list[dict[str, Any]]:
    return [
        {
            "queue": NASTY, "consumer_group": "g", "grain": "hour", "bucket": START + timedelta(hours=hour),
            "messages_in": 5, "messages_out": 4, "messages_failed": 0, "bytes_in": 10, "wait_p50_ms": 1.0,
            "wait_p95_ms": None if hour == 1 else 2.0, "work_p50_ms": 1.0, "work_p95_ms": 1.0, "lag": hour,
            "backlog_age_ms": 0,
        }
        for hour in range(3)
    ]  # fmt: skip


def test_names_cannot_break_out_of_the_page() -> None:
    cluster = {
        "kind": "dead", "queue": NASTY, "error": NASTY, "version": "1", "count": 2, "partitions": 1, "trend": "rising",
        "first_seen": START.isoformat(), "last_seen": START.isoformat(), "slots": [1, 1], "groups": ["g"],
        "redrive": [{"group": "g", "command": f"queen dlq redrive --error '{NASTY}'", "also": 0}],
        "examples": [{"failed_at": START.isoformat(), "partition": "p", "id": "1", "text": NASTY, "payload": NASTY}],
    }  # fmt: skip
    page = rendered("Shop", found(triage_clusters=[cluster]), series(), {name: {} for name in SECTIONS}, START)
    assert NASTY not in page
    assert page.count("<script") == 1
    match = re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    assert json.loads(match[1])["found"]["triage"]["clusters"][0]["error"] == NASTY


def test_the_page_needs_nothing_from_elsewhere() -> None:
    page = rendered("Shop", found(), series(), {name: {} for name in SECTIONS}, START)
    assert set(re.findall(r"https?://[^\"' )]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page
    assert "Nothing stands out" in page
    assert "Nothing failed" in page


@pytest.mark.parametrize(("enough", "told"), [(True, "with 9%</td>"), (False, "with 9%, still hot</td>")])
def test_a_split_that_is_not_enough_is_told(enough: bool, told: str) -> None:
    split = {"field": "store", "lanes": 12, "largest_share": 0.09, "enough": enough}
    hot = {"queue": "q", "partition": "p", "messages": 500, "share": 0.1, "times": 30.0, "split": split}
    page = rendered("Shop", found(skew_hot_partitions=[hot]), [], {name: {} for name in SECTIONS}, START)
    assert told in page


def behind(hour: int, lag: int, **other: Any) -> dict[str, Any]:
    return {
        **series()[0], "queue": "orders", "consumer_group": "slow", "bucket": START + timedelta(hours=hour), "lag": lag,
        "backlog_age_ms": lag * 10_000, **other,
    }  # fmt: skip


def test_a_group_that_fell_behind_is_a_finding_unless_a_held_up_partition_is() -> None:
    rows = [behind(0, 10), behind(1, 400), behind(2, 300)]
    (told,) = findings(found(), rows)
    assert "orders: group slow fell 400 messages behind" in told["text"]
    assert told["text"].endswith("300 still wait")
    assert findings(found(), [behind(0, 10), behind(1, 49)]) == []
    assert findings(found(), [behind(0, 5000, backlog_age_ms=20_000)]) == [], "many, but not for long"
    (caught,) = findings(found(), [behind(0, 400), behind(1, 0)])
    assert caught["text"].endswith("it has caught up since")
    held = {
        "queue": "orders", "partition": "p", "consumer_group": "slow", "messages": 380, "held_by": 5, "held_ms": 9e5,
    }  # fmt: skip
    assert [each["kind"] for each in findings(found(skew_blocked=[held]), rows)] == ["blocked"]


def test_a_partition_hot_in_several_queues_is_one_finding() -> None:
    hot = [
        {"queue": queue, "partition": "customer-7", "messages": 500, "share": 0.1, "times": 30.0, "split": None}
        for queue in ("orders", "payments")
    ]
    (told,) = findings(found(skew_hot_partitions=hot), [])
    assert "customer-7 gets 10% of orders (30 times the median), 10% of payments" in told["text"]


def test_a_report_tells_of_its_own_lake_and_period_and_needs_no_spark(pond: Pond, tmp_path: Path) -> None:
    for partition in range(5):
        for number in range(40 if partition else 400):
            pond.queues.push("orders", f"p{partition}", number)
    pond.run("archive")
    other = Pond(pond.spark, pond.queues, tmp_path / "other")
    other.run("archive")
    pond.run("skew")

    def told(lake: Pond, period: Period) -> str:
        job = Job(["report"], lake.queues.url, lake.path, "local[2]", period)
        (done,) = Runner(job, None).run()
        return Path(str(done.outcome.figures["path"])).read_text(encoding="utf-8")

    assert "partition p0 gets" in told(pond, Period())
    assert "partition p0 gets" not in told(other, Period())
    assert "partition p0 gets" not in told(pond, Period(START, None))


def test_an_empty_report_is_a_page_too() -> None:
    assert "Nothing stands out" in rendered("Empty", found(), [], {name: {} for name in SECTIONS}, START)


def test_gaps_in_a_line_stay_gaps() -> None:
    picture = draw_lines([0, 1, 2, 3], {"a": [1.0, None, 2.0, 3.0]}, "t")
    (line,) = re.findall(r'<path d="(M[^"]+)" fill="none"', picture)
    assert line.count("M") == 2


def test_a_shape_has_a_box_per_place_and_a_line_per_step() -> None:
    nodes = [
        {"place": place, "count": 2, "wait_p50_ms": 3.0, "work_p50_ms": 4.0}
        for place in ("a", "a > b", "a > b > c", "a > c")
    ]
    picture = draw_shape(nodes, 2)
    assert picture.count('rx="8"') == 4
    assert picture.count("<path") == 3


def test_heat_and_path_show_every_value() -> None:
    assert draw_heat(["p", "q"], [[1, 0, 2], [0, 0, 0]], "t").count("<rect") == 2
    hops = [{"queue": "a", "wait_ms": 1.0, "work_ms": None}, {"queue": "b", "wait_ms": 2.0, "work_ms": 3.0}]
    assert draw_path(hops).count("<rect") == 4


def test_numbers_for_people() -> None:
    assert [duration(value) for value in (None, 0, 3.25, 999, 1500, 90_000, 600_000, 86_400_000, 400_000_000)] == [
        "-", "0 ms", "3.2 ms", "999 ms", "1.5 s", "90 s", "10 min", "24.0 h", "4.6 days",
    ]  # fmt: skip
    assert [nice(value) for value in (0, 0.7, 1, 37, 101, 950)] == [1, 0.8, 1, 40, 150, 1000]
