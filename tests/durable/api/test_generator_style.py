"""Generator orchestrations, synchronous client and runtime: names, values and texts."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from queen.durable import ActivityContext, Client, Runtime, SqliteProvider
from tests.durable.api.conftest import MakeRuntime

Yields = Callable[[Any], Any]

ANSWERS: dict[str, tuple[Yields, Any]] = {
    "an activity": (lambda c: c.schedule_activity("echo", {"a": [1]}), {"a": [1]}),
    "no input": (lambda c: c.schedule_activity("echo"), None),
    "typed text that is JSON": (lambda c: c.schedule_activity_typed("echo", "21"), 21),
    "typed text that is not": (lambda c: c.schedule_activity_typed("echo", "speedy"), "speedy"),
    "a timer": (lambda c: c.schedule_timer(1), None),
    "an empty join": (lambda c: c.all([]), []),
    "a join": (
        lambda c: c.all(
            [c.utc_now(), c.new_guid(), c.schedule_activity("echo", 3), c.schedule_timer(1), c.schedule_activity("bad")]
        ),
        [
            {"err": "unsupported task in join"},
            {"err": "unsupported task in join"},
            {"ok": 3},
            {"ok": None},
            {"err": "Activity 'bad' call failed: ValueError: boom"},
        ],
    ),
    "a typed join": (
        lambda c: c.all_typed([c.schedule_activity("echo", 3), c.schedule_activity("bad")]),
        [3, {"err": "Activity 'bad' call failed: ValueError: boom"}],
    ),
    "a race": (
        lambda c: c.race(c.schedule_activity("echo", "x"), c.schedule_timer(60_000)),
        {"index": 0, "value": "x"},
    ),
    "a race lost to a timer": (
        lambda c: c.race(c.wait_for_event("never"), c.schedule_timer(1)),
        {"index": 1, "value": None},
    ),
    "a detached start": (lambda c: c.start_orchestration("plain", "detached", 1), None),
    "a child": (lambda c: c.schedule_sub_orchestration("plain", 5), {"plain": 5}),
    "a child with an id": (lambda c: c.schedule_sub_orchestration_with_id("plain", "kid", 6), {"plain": 6}),
    "a key of nobody": (lambda c: c.get_kv_value_from_instance("nobody", "k"), None),
    "retry that fails": (
        lambda c: c.schedule_activity_with_retry("bad", 1, {"max_attempts": 2}),
        "Exception: Activity 'bad' call failed: ValueError: boom",
    ),
    "a failed activity": (
        lambda c: c.schedule_activity("bad"),
        "Exception: Activity 'bad' call failed: ValueError: boom",
    ),
    "a result that is not JSON": (
        lambda c: c.schedule_activity("set"),
        "Exception: Activity 'set' call failed: TypeError: Object of type set is not JSON serializable",
    ),
    "a failed race": (
        lambda c: c.race(c.schedule_activity("bad"), c.schedule_timer(60_000)),
        "Exception: Activity 'bad' call failed: ValueError: boom",
    ),
    "a join in a join": (
        lambda c: c.all([c.all([])]),
        "Exception: nested join/select inside join is not supported",
    ),
    "a race in a join": (
        lambda c: c.all([c.race(c.schedule_timer(1), c.schedule_timer(1))]),
        "Exception: nested join/select inside join is not supported",
    ),
    "a join in a race": (
        lambda c: c.race(c.all([]), c.schedule_timer(1)),
        "Exception: nested join/select inside select is not supported",
    ),
    "a race of three": (
        lambda c: c.race(c.schedule_timer(1), c.schedule_timer(1), c.schedule_timer(1)),
        "Exception: select currently supports exactly 2 tasks",
    ),
    "time in a race": (
        lambda c: c.race(c.utc_now(), c.schedule_timer(1)),
        "Exception: unsupported task in select",
    ),
}


@pytest.fixture
def everything(runtime: Runtime) -> Runtime:
    runtime.register_activity("set", lambda _ctx, _value: {1})
    runtime.register_orchestration("plain", lambda _ctx, value: {"plain": value})
    for name, (wanted, _) in ANSWERS.items():
        runtime.register_orchestration(name, _asking(wanted))
    runtime.start()
    return runtime


def _asking(wanted: Yields) -> Any:
    def code(ctx: Any, _: Any) -> Any:
        try:
            return (yield wanted(ctx))
        except Exception as error:  # noqa: BLE001 the class is part of what is tested
            return f"{type(error).__name__}: {error}"

    return code


@pytest.mark.usefixtures("everything")
def test_answers(client: Client) -> None:
    for name in ANSWERS:
        client.start_orchestration(f"i {name}", name)
    found = {name: client.wait_for_orchestration(f"i {name}").output for name in ANSWERS}
    assert found == {name: expected for name, (_, expected) in ANSWERS.items()}
    assert client.wait_for_orchestration("detached").output == {"plain": 1}
    assert client.get_instance_info("kid").parent_instance_id == "i a child with an id"


def test_time_and_ids(runtime: Runtime, client: Client) -> None:
    def code(ctx: Any, _: Any) -> Any:
        return [(yield ctx.utc_now()), (yield ctx.new_guid())]

    runtime.register_orchestration("values", code)
    runtime.start()
    client.start_orchestration("v", "values")
    now, guid = client.wait_for_orchestration_typed("v")
    assert isinstance(now, int)
    assert re.fullmatch(r"[0-9a-f-]{36}", guid)


def test_failures(runtime: Runtime, client: Client) -> None:
    @runtime.register_orchestration("raises")
    def raises(ctx: Any, _: Any) -> Any:
        yield ctx.schedule_activity("echo", 1)
        raise RuntimeError("oops")

    @runtime.register_orchestration("garbage")
    def garbage(_ctx: Any, _: Any) -> Any:
        yield 5

    @runtime.register_orchestration("waits")
    def waits(ctx: Any, _: Any) -> Any:
        yield ctx.wait_for_event("never")

    runtime.start()
    for name in ("raises", "garbage", "waits"):
        client.start_orchestration(name, name)
    failed = client.wait_for_orchestration("raises")
    assert (failed.status, failed.output) == ("Failed", None)
    assert failed.error is not None
    assert failed.error.startswith("Traceback (most recent call last):\n")
    assert failed.error.endswith("RuntimeError: oops\n")
    assert "in raises" in failed.error
    with pytest.raises(Exception, match="RuntimeError: oops"):
        client.wait_for_orchestration_typed("raises")
    assert str(client.wait_for_orchestration("garbage").error).startswith("Invalid generator step result: ")
    with pytest.raises(RuntimeError, match=r"^Operation timed out$"):
        client.wait_for_orchestration("waits", 30)
    client.cancel_instance("waits", "because")
    assert client.wait_for_orchestration("waits").error == "canceled: because"
    assert client.get_status("nobody").status == "NotFound"


def test_history_as_clients_see_it(runtime: Runtime, client: Client) -> None:
    @runtime.register_orchestration("story")
    def story(ctx: Any, _: Any) -> Any:
        yield ctx.all([ctx.schedule_activity("echo", 3), ctx.schedule_activity("bad")])
        return {"end": True}

    runtime.start()
    client.start_orchestration("s", "story", {"a": 1})
    client.wait_for_orchestration("s")
    shown = {
        each.event_id: (each.kind, each.source_event_id, json.loads(each.data or "null"))
        for each in client.read_execution_history("s", 1)
    }
    assert shown[1] == ("OrchestrationStarted", None, {"name": "story", "version": "1.0.0", "input": {"a": 1}})
    assert shown[2] == ("ActivityScheduled", None, {"name": "echo", "input": 3})
    assert shown[6] == ("OrchestrationCompleted", None, {"end": True})
    arrived = {kind: (source, data) for kind, source, data in (shown[4], shown[5])}
    assert arrived["ActivityCompleted"] == (2, 3)
    assert arrived["ActivityFailed"] == (
        3,
        {
            "Application": {
                "kind": "ActivityFailed",
                "message": "Activity 'bad' call failed: ValueError: boom",
                "retryable": False,
            }
        },
    )


def test_status_and_keys(runtime: Runtime, client: Client) -> None:
    @runtime.register_orchestration("keeps")
    def keeps(ctx: Any, _: Any) -> Any:
        ctx.set_custom_status("one")
        ctx.set_kv_value("k", "[1]")
        yield ctx.wait_for_event("go")
        ctx.reset_custom_status()
        ctx.clear_all_kv_values()
        ctx.set_kv_value("other", "text")
        seen = yield ctx.get_kv_value_from_instance("keeper", "k")
        return [ctx.get_custom_status(), ctx.get_kv_all_values(), ctx.get_kv_all_keys(), ctx.get_kv_length(), seen]

    runtime.start()
    client.start_orchestration("keeper", "keeps")
    first = client.wait_for_status_change("keeper", 0)
    assert (first.custom_status, first.custom_status_version) == ("one", 1)
    assert client.wait_for_kv_value("keeper", "k") == "[1]"
    assert client.get_kv_value_typed("keeper", "k") == [1]
    assert client.get_kv_value("keeper", "none") is None
    with pytest.raises(TimeoutError, match="Timed out waiting for value 'none' on instance 'keeper'"):
        client.wait_for_kv_value("keeper", "none", 20)
    client.raise_event("keeper", "go")
    assert client.wait_for_orchestration("keeper").output == [None, {"other": "text"}, ["other"], 1, None]
    assert client.wait_for_status_change("keeper", 1).custom_status is None


def test_versions(make_runtime: MakeRuntime, client: Client) -> None:
    runtime = make_runtime()
    runtime.register_orchestration("v", lambda _ctx, _value: "1.0.0")
    runtime.register_orchestration_versioned("v", "2.0.0", lambda _ctx, _value: "2.0.0")

    def up(ctx: Any, _: Any) -> Any:
        yield ctx.continue_as_new(1)

    runtime.register_orchestration("up", up)
    runtime.register_orchestration_versioned("up", "1.1.0", lambda _ctx, _value: "new code")
    with pytest.raises(RuntimeError, match=r"version 1\.5\.0 must be above 2\.0\.0"):
        runtime.register_orchestration_versioned("v", "1.5.0", lambda _ctx, _value: "")
    with pytest.raises(RuntimeError, match="version must look like"):
        runtime.register_orchestration_versioned("v", "three", lambda _ctx, _value: "")
    runtime.start()
    client.start_orchestration("newest", "v")
    client.start_orchestration_versioned("exact", "v", None, "1.0.0")
    client.start_orchestration_versioned("continued", "up", None, "1.0.0")
    assert client.wait_for_orchestration("newest").output == "2.0.0"
    assert client.wait_for_orchestration("exact").output == "1.0.0"
    assert client.wait_for_orchestration("continued").output == "new code"
    assert client.get_instance_info("exact").orchestration_version == "1.0.0"


def test_registration_is_refused_in_python() -> None:
    with SqliteProvider.in_memory() as store:
        runtime = Runtime(store)
        runtime.register_activity("a", lambda _ctx, _value: None)
        with pytest.raises(RuntimeError, match="already registered"):
            runtime.register_activity("a", lambda _ctx, _value: None)
        with pytest.raises(RuntimeError, match="reserved prefix"):
            runtime.register_activity("__duroxide_syscall:mine", lambda _ctx, _value: None)
        with pytest.raises(RuntimeError, match="non-empty"):
            runtime.register_orchestration("", lambda _ctx, _value: None)


def test_activity_context(make_runtime: MakeRuntime, client: Client) -> None:
    runtime = make_runtime(worker_node_id="node-7")
    seen: list[ActivityContext] = []

    @runtime.register_activity("look")
    def look(ctx: ActivityContext, _: Any) -> str:
        seen.append(ctx)
        return str(ctx.get_client().get_status("i").status)

    @runtime.register_orchestration("looks")
    def looks(ctx: Any, _: Any) -> Any:
        return (yield ctx.schedule_activity("look", None, "session-1"))

    runtime.start()
    client.start_orchestration("i", "looks")
    assert client.wait_for_orchestration("i").output == "Running"
    context = seen[0]
    assert (context.instance_id, context.execution_id) == ("i", 1)
    assert (context.orchestration_name, context.orchestration_version) == ("looks", "1.0.0")
    assert (context.activity_name, context.worker_id, context.session_id) == ("look", "node-7", "session-1")
    assert context.tag() is None
    assert not context.is_cancelled()


def test_async_activities_run_on_the_loop(runtime: Runtime, client: Client) -> None:
    names: list[str] = []

    @runtime.register_activity("async")
    async def on_loop(_ctx: Any, value: int) -> int:
        names.append(threading.current_thread().name)
        return value + 1

    @runtime.register_orchestration("calls")
    def calls(ctx: Any, value: int) -> Any:
        return (yield ctx.schedule_activity("async", value))

    runtime.start()
    client.start_orchestration("i", "calls", 1)
    assert client.wait_for_orchestration("i").output == 2
    assert names == ["queen-durable"]


def test_metrics(runtime: Runtime, client: Client) -> None:
    runtime.register_orchestration("plain", lambda _ctx, value: value)

    @runtime.register_orchestration("parent")
    def parent(ctx: Any, value: Any) -> Any:
        if value == 0:
            yield ctx.schedule_sub_orchestration("plain", 1)
            yield ctx.all([ctx.schedule_activity("echo"), ctx.schedule_activity("bad")])
            yield ctx.continue_as_new(1)
        raise ValueError("end")

    runtime.start()
    client.start_orchestration("p", "parent", 0)
    client.wait_for_orchestration("p")
    shown = runtime.metrics_snapshot()
    assert (shown.orch_starts, shown.orch_completions, shown.orch_failures) == (3, 1, 1)
    assert (shown.orch_application_errors, shown.orch_continue_as_new, shown.suborchestration_calls) == (1, 1, 1)
    assert (shown.activity_success, shown.activity_app_errors) == (1, 1)
    assert shown.orch_dispatcher_items_fetched >= 4
    assert shown.worker_dispatcher_items_fetched == 2
    assert (shown.orch_poison, shown.activity_poison, shown.provider_errors) == (0, 0, 0)


def test_management(runtime: Runtime, client: Client) -> None:
    @runtime.register_orchestration("rounds")
    def rounds(ctx: Any, value: int) -> Any:
        if value < 3:
            yield ctx.continue_as_new(value + 1)
        return value

    @runtime.register_orchestration("waits")
    def waits(ctx: Any, _: Any) -> Any:
        ctx.set_kv_value("k", "value")
        yield ctx.wait_for_event("go")

    runtime.start()
    client.start_orchestration("r", "rounds", 1)
    client.start_orchestration("w", "waits")
    client.wait_for_orchestration("r")
    client.wait_for_kv_value("w", "k")
    assert client.list_executions("r") == [1, 2, 3]
    assert client.get_execution_info("r", 1).status == "ContinuedAsNew"
    assert sorted(client.list_all_instances()) == ["r", "w"]
    assert client.list_instances_by_status("Running") == ["w"]
    assert client.list_instances_by_status("Bogus") == []
    info = client.get_instance_info("r")
    assert (info.status, info.current_execution_id, info.orchestration_name) == ("Completed", 3, "rounds")
    assert 0 < info.created_at <= info.updated_at
    assert client.get_execution_info("r", 3).started_at > 0
    stats = client.get_orchestration_stats("w")
    assert stats is not None
    assert (stats.history_event_count, stats.kv_user_key_count, stats.kv_total_value_bytes) == (3, 1, 6)
    assert client.get_orchestration_stats("nobody") is None
    metrics = client.get_system_metrics()
    assert (metrics.total_instances, metrics.running_instances, metrics.completed_instances) == (2, 1, 1)
    assert client.get_queue_depths().timer_queue == 0
    assert client.get_instance_tree("nobody").all_ids == ["nobody"]
    assert client.prune_executions("r").executions_deleted == 2
    with pytest.raises(RuntimeError, match=r"^Instance w is still running\. Use force=true or cancel first\.$"):
        client.delete_instance("w")
    assert client.delete_instance("w", force=True).instances_deleted == 1
    with pytest.raises(RuntimeError, match="Instance w not found"):
        client.delete_instance("w")
    with pytest.raises(RuntimeError, match="get_instance_info: Instance w not found"):
        client.get_instance_info("w")
    with pytest.raises(RuntimeError, match="get_execution_info: Execution 9 not found for instance r"):
        client.get_execution_info("r", 9)
    assert client.delete_instance_bulk().instances_deleted == 1


def test_a_second_runtime_finishes_the_first_ones_instance(make_runtime: MakeRuntime, client: Client) -> None:
    gate = threading.Event()

    def build() -> Runtime:
        runtime = make_runtime(worker_lock_timeout_ms=500)
        runtime.register_activity("gate", lambda _ctx, _value: gate.wait(5))

        def code(ctx: Any, _: Any) -> Any:
            return (yield ctx.schedule_activity("gate"))

        runtime.register_orchestration("gated", code)
        runtime.start()
        return runtime

    first = build()
    client.start_orchestration("g", "gated")
    first.shutdown(50)
    gate.set()
    build()
    assert client.wait_for_orchestration("g").output is True
