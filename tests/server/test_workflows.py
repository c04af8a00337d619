"""Durable workflows over the wire: the broker shows and steers what a worker elsewhere runs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import asyncpg
import httpx2
import jwt
import pytest

from queen import durable
from queen.server.routes.workflows import ROUTES
from queen.server.routing import RANKS, Role, Route
from tests.durable.stores import only_by_notice
from tests.server.calls import push
from tests.server.conftest import SECRET
from tests.server.running import Running, run_broker
from tests.support.postgres import TEMPLATE, Postgres
from tests.support.wait import wait_for

BASE = "/api/v1/workflows"
NAMES: dict[Role, str] = {"read": "read-only", "write": "read-write", "admin": "admin"}


def greet(ctx: durable.OrchestrationContext, given: Any) -> Any:
    ctx.set_custom_status("greeting")
    ctx.set_kv_value("mood", '"good"')
    return (yield ctx.schedule_activity("say", given))


def approve(ctx: durable.OrchestrationContext, _given: Any) -> Any:
    return (yield ctx.wait_for_event("approved"))


def break_down(_ctx: durable.OrchestrationContext, _given: Any) -> Any:
    raise ValueError("out of paper")


def begin_again(ctx: durable.OrchestrationContext, left: int) -> Any:
    if left:
        yield ctx.continue_as_new(left - 1)
    return "done"


@pytest.fixture(scope="module")
def working(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker, beside a worker on the same database that only hears of work by notification."""
    with (
        pytest.MonkeyPatch.context() as patch,
        postgres.scratch(TEMPLATE) as database,
        run_broker(database, tmp_path_factory.mktemp("broker")) as running,
        durable.PostgresProvider.connect(database) as store,
    ):
        only_by_notice(patch)
        runtime = durable.Runtime(store)
        runtime.register_activity("say", lambda _ctx, name: f"Hello, {name}!")
        for code in (greet, approve, break_down, begin_again):
            runtime.register_orchestration(code.__name__, code)
        runtime.start()
        yield running.url
        runtime.shutdown(2000)


@pytest.fixture
def http(working: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=working, timeout=20) as client:
        yield client


def start(http: httpx2.Client, name: str, **given: Any) -> str:
    answer = http.post(f"{BASE}/start", json={"name": name, **given})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def show(http: httpx2.Client, workflow: str) -> dict[str, Any]:
    found: dict[str, Any] = http.get(f"{BASE}/{quote(workflow, safe='')}").json()
    return found


def reach(http: httpx2.Client, workflow: str, status: str) -> dict[str, Any]:
    wait_for(lambda: show(http, workflow).get("workflow", {}).get("status") == status)
    return show(http, workflow)


def require_refusal(answer: httpx2.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.json()["error"]
    assert answer.json()["retryable"] is False


def test_a_workflow_from_start_to_end(http: httpx2.Client) -> None:
    name = f"order/{uuid4()} & more"
    trace = str(uuid4())
    answer = http.post(f"{BASE}/start", json={"id": name, "name": "greet", "input": "Ada", "traceId": trace})
    assert (answer.status_code, answer.json()) == (201, {"id": name, "accepted": True})
    detail = reach(http, name, "Completed")
    summary = detail["workflow"]
    times = summary.pop("createdAtMs"), summary.pop("updatedAtMs")
    assert times[0] <= times[1] <= time.time() * 1000 + 5_000
    assert summary == {
        "id": name, "name": "greet", "version": "1.0.0", "status": "Completed", "executionId": 1, "parentId": None,
        "traceId": trace, "customStatus": "greeting", "output": "Hello, Ada!", "error": None,
    }  # fmt: skip
    assert [each["eventCount"] for each in detail["executions"]] == [6]
    assert (detail["tree"], detail["keys"]) == ([name], {"mood": "good"})
    step = next(each for each in detail["timeline"] if each["kind"] == "activity")
    assert (step["label"], step["outcome"]) == ("say", "done")

    events = http.get(f"{BASE}/{quote(name, safe='')}/history").json()
    assert (events["id"], events["executionId"]) == (name, 1)
    assert [each["kind"] for each in events["events"]] == [
        "OrchestrationStarted", "CustomStatusUpdated", "KeyValueSet", "ActivityScheduled", "ActivityCompleted",
        "OrchestrationCompleted",
    ]  # fmt: skip
    assert [each["event_id"] for each in events["events"]] == [1, 2, 3, 4, 5, 6]


def test_the_worker_hears_of_it_at_once(http: httpx2.Client) -> None:
    """Nothing else makes it look: it would wait for longer than this test."""
    for _ in range(2):
        reach(http, start(http, "greet"), "Completed")


def test_an_event_lets_it_go_on(http: httpx2.Client) -> None:
    workflow = start(http, "approve")
    reach(http, workflow, "Running")
    answer = http.post(f"{BASE}/{workflow}/raise", json={"name": "approved", "data": {"by": "Bo"}})
    assert (answer.status_code, answer.json()) == (200, {"success": True, "id": workflow})
    assert reach(http, workflow, "Completed")["workflow"]["output"] == {"by": "Bo"}


@pytest.mark.parametrize("body", [{"reason": "no longer wanted"}, None])
def test_cancelling(http: httpx2.Client, body: dict[str, str] | None) -> None:
    workflow = start(http, "approve")
    reach(http, workflow, "Running")
    assert http.post(f"{BASE}/{workflow}/cancel", json=body).json() == {"success": True, "id": workflow}
    reason = body["reason"] if body else "cancelled by client"
    assert reach(http, workflow, "Cancelled")["workflow"]["error"] == f"canceled: {reason}"


def test_a_failure_tells_its_error(http: httpx2.Client) -> None:
    summary = reach(http, start(http, "break_down"), "Failed")["workflow"]
    assert summary["output"] is None
    assert "out of paper" in summary["error"]


def test_the_history_of_an_earlier_execution(http: httpx2.Client) -> None:
    workflow = start(http, "begin_again", input=2)
    detail = reach(http, workflow, "Completed")
    assert [each["status"] for each in detail["executions"]] == ["ContinuedAsNew", "ContinuedAsNew", "Completed"]
    earlier = http.get(f"{BASE}/{workflow}/history", params={"execution": 2}).json()
    assert earlier["executionId"] == 2
    assert [each["kind"] for each in earlier["events"]] == ["OrchestrationStarted", "OrchestrationContinuedAsNew"]
    require_refusal(http.get(f"{BASE}/{workflow}/history", params={"execution": 4}), 404, "WORKFLOW_NOT_FOUND")
    require_refusal(http.get(f"{BASE}/{workflow}/history", params={"execution": 0}), 400, "INVALID_EXECUTION")


def test_listing_by_filters_and_pages(http: httpx2.Client) -> None:
    prefix, trace = f"list-{uuid4()}-", str(uuid4())
    for number in range(4):
        reach(http, start(http, "greet", id=f"{prefix}{number}", traceId=trace), "Completed")
    reach(http, start(http, "approve", id=f"{prefix}waits"), "Running")

    def ids(**filters: Any) -> list[str]:
        body = http.get(BASE, params={"idPrefix": prefix, **filters}).json()
        return [each["id"].removeprefix(prefix) for each in body["workflows"]]

    assert ids() == ["waits", "3", "2", "1", "0"]
    assert ids(status="Running") == ids(name="approve") == ["waits"]
    assert ids(traceId=trace, name="greet") == ["3", "2", "1", "0"]
    assert ids(parentId="nobody") == ids(to="2020-01-01T00:00:00Z") == ids(**{"from": "2099-01-01T00:00:00Z"}) == []
    first = http.get(BASE, params={"idPrefix": prefix, "limit": 3}).json()
    assert [each["id"] for each in first["workflows"]] == [f"{prefix}{each}" for each in ("waits", "3", "2")]
    assert ids(limit=3, cursor=first["nextCursor"]) == ["1", "0"]
    assert http.get(BASE, params={"idPrefix": prefix}).json()["nextCursor"] is None


def test_a_taken_id_and_a_repeated_start_change_nothing(http: httpx2.Client) -> None:
    workflow = start(http, "greet", input="Ada", dedupId="once")
    reach(http, workflow, "Completed")
    again = http.post(f"{BASE}/start", json={"id": workflow, "name": "greet", "input": "Eve", "dedupId": "other"})
    assert again.json() == {"id": workflow, "accepted": True}
    repeat = http.post(f"{BASE}/start", json={"id": workflow, "name": "greet", "input": "Eve", "dedupId": "other"})
    assert repeat.json() == {"id": workflow, "accepted": False}
    detail = show(http, workflow)
    assert (detail["workflow"]["output"], len(detail["executions"])) == ("Hello, Ada!", 1)


def test_a_delayed_start(http: httpx2.Client) -> None:
    later = start(http, "greet", delayMs=60_000)
    soon = start(http, "greet", delayMs=200)
    reach(http, soon, "Completed")
    require_refusal(http.get(f"{BASE}/{later}"), 404, "WORKFLOW_NOT_FOUND")


def test_what_nobody_knows(http: httpx2.Client) -> None:
    for answer in (
        http.get(f"{BASE}/nobody"),
        http.get(f"{BASE}/nobody/history"),
        http.post(f"{BASE}/nobody/raise", json={"name": "approved"}),
        http.post(f"{BASE}/nobody/cancel"),
    ):
        require_refusal(answer, 404, "WORKFLOW_NOT_FOUND")
    listed = http.get(BASE, params={"idPrefix": "nobody"}).json()
    assert listed == {"workflows": [], "nextCursor": None}, "a message to nobody made an instance"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{}", "INVALID_NAME"),
        (b'{"name": ""}', "INVALID_NAME"),
        (b'{"name": 7}', "INVALID_NAME"),
        (b'{"name": "a\\u0000b"}', "INVALID_NAME"),
        (b'{"name": "greet", "id": ""}', "INVALID_ID"),
        (b'{"name": "greet", "id": "%s"}' % (b"x" * 1025), "INVALID_ID"),
        (b'{"name": "greet", "version": "new"}', "INVALID_VERSION"),
        (b'{"name": "greet", "version": "1.0.9999999"}', "INVALID_VERSION"),
        (b'{"name": "greet", "delayMs": -1}', "INVALID_DELAY_MS"),
        (b'{"name": "greet", "delayMs": 1e30}', "INVALID_DELAY_MS"),
        (b'{"name": "greet", "dedupId": ""}', "INVALID_DEDUP_ID"),
        (b'{"name": "greet", "traceId": "\\u0000"}', "INVALID_TRACE_ID"),
        (b'{"name": "greet", "input": nonsense}', "INVALID_BODY"),
        (b'{"name": "greet", "input": "\xff"}', "INVALID_BODY"),
        (b"[]", "INVALID_BODY"),
    ],
)
def test_starts_that_make_no_sense(http: httpx2.Client, body: bytes, code: str) -> None:
    require_refusal(http.post(f"{BASE}/start", content=body), 400, code)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("?status=Sleeping", "INVALID_STATUS"),
        ("?limit=0", "INVALID_LIMIT"),
        ("?limit=1001", "INVALID_LIMIT"),
        ("?cursor=yesterday", "INVALID_CURSOR"),
        ("?cursor=99999999999999999999", "INVALID_CURSOR"),
        ("?from=yesterday", "INVALID_FROM"),
        ("?name=a%00b", "INVALID_NAME"),
        ("/a%00b", "INVALID_ID"),
        (f"/{'x' * 1025}", "INVALID_ID"),
    ],
)
def test_questions_that_make_no_sense(http: httpx2.Client, path: str, code: str) -> None:
    require_refusal(http.get(f"{BASE}{path}"), 400, code)


@pytest.mark.parametrize(
    ("call", "body", "code"),
    [
        ("raise", b"{}", "INVALID_NAME"),
        ("raise", b'{"name": ""}', "INVALID_NAME"),
        ("cancel", b'{"reason": 7}', "INVALID_REASON"),
        ("cancel", b'{"reason": ""}', "INVALID_REASON"),
    ],
)
def test_signals_that_make_no_sense(http: httpx2.Client, call: str, body: bytes, code: str) -> None:
    require_refusal(http.post(f"{BASE}/nobody/{call}", content=body), 400, code)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_who_may_look_and_who_may_steer(guarded: Running, route: Route) -> None:
    least: Role = "read" if route.method == "GET" else "write"
    path = route.path.replace(":id", "nobody")

    def status(token: str | None) -> int:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return client.request(route.method, path, headers=headers).status_code

    with httpx2.Client(base_url=guarded.url, timeout=20) as client:
        assert status(None) == 401
        assert status("nonsense") == 401
        for role, name in NAMES.items():
            found = status(jwt.encode({"role": name}, SECRET, algorithm="HS256"))
            if RANKS[role] < RANKS[least]:
                assert found == 403, name
            else:
                assert found in (200, 400, 404), name


async def drop_schema(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("drop schema queen_durable cascade")
    finally:
        await connection.close()


def test_without_a_schema_of_workflows_the_queues_go_on(database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path) as running, httpx2.Client(base_url=running.url, timeout=20) as client:
        assert client.get(BASE).json() == {"workflows": [], "nextCursor": None}
        asyncio.run(drop_schema(database))
        for answer in (client.get(BASE), client.get(f"{BASE}/x"), client.post(f"{BASE}/start", json={"name": "x"})):
            require_refusal(answer, 503, "SCHEMA_OUTDATED")
        push(client, "orders", 1)
    with run_broker(database, tmp_path) as running, httpx2.Client(base_url=running.url, timeout=20) as client:
        assert client.get(BASE).json() == {"workflows": [], "nextCursor": None}, "a start brings the schema back"


def test_a_broker_does_not_load_what_runs_workflows() -> None:
    code = "import sys, queen.server.app as app; app.gather(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "queen.durable.admin" in loaded
    assert {"queen.durable.worker", "queen.durable.duroxide", "queen.durable.providers.sqlite"}.isdisjoint(loaded)


def test_a_failed_workflow_is_retried_reset_and_forked(http: httpx2.Client) -> None:
    failed = start(http, "break_down")
    reach(http, failed, "Failed")
    assert http.post(f"{BASE}/{failed}/retry").json() == {"id": failed, "takenUp": True}
    wait_for(lambda: len(http.get(f"{BASE}/{failed}").json()["executions"]) == 2)
    done = start(http, "greet", input="Ann")
    reach(http, done, "Completed")
    step = next(each["eventId"] for each in http.get(f"{BASE}/{done}").json()["timeline"] if each["label"] == "say")
    forked = http.post(f"{BASE}/{done}/fork", json={"id": f"{done}-fork", "fromStep": step})
    assert (forked.status_code, forked.json()) == (201, {"id": f"{done}-fork", "takenUp": False})
    assert reach(http, f"{done}-fork", "Completed")["workflow"]["output"] == "Hello, Ann!"
    assert http.post(f"{BASE}/{done}/reset", json={"fromStep": step}).json() == {"id": done, "takenUp": True}
    assert reach(http, done, "Completed")["workflow"]["executionId"] == 2


def test_what_cannot_be_run_again_is_refused(http: httpx2.Client) -> None:
    done = start(http, "greet", input="Bo")
    reach(http, done, "Completed")
    retried = http.post(f"{BASE}/{done}/retry")
    assert (retried.status_code, retried.json()["code"]) == (409, "NOTHING_TO_RETRY")
    reset = http.post(f"{BASE}/{done}/reset", json={"fromStep": 999})
    assert (reset.status_code, reset.json()["code"]) == (400, "STEP_NOT_FOUND")
    assert http.post(f"{BASE}/{done}/reset", json={"fromStep": 1}).json()["code"] == "INVALID_FROM_STEP"
    assert http.post(f"{BASE}/nobody/fork").json()["code"] == "WORKFLOW_NOT_FOUND"


def test_a_workflow_is_made_to_end(http: httpx2.Client) -> None:
    workflow = start(http, "approve")
    reach(http, workflow, "Running")
    http.post(f"{BASE}/{workflow}/cancel", json={"reason": "at once", "force": True})
    assert reach(http, workflow, "Cancelled")["workflow"]["error"] == "canceled: at once"
