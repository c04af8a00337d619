"""What pipelines really did and found, read from a broker page by page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.pipelines.support.lakes import Pond
from tests.pipelines.test_running import HERE
from tests.server.running import run_broker

LANES = [f"orders/p{number}" for number in range(5)]


@pytest.fixture
def api(pond: Pond, tmp_path: Path) -> Iterator[httpx2.Client]:
    """A client of a broker on the database of the lake, in which two pipelines have run."""
    pond.queues.fill("orders", partitions=5, per_partition=3)
    for _ in range(2):
        pond.run("archive")
    pond.run(HERE)
    with run_broker(pond.queues.url, tmp_path / "broker") as running, httpx2.Client(base_url=running.url) as client:
        yield client


def page(api: httpx2.Client, path: str, **params: Any) -> dict[str, Any]:
    answer = api.get(f"/api/v1/pipelines{path}", params=params)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def pages(api: httpx2.Client, path: str, part: str, **params: Any) -> Iterator[list[dict[str, Any]]]:
    body = page(api, path, **params)
    yield body[part]
    while body["nextCursor"] is not None:
        body = page(api, path, **params, cursor=body["nextCursor"])
        yield body[part]


def test_what_ran_and_what_it_found(pond: Pond, api: httpx2.Client) -> None:
    listed = [each for found in pages(api, "", "pipelines", limit=1) for each in found]
    assert [(each["name"], each["lastRun"]["state"]) for each in listed] == [("archive", "done"), ("counting", "done")]
    runs = list(pages(api, "/archive/runs", "runs", limit=1))
    assert [[(run["state"], run["rows"], run["figures"]["messages"]) for run in found] for found in runs] == [
        [("done", 0, 0)],
        [("done", 15, 15)],
    ]
    (newest,) = runs[0]
    assert (newest["lake"], newest["master"], newest["lag"]) == (str(pond.path), "local[2]", 0)
    assert newest["durationMs"] > 0
    results = list(pages(api, "/counting/results", "results", kind="lanes", limit=2))
    assert [[each["key"] for each in found] for found in results] == [LANES[:2], LANES[2:4], LANES[4:]]
    assert [each["value"] for found in results for each in found] == [
        {"queue": "orders", "partition": f"p{number}", "count": 3} for number in range(5)
    ]


def test_pages_keep_to_the_run_they_began_with(pond: Pond, api: httpx2.Client) -> None:
    found = pages(api, "/counting/results", "results", limit=3)
    first = next(found)
    pond.queues.fill("orders", partitions=5, per_partition=1)
    pond.run("archive")
    pond.run(HERE)
    rest = [each for part in found for each in part]
    assert [each["value"]["count"] for each in first + rest] == [3] * 5
    assert [each["value"]["count"] for each in page(api, "/counting/results")["results"]] == [4] * 5
