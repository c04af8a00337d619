from __future__ import annotations

import json
from typing import Any

import httpx2
import psycopg
import pytest

from tests.server.running import Running

RUN = """insert into queen.pipeline_runs (pipeline, state, lake, rows, figures, started_at, finished_at, heartbeat_at)
         values (%(name)s, %(state)s, 'lake', %(rows)s, %(figures)s, %(at)s,
                 %(at)s::timestamptz + interval '1.5 s', now())
         returning id::text"""
RESULT = "insert into queen.pipeline_results values (%s, %s, %s, %s, %s)"


@pytest.fixture
def name(shared_broker: Running, queue: str) -> str:
    """A pipeline with five runs; the newest failed, the one before has results of two kinds."""
    with psycopg.connect(str(shared_broker.settings.database_url), autocommit=True) as connection:
        for number in range(5):
            state = "failed" if number == 4 else "done"
            values = {"name": queue, "state": state, "rows": number, "figures": json.dumps({"n": number})}
            row = connection.execute(RUN, values | {"at": f"2026-01-0{number + 1}T00:00:00Z"}).fetchone()
            assert row is not None
            if number == 3:
                for key in range(5):
                    kind = "odd" if key % 2 else "even"
                    connection.execute(RESULT, [row[0], queue, kind, str(key), json.dumps({"key": key})])
    return queue


def pages(api: httpx2.Client, path: str, part: str, **params: Any) -> list[dict[str, Any]]:
    """Everything, page by page."""
    found: list[dict[str, Any]] = []
    while True:
        body = api.get(path, params=params).json()
        assert len(body[part]) <= params["limit"]
        found += body[part]
        if body["nextCursor"] is None:
            return found
        params["cursor"] = body["nextCursor"]


def test_a_pipeline_is_listed_with_its_newest_run(api: httpx2.Client, name: str) -> None:
    listed = pages(api, "/api/v1/pipelines", "pipelines", limit=1)
    names = [entry["name"] for entry in listed]
    assert names == sorted(set(names))
    (entry,) = [entry for entry in listed if entry["name"] == name]
    assert (entry["lastRun"]["state"], entry["lastRun"]["rows"], entry["nextAt"]) == ("failed", 4, None)
    assert entry["lastRun"]["startedAt"] == "2026-01-05T00:00:00.000Z"


def test_runs_come_newest_first_page_by_page(api: httpx2.Client, name: str) -> None:
    runs = pages(api, f"/api/v1/pipelines/{name}/runs", "runs", limit=2)
    assert [run["rows"] for run in runs] == [4, 3, 2, 1, 0]
    assert [run["figures"] for run in runs] == [{"n": n} for n in (4, 3, 2, 1, 0)]
    assert runs[0]["durationMs"] == 1500


def test_results_are_those_of_the_newest_good_run(api: httpx2.Client, name: str) -> None:
    path = f"/api/v1/pipelines/{name}/results"
    results = pages(api, path, "results", limit=2)
    assert [(each["kind"], each["key"]) for each in results] == [
        ("even", "0"), ("even", "2"), ("even", "4"), ("odd", "1"), ("odd", "3"),
    ]  # fmt: skip
    assert results[1]["value"] == {"key": 2}
    assert [each["key"] for each in pages(api, path, "results", limit=1, kind="odd")] == ["1", "3"]
    failed = api.get(f"/api/v1/pipelines/{name}/runs").json()["runs"][0]["id"]
    body = api.get(path, params={"run": failed}).json()
    assert (body["run"]["state"], body["results"]) == ("failed", [])


def test_what_is_not_there_is_told(api: httpx2.Client, queue: str) -> None:
    for part in ("runs", "results"):
        refused = api.get(f"/api/v1/pipelines/{queue}-none/{part}")
        assert (refused.status_code, refused.json()["code"]) == (404, "PIPELINE_NOT_FOUND")
    assert api.get(f"/api/v1/pipelines/{queue}/results", params={"run": "x"}).status_code == 400
    assert api.get("/api/v1/pipelines", params={"cursor": "x"}).status_code == 400
