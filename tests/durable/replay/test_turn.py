"""Turns of the generator style: what is recorded, what is set in motion, what is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queen.durable import events, messages
from queen.durable.events import CarriedEvent, PoisonFailure
from queen.durable.model import KeyValue
from queen.durable.replay.turn import Completed, Continued
from tests.durable.replay.stage import FIRST_MS, Stage, ids, sources


def one_activity(ctx: Any, value: Any) -> Any:
    return (yield ctx.schedule_activity("a", value))


def test_a_fresh_instance_records_its_start_and_its_first_request() -> None:
    stage = Stage(one_activity)
    turn = stage.start('{"x": 1}')
    assert turn.outcome is None
    assert stage.kinds == ["OrchestrationStarted", "ActivityScheduled"]
    assert ids(stage.history) == [1, 2]
    assert [(each.name, each.input, each.activity_id) for each in turn.commit.worker_items] == [("a", '{"x": 1}', 2)]
    assert (turn.commit.metadata.name, turn.commit.metadata.version) == ("o", "1.0.0")
    assert turn.commit.metadata.pinned_version == "1.0.0"


def test_a_completion_ends_it_and_names_its_schedule() -> None:
    stage = Stage(one_activity)
    stage.start("1")
    turn = stage.feed(stage.done(2, "42"))
    assert turn.outcome == Completed("42")
    assert stage.kinds[2:] == ["ActivityCompleted", "OrchestrationCompleted"]
    assert stage.history[2].source_event_id == 2
    assert turn.commit.metadata.status == "Completed"
    assert turn.commit.metadata.name is None


def test_foreign_and_repeated_completions_are_left_out() -> None:
    def two(ctx: Any, _: Any) -> Any:
        yield ctx.schedule_activity("a", 1)
        return (yield ctx.schedule_activity("b", 1))

    stage = Stage(two)
    stage.start()
    stage.feed(stage.done(2), stage.done(2), stage.done(2, execution_id=7), stage.done(99), stage.fired(2))
    assert stage.kinds == ["OrchestrationStarted", "ActivityScheduled", "ActivityCompleted", "ActivityScheduled"]
    before = len(stage.history)
    turn = stage.feed(stage.done(2))
    assert len(stage.history) == before
    assert turn.commit.history_delta == ()


def test_a_second_start_is_ignored() -> None:
    stage = Stage(one_activity)
    stage.start("1")
    turn = stage.feed(messages.StartMessage(instance="i", name="o", input="2"))
    assert turn.commit.history_delta == ()
    assert turn.commit.metadata.name is None


def test_join_keeps_task_order_and_failures_as_values() -> None:
    def code(ctx: Any, _: Any) -> Any:
        return (yield ctx.all([ctx.schedule_activity("a", 1), ctx.schedule_activity("b", 2)]))

    stage = Stage(code)
    stage.start()
    stage.feed(stage.broken(3, "no"))
    stage.feed(stage.done(2, '"yes"'))
    assert stage.output == '[{"ok": "yes"}, {"err": "no"}]'


def test_order_of_arrival_decides_a_race_and_position_breaks_ties() -> None:
    def code(ctx: Any, _: Any) -> Any:
        return (yield ctx.race(ctx.schedule_activity("a", 1), ctx.schedule_activity("b", 2)))

    stage = Stage(code)
    stage.start()
    turn = stage.feed(stage.done(3, '"b"'), stage.done(2, '"a"'))
    assert stage.output == '{"index": 1, "value": "b"}'
    assert [each.activity_id for each in turn.commit.cancelled_activities] == [2]

    def queues(ctx: Any, _: Any) -> Any:
        yield ctx.schedule_timer(1)
        first = yield ctx.race(ctx.dequeue_event("x"), ctx.dequeue_event("y"))
        return [first, (yield ctx.dequeue_event("y"))]

    stage = Stage(queues)
    stage.start()
    stage.feed(stage.queued("y", '"from y"'), stage.queued("x", '"from x"'))
    stage.feed(stage.fired(2))
    assert stage.output == '[{"index": 0, "value": "from x"}, "from y"]', "the loser's message goes back"


def test_the_loser_of_a_race_is_dropped_with_a_breadcrumb() -> None:
    def code(ctx: Any, _: Any) -> Any:
        yield ctx.race(ctx.schedule_activity("slow", 1), ctx.schedule_timer(5))
        yield ctx.race(ctx.schedule_sub_orchestration("kid", 1), ctx.schedule_timer(5))
        yield ctx.race(ctx.wait_for_event("e"), ctx.schedule_timer(5))
        yield ctx.race(ctx.dequeue_event("q"), ctx.schedule_timer(5))
        return (yield ctx.wait_for_event("e"))

    stage = Stage(code)
    stage.start()
    first = stage.feed(stage.fired(3))
    assert [each.activity_id for each in first.commit.cancelled_activities] == [2]
    for _ in range(3):
        timer = max(each.event_id for each in stage.history if isinstance(each, events.TimerCreated))
        stage.feed(stage.fired(timer))
    assert sources(stage.history, events.ActivityCancelRequested) == [2]
    assert len(sources(stage.history, events.SubOrchestrationCancelRequested)) == 1
    assert len(sources(stage.history, events.ExternalSubscribedCancelled)) == 1
    assert len(sources(stage.history, events.QueueSubscriptionCancelled)) == 1
    cancels = [each for each in stage.sent if isinstance(each, messages.CancelMessage)]
    assert [(each.instance.split("::sub::")[0], each.reason) for each in cancels] == [
        ("i", "parent dropped sub-orchestration future")
    ]
    stage.feed(stage.raised("e", '"to the live wait"'))
    assert stage.output == '"to the live wait"'


def test_a_late_completion_of_a_dropped_activity_is_left_out() -> None:
    def code(ctx: Any, _: Any) -> Any:
        yield ctx.race(ctx.schedule_activity("slow", 1), ctx.schedule_timer(5))
        yield ctx.schedule_timer(5)

    stage = Stage(code)
    stage.start()
    stage.feed(stage.fired(3))
    turn = stage.feed(stage.done(2, "1"))
    assert turn.commit.history_delta == ()


def test_an_activity_scheduled_and_dropped_in_one_turn_is_never_sent() -> None:
    def code(ctx: Any, _: Any) -> Any:
        yield ctx.schedule_timer(1)
        winner = yield ctx.race(ctx.schedule_activity("a", 1), ctx.dequeue_event("q"))
        yield ctx.schedule_timer(1)
        return winner

    stage = Stage(code)
    stage.start()
    stage.feed(stage.queued("q", '"now"'))
    turn = stage.feed(stage.fired(2))
    assert turn.commit.worker_items == ()
    assert [each.activity_id for each in turn.commit.cancelled_activities] == [5]


def test_external_events_are_positional_and_not_kept() -> None:
    def code(ctx: Any, _: Any) -> Any:
        yield ctx.schedule_timer(1)
        return (yield ctx.all([ctx.wait_for_event("e"), ctx.wait_for_event("e")]))

    stage = Stage(code)
    stage.start()
    stage.feed(stage.raised("e", '"too early"'))
    stage.feed(stage.fired(2))
    stage.feed(stage.raised("e", "1"), stage.raised("e", "2"))
    assert stage.output == '[{"ok": 1}, {"ok": 2}]'


def test_queue_messages_are_kept_in_order() -> None:
    def code(ctx: Any, _: Any) -> Any:
        yield ctx.schedule_timer(1)
        found = []
        for _ in range(3):
            found.append((yield ctx.dequeue_event("q")))  # noqa: PERF401 a yield cannot stand in a comprehension
        return found

    stage = Stage(code)
    stage.start()
    stage.feed(stage.queued("q", "1"), stage.queued("other", "9"), stage.queued("q", "2"))
    stage.feed(stage.fired(2))
    stage.feed(stage.queued("q", "3"))
    assert stage.output == "[1, 2, 3]"


def test_fifteen_hundred_ready_messages_are_taken_in_one_turn() -> None:
    def code(ctx: Any, _: Any) -> Any:
        total = 0
        for _ in range(1500):
            total += yield ctx.dequeue_event("q")
        return total

    stage = Stage(code)
    turn = stage.feed(
        messages.StartMessage(instance="i", name="o", input="null"), *(stage.queued("q", "1") for _ in range(1500))
    )
    assert turn.outcome == Completed("1500")
    assert ids(stage.history) == list(range(1, 3003))


def test_time_and_ids_are_recorded_and_replayed() -> None:
    def code(ctx: Any, _: Any) -> Any:
        now, guid = (yield ctx.utc_now()), (yield ctx.new_guid())
        yield ctx.schedule_timer(1)
        return [now, guid]

    stage = Stage(code)
    turn = stage.start()
    assert turn.commit.worker_items == (), "answered in the turn itself"
    timer = stage.history[-1]
    stage.feed(stage.fired(timer.event_id))
    assert stage.output == f'[{FIRST_MS + 1000}, "guid-1"]'


def test_an_endless_loop_of_requests_fails_the_instance() -> None:
    def code(ctx: Any, _: Any) -> Any:
        while True:
            yield ctx.utc_now()

    stage = Stage(code)
    stage.start()
    assert stage.error == "the code went on for more than 10000 rounds in one turn"
    assert stage.kinds == ["OrchestrationStarted", "OrchestrationFailed"]


def test_continue_as_new_carries_everything_over() -> None:
    def code(ctx: Any, value: Any) -> Any:
        if value == 1:
            ctx.set_custom_status("busy")
            yield ctx.schedule_timer(1)
            yield ctx.start_orchestration("other", "other-1", 1)
            yield ctx.continue_as_new(2)
        return [ctx.get_custom_status(), (yield ctx.dequeue_event("q")), (yield ctx.dequeue_event("p"))]

    stage = Stage(code)
    stage.start("1", parent_instance="mum", parent_execution_id=3, parent_event_id=4, trace_id="t")
    carried = [stage.queued("p", str(n)) for n in range(150)]
    turn = stage.feed(stage.queued("q", '"first"'), *carried, stage.fired(3))
    assert turn.outcome == Continued("2")
    kinds = {type(each) for each in turn.commit.orchestrator_items}
    assert kinds == {messages.StartMessage, messages.ContinueAsNewMessage}, "the detached start is not lost"
    again = next(each for each in stage.sent if isinstance(each, messages.ContinueAsNewMessage))
    assert again.execution_id == 2
    assert again.carried_events[:2] == (CarriedEvent("q", '"first"'), CarriedEvent("p", "0"))
    assert len(again.carried_events) == 151, "none is dropped"
    assert (again.parent_instance, again.parent_execution_id, again.parent_event_id) == ("mum", 3, 4)
    assert again.trace_id == "t"
    last = stage.feed(again)
    assert stage.output == '["busy", "first", 0]'
    told = [each for each in last.commit.orchestrator_items if each.instance == "mum"]
    assert isinstance(told[0], messages.SubOrchestrationCompletedMessage)
    assert ids(stage.history)[0] == 1


def test_messages_of_an_older_execution_are_left_out() -> None:
    def code(ctx: Any, value: Any) -> Any:
        if value == 1:
            yield ctx.schedule_activity("a", 1)
            yield ctx.schedule_activity("b", 1)
            yield ctx.continue_as_new(2)
        yield ctx.schedule_activity("c", 1)

    stage = Stage(code)
    stage.start("1")
    stage.feed(stage.done(2))
    stage.feed(stage.done(4))
    again = next(each for each in stage.sent if isinstance(each, messages.ContinueAsNewMessage))
    stage.feed(again, stage.done(2, execution_id=1))
    assert stage.kinds == ["OrchestrationStarted", "ActivityScheduled"]


def test_children_get_an_id_from_their_parent_and_report_back() -> None:
    def code(ctx: Any, _: Any) -> Any:
        first = yield ctx.schedule_sub_orchestration("kid", 1)
        second = yield ctx.schedule_sub_orchestration_with_id("kid", "chosen", 2)
        return [first, second]

    stage = Stage(code)
    turn = stage.start()
    start = turn.commit.orchestrator_items[0]
    assert isinstance(start, messages.StartMessage)
    assert (start.instance, start.parent_instance, start.parent_event_id) == ("i::sub::2", "i", 2)
    turn = stage.feed(stage.child_done(2, "10"))
    assert turn.commit.orchestrator_items[0].instance == "chosen"
    stage.feed(stage.child_done(4, "20"))
    assert stage.output == "[10, 20]"


def test_cancelling_fails_the_instance_and_its_open_children() -> None:
    def code(ctx: Any, _: Any) -> Any:
        yield ctx.all(
            [ctx.schedule_activity("a", 1), ctx.schedule_sub_orchestration("kid", 1), ctx.wait_for_event("e")]
        )

    stage = Stage(code)
    stage.start("null", parent_instance="mum", parent_execution_id=1, parent_event_id=9)
    turn = stage.feed(stage.cancel("enough"), stage.cancel("twice"))
    assert stage.error == "canceled: enough"
    assert stage.kinds.count("OrchestrationCancelRequested") == 1
    assert [each.activity_id for each in turn.commit.cancelled_activities] == [2]
    by_instance = {each.instance: each for each in turn.commit.orchestrator_items}
    cancel = by_instance["i::sub::3"]
    assert isinstance(cancel, messages.CancelMessage)
    assert cancel.reason == "parent canceled"
    assert isinstance(by_instance["mum"], messages.SubOrchestrationFailedMessage)
    assert stage.kinds[-1] == "OrchestrationFailed"


def test_cancel_beats_completion_in_the_same_turn() -> None:
    stage = Stage(one_activity)
    stage.start()
    stage.feed(stage.done(2), stage.cancel("late"))
    assert stage.error == "canceled: late"


def test_only_detached_starts_survive_the_last_turn() -> None:
    def code(ctx: Any, _: Any) -> Any:
        yield ctx.schedule_activity("a", 1)
        yield ctx.start_orchestration("other", "other-1", 1)
        ctx.set_custom_status("done")
        ctx.set_kv_value("k", "v")
        return "x"

    stage = Stage(code)
    stage.start()
    turn = stage.feed(stage.done(2))
    assert [type(each).__name__ for each in turn.commit.orchestrator_items] == ["StartMessage"]
    assert stage.kinds[3:] == [
        "OrchestrationChained",
        "CustomStatusUpdated",
        "KeyValueSet",
        "OrchestrationCompleted",
    ]


def test_in_flight_work_is_cancelled_when_the_instance_ends() -> None:
    def code(ctx: Any, _: Any) -> Any:
        yield ctx.race(ctx.schedule_activity("a", 1), ctx.schedule_timer(1))
        raise ValueError("end")

    stage = Stage(code)
    stage.start()
    stage.feed(stage.fired(3))
    assert stage.kinds[-2:] == ["ActivityCancelRequested", "OrchestrationFailed"]
    assert "ValueError: end" in stage.error
    assert stage.error.startswith("Traceback")


def test_only_application_errors_reach_the_code() -> None:
    def code(ctx: Any, _: Any) -> Any:
        try:
            yield ctx.schedule_activity("a", 1)
        except Exception as error:  # noqa: BLE001 what the generator style raises
            return f"caught {error}"

    stage = Stage(code)
    stage.start()
    stage.feed(stage.broken(2, "boom"))
    assert stage.output == '"caught boom"'

    stage = Stage(code)
    stage.start()
    stage.feed(stage.broken(2, PoisonFailure(what="activity a", attempts=11, max_attempts=10)))
    assert stage.error == "poison: activity a exceeded 11 attempts (max 10)"


def test_replaying_ends_where_new_events_begin() -> None:
    seen: list[tuple[str, bool]] = []

    def code(ctx: Any, _: Any) -> Any:
        seen.append(("begin", ctx._machine.replaying))
        yield ctx.schedule_activity("a", 1)
        seen.append(("middle", ctx._machine.replaying))
        yield ctx.schedule_activity("b", 1)

    stage = Stage(code, once=True)
    stage.start()
    stage.feed(stage.done(2))
    stage.feed(stage.done(4))
    assert seen == [
        ("begin", False),
        ("begin", True),
        ("middle", False),
        ("begin", True),
        ("middle", True),
    ]


def test_tracing_is_silent_in_replay(caplog: pytest.LogCaptureFixture) -> None:
    def code(ctx: Any, _: Any) -> Any:
        ctx.trace_info("once")
        yield ctx.schedule_activity("a", 1)
        ctx.trace_warn("twice")

    caplog.set_level("INFO", "queen.durable.trace")
    stage = Stage(code, once=True)
    stage.start()
    stage.feed(stage.done(2))
    assert [each.message for each in caplog.records] == ["once", "twice"]


def test_time_of_events_never_goes_back() -> None:
    stage = Stage(one_activity)
    stage.start()
    stage.now_ms -= 60_000
    stage.feed(stage.done(2))
    times = [each.timestamp_ms for each in stage.history]
    assert times == sorted(times)


def test_keys_start_from_the_snapshot_and_follow_the_code() -> None:
    def code(ctx: Any, _: Any) -> Any:
        before = ctx.get_kv_value("n")
        ctx.set_kv_value("n", str(int(before) + 1))
        yield ctx.schedule_timer(1)
        ctx.set_kv_value("m", "x")
        pruned = ctx.prune_kv_values_updated_before(FIRST_MS + 2000)
        ctx.clear_kv_value("gone")
        return [ctx.get_kv_value("n"), pruned, ctx.get_kv_length(), ctx.get_kv_all_values()]

    stage = Stage(code)
    stage.kv = {"n": KeyValue("5", 1), "old": KeyValue("o", 1)}
    stage.start()
    timer = stage.history[-1].event_id
    stage.feed(stage.fired(timer))
    assert stage.output == '[null, 2, 1, {"m": "x"}]'
    kinds = [each for each in stage.kinds if each.startswith("Key")]
    assert kinds == ["KeyValueSet", "KeyValueSet", "KeyValueCleared", "KeyValueCleared", "KeyValueCleared"]


LIMITS: dict[str, Callable[[Any], Any]] = {
    "KV value for key 'k' (65537 bytes) exceeds limit (65536 bytes)": lambda c: c.set_kv_value("k", "v" * 65537),
    "KV key count (151) exceeds limit (150)": lambda c: [c.set_kv_value(f"k{n}", "v") for n in range(151)],
    "Custom status size (262146 bytes) exceeds limit (262144 bytes)": lambda c: c.set_custom_status("é" * 131073),
}


@pytest.mark.parametrize("text", LIMITS)
def test_breaking_a_limit_fails_the_instance_and_drops_its_work(text: str) -> None:
    def code(ctx: Any, _: Any) -> Any:
        LIMITS[text](ctx)
        yield ctx.schedule_activity("a", 1)

    stage = Stage(code)
    turn = stage.start()
    assert stage.error == text
    assert turn.commit.worker_items == ()
    assert stage.kinds == ["OrchestrationStarted", "OrchestrationFailed"]


def test_a_tag_may_have_256_bytes() -> None:
    def code(ctx: Any, size: int) -> Any:
        yield ctx.schedule_activity("a", 1).with_tag("t" * size)

    stage = Stage(code)
    assert stage.start("256").commit.worker_items[0].tag == "t" * 256
    stage = Stage(code)
    stage.start("257")
    assert stage.error == "Activity 'a' tag size (257 bytes) exceeds limit (256 bytes)"


def test_clean_up_code_on_the_way_out_of_a_turn_does_nothing() -> None:
    def code(ctx: Any, _: Any) -> Any:
        try:
            yield ctx.schedule_activity("a", 1)
        finally:
            ctx.set_custom_status("cleaned")

    stage = Stage(code)
    turn = stage.start()
    assert [type(each).__name__ for each in turn.commit.history_delta] == ["OrchestrationStarted", "ActivityScheduled"]
    stage.feed(stage.done(2))
    assert stage.kinds.count("CustomStatusUpdated") == 1
