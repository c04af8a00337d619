"""What the context's functions return, for those who build contexts by hand."""

from __future__ import annotations

from typing import Any

import pytest

from queen.durable import OrchestrationContext, ScheduledTask

CTX = OrchestrationContext(
    {"instanceId": "i", "executionId": 3, "orchestrationName": "o", "orchestrationVersion": "1.2.3"}
)
RETRY = {"max_attempts": 5, "backoff": "fixed", "timeoutMs": 9}
SHOWN_RETRY = {"maxAttempts": 5, "timeoutMs": 9, "totalTimeoutMs": None, "backoff": "fixed"}

DESCRIPTIONS: list[tuple[Any, dict[str, Any]]] = [
    (CTX.schedule_activity("a", {"x": 1}), {"type": "activity", "name": "a", "input": '{"x": 1}'}),
    (CTX.schedule_activity("a"), {"type": "activity", "name": "a", "input": "null"}),
    (
        CTX.schedule_activity("a", 1, "s"),
        {"type": "activityWithSession", "name": "a", "input": "1", "sessionId": "s"},
    ),
    (
        CTX.schedule_activity_on_session("a", 1, "s"),
        {"type": "activityWithSession", "name": "a", "input": "1", "sessionId": "s"},
    ),
    (
        CTX.schedule_activity_with_retry("a", 1, RETRY),
        {"type": "activityWithRetry", "name": "a", "input": "1", "retry": SHOWN_RETRY},
    ),
    (
        CTX.schedule_activity_with_retry_on_session("a", 1, RETRY, "s"),
        {"type": "activityWithRetryOnSession", "name": "a", "input": "1", "retry": SHOWN_RETRY, "sessionId": "s"},
    ),
    (CTX.schedule_timer(5), {"type": "timer", "delayMs": 5}),
    (CTX.wait_for_event("e"), {"type": "waitEvent", "name": "e"}),
    (CTX.dequeue_event("q"), {"type": "dequeueEvent", "queueName": "q"}),
    (CTX.schedule_sub_orchestration("o", 1), {"type": "subOrchestration", "name": "o", "input": "1"}),
    (
        CTX.schedule_sub_orchestration_with_id("o", "id", 1),
        {"type": "subOrchestrationWithId", "name": "o", "instanceId": "id", "input": "1"},
    ),
    (
        CTX.schedule_sub_orchestration_versioned("o", "1.0.0", 1),
        {"type": "subOrchestrationVersioned", "name": "o", "version": "1.0.0", "input": "1"},
    ),
    (
        CTX.schedule_sub_orchestration_versioned_with_id("o", "1.0.0", "id", 1),
        {
            "type": "subOrchestrationVersionedWithId",
            "name": "o",
            "version": "1.0.0",
            "instanceId": "id",
            "input": "1",
        },
    ),
    (
        CTX.start_orchestration("o", "id", 1),
        {"type": "orchestration", "name": "o", "instanceId": "id", "input": "1"},
    ),
    (
        CTX.start_orchestration_versioned("o", "1.0.0", "id", 1),
        {"type": "orchestrationVersioned", "name": "o", "version": "1.0.0", "instanceId": "id", "input": "1"},
    ),
    (CTX.new_guid(), {"type": "newGuid"}),
    (CTX.utc_now(), {"type": "utcNow"}),
    (CTX.continue_as_new(1), {"type": "continueAsNew", "input": "1"}),
    (
        CTX.continue_as_new_versioned(1, "2.0.0"),
        {"type": "continueAsNewVersioned", "input": "1", "version": "2.0.0"},
    ),
    (CTX.all([]), {"type": "join", "tasks": []}),
    (CTX.race({"a": 1}, {"b": 2}), {"type": "select", "tasks": [{"a": 1}, {"b": 2}]}),
    (
        CTX.get_kv_value_from_instance("i", "k"),
        {
            "type": "activity",
            "name": "__duroxide_syscall:get_kv_value",
            "input": '{"instance_id": "i", "key": "k"}',
        },
    ),
    (
        CTX.schedule_activity_typed("a", "21"),
        {"type": "activity", "name": "a", "input": "21", "_typed": True},
    ),
    (
        CTX.schedule_activity_typed("a", "speedy"),
        {"type": "activity", "name": "a", "input": "speedy", "_typed": True},
    ),
    (
        CTX.schedule_sub_orchestration_typed("o", {"a": 1}),
        {"type": "subOrchestration", "name": "o", "input": '{"a": 1}', "_typed": True},
    ),
    (CTX.wait_for_event_typed("e"), {"type": "waitEvent", "name": "e", "_typed": True}),
    (CTX.dequeue_event_typed("q"), {"type": "dequeueEvent", "queueName": "q", "_typed": True}),
    (CTX.continue_as_new_typed("x"), {"type": "continueAsNew", "input": "x"}),
    (CTX.all_typed([]), {"type": "join", "tasks": [], "_typed_all": True}),
    (CTX.race_typed({"a": 1}, {"b": 2}), {"type": "select", "tasks": [{"a": 1}, {"b": 2}], "_typed_race": True}),
]


@pytest.mark.parametrize(("made", "expected"), DESCRIPTIONS)
def test_descriptions(made: dict[str, Any], expected: dict[str, Any]) -> None:
    assert made == expected


def test_a_tag_changes_the_description_itself() -> None:
    task = CTX.schedule_activity("a", 1)
    assert isinstance(task, ScheduledTask)
    assert "tag" not in task
    assert task.with_tag("gpu") is task
    assert task["tag"] == "gpu"


def test_a_context_made_by_hand_knows_its_instance() -> None:
    assert (CTX.instance_id, CTX.execution_id) == ("i", 3)
    assert (CTX.orchestration_name, CTX.orchestration_version) == ("o", "1.2.3")
    with pytest.raises(RuntimeError, match="does not belong to a running orchestration"):
        CTX.set_custom_status("x")
