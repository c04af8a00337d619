"""The recipes of the documentation run as they are written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.support.queues import Queues
from tests.support.tree import ROOT

PAGE = ROOT / "docs" / "spark" / "recipes.md"


def recipes(url: str) -> dict[str, str]:
    """The code under each heading."""
    parts = re.findall(r"^## (.+?)\n.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return {title: placed(code, url) for title, code in parts}


def shared(url: str) -> str:
    """What every recipe begins with."""
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return placed(found[1], url)


def placed(code: str, url: str) -> str:
    """The code with the address of the database in it."""
    return code.replace('.format("queen")', f'.format("queen").option("url", "{url}")')


def test_the_recipes_run(spark: SparkSession, queues: Queues, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    lake = f'"{tmp_path}/lake/'
    queues.push("orders", "c-1", {"price": 5.5}, transaction_id="o-1")
    queues.push("orders", "c-2", {"price": 7}, transaction_id="o-2")
    queues.push("payments", "c-1", {"order": "o-1"})
    spark.createDataFrame([("c-1", "it"), ("c-2", "de")], "customer string, country string").write.parquet(
        str(tmp_path / "lake" / "customers")
    )
    day = queues.value("select to_char(created_at at time zone 'utc', 'YYYY-MM-DD') from queen.messages limit 1")
    known: dict[str, Any] = {"spark": spark}
    exec(shared(queues.url), known)
    titles = []
    for title, code in recipes(queues.url).items():
        exec(code.replace('"lake/', lake).replace("day = '2026-01-31'", f"day = '{day}'"), known)
        if title == "Join two queues":
            known["paid"].writeStream.format("memory").queryName("paid").start()
        for query in spark.streams.active:
            query.processAllAvailable()
        if title == "Join two queues":
            assert [row["order_id"] for row in spark.table("paid").collect()] == ["o-1"]
        for query in spark.streams.active:
            query.stop()
        titles.append(title)
    assert len(titles) == 5
    assert {p: len(found) for p, found in queues.contents("orders-enriched").items() if found} == {"c-1": 1, "c-2": 1}
    assert queues.contents("orders-enriched")["c-1"][0]["country"] == "it"
    assert queues.contents("orders-replay") == queues.contents("orders")
    assert spark.read.parquet(str(tmp_path / "lake" / "archive")).count() == 2
