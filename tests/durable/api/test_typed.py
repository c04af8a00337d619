"""The typed twins of the compatible surface: text is taken as JSON, results come back as values."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from queen.durable import ActivityContext, Client, OrchestrationContext, Runtime
from tests.durable.api.conftest import MakeRuntime


@pytest.fixture
def typed(make_runtime: MakeRuntime) -> Runtime:
    built = make_runtime()
    tries: list[int] = []

    @built.register_activity_typed("echo")
    def echo(_ctx: ActivityContext, value: Any) -> Any:
        return value

    @built.register_activity_typed("second_time")
    def second_time(ctx: ActivityContext, value: Any) -> Any:
        tries.append(ctx.activity_id)
        if len(tries) % 2:
            raise OSError("not yet")
        return [ctx.session_id, value]

    built.register_orchestration_typed("plain", lambda _ctx, given: {"given": given})
    built.register_orchestration_versioned_typed("plain", "2.0.0", lambda _ctx, given: {"newer": given})
    return built


def steps(ctx: OrchestrationContext, _given: Any) -> Any:
    retry = {"max_attempts": 2}
    return [
        (yield ctx.schedule_activity_on_session_typed("echo", "1", "s")),
        (yield ctx.schedule_activity_with_retry_typed("second_time", "[2]", retry)),
        (yield ctx.schedule_activity_with_retry_on_session_typed("second_time", "3", retry, "s")),
        (yield ctx.schedule_sub_orchestration_typed("plain", "4")),
        (yield ctx.schedule_sub_orchestration_with_id_typed("plain", "kid", '{"n": 5}')),
        (yield ctx.start_orchestration_typed("plain", "apart", "6")),
        (yield ctx.start_orchestration_versioned_typed("plain", "1.0.0", "older", "7")),
        (yield ctx.wait_for_event_typed("go")),
        (yield ctx.dequeue_event_typed("inbox")),
    ]


def test_every_typed_step(typed: Runtime, client: Client) -> None:
    typed.register_orchestration("steps", steps)
    typed.start()
    client.start_orchestration_typed("one", "steps")
    assert client.wait_for_orchestration("apart").output == {"newer": 6}
    assert client.wait_for_orchestration("older").output == {"given": 7}
    client.enqueue_event_typed("one", "inbox", "9")
    client.raise_event_typed("one", "go", '{"n": 8}')
    assert client.wait_for_orchestration_typed("one") == [
        1, [None, [2]], ["s", 3], {"newer": 4}, {"newer": {"n": 5}}, None, None, {"n": 8}, 9,
    ]  # fmt: skip


def test_typed_starts_of_a_version(typed: Runtime, client: Client) -> None:
    typed.start()
    client.start_orchestration_versioned_typed("old", "plain", "[1]", "1.0.0")
    assert client.wait_for_orchestration_typed("old") == {"given": [1]}


def test_waiting_for_a_typed_key(typed: Runtime, client: Client) -> None:
    @typed.register_orchestration("sets")
    def sets(ctx: OrchestrationContext, _given: Any) -> Any:
        yield ctx.schedule_timer(1)
        ctx.set_kv_value("answer", '{"n": 42}')
        yield ctx.wait_for_event("never")

    typed.start()
    client.start_orchestration("one", "sets")
    assert client.wait_for_kv_value_typed("one", "answer") == {"n": 42}
    with pytest.raises(TimeoutError, match="Timed out waiting for value 'nothing' on instance 'one'"):
        client.wait_for_kv_value_typed("one", "nothing", timeout_ms=50)


def test_lines_of_every_level_are_written_once(
    typed: Runtime, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    @typed.register_activity("talks")
    def talks(ctx: ActivityContext, _given: Any) -> None:
        ctx.trace_debug("a1")
        ctx.trace_error("a2")

    @typed.register_orchestration("tells")
    def tells(ctx: OrchestrationContext, _given: Any) -> Any:
        ctx.trace_debug("o1")
        ctx.trace_error("o2")
        yield ctx.schedule_activity("talks")
        ctx.trace_warn("o3")

    with caplog.at_level(logging.DEBUG, "queen.durable.trace"):
        typed.start()
        client.start_orchestration("one", "tells")
        client.wait_for_orchestration("one")
    lines = [(each.levelname, each.getMessage()) for each in caplog.records if each.name == "queen.durable.trace"]
    assert lines == [("DEBUG", "o1"), ("ERROR", "o2"), ("DEBUG", "a1"), ("ERROR", "a2"), ("WARNING", "o3")]
