"""Twenty changes of code that do not fit a recorded history are detected; twenty harmless ones are not."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from queen.durable.duroxide.generators import generator_entry
from queen.durable.errors import NondeterminismDetected
from queen.durable.replay.check import check_replay
from queen.durable.replay.turn import Parked
from tests.durable.replay.stage import Orchestrator, Stage, play

Recorded = tuple[Orchestrator, Orchestrator, Mapping[str, Sequence[str]]]


def recorded(ctx: Any, value: Any) -> Any:
    """The code that wrote the histories of most cases."""
    first = yield ctx.schedule_activity("first", value)
    ctx.set_custom_status("half")
    ctx.set_kv_value("k", "v")
    both = yield ctx.all([ctx.schedule_activity("left", 1), ctx.schedule_timer(100)])
    winner = yield ctx.race(ctx.schedule_activity("fast", 1), ctx.schedule_sub_orchestration("kid", 2))
    yield ctx.start_orchestration("other", "other-1", 3)
    yield ctx.wait_for_event("go")
    message = yield ctx.dequeue_event("inbox")
    yield ctx.schedule_activity("last", 9)
    return [first, both, winner, message]


def changed(**swap: Any) -> Orchestrator:
    """The recorded code with single steps replaced."""

    def code(ctx: Any, value: Any) -> Any:
        def step(name: str, usual: Any) -> Any:
            return swap[name](ctx) if name in swap else usual()

        if "before" in swap:
            yield swap["before"](ctx)
        first = yield step("first", lambda: ctx.schedule_activity("first", value))
        step("status", lambda: ctx.set_custom_status("half"))
        step("key", lambda: ctx.set_kv_value("k", "v"))
        both = yield step("join", lambda: ctx.all([ctx.schedule_activity("left", 1), ctx.schedule_timer(100)]))
        winner = yield step(
            "race", lambda: ctx.race(ctx.schedule_activity("fast", 1), ctx.schedule_sub_orchestration("kid", 2))
        )
        yield step("detached", lambda: ctx.start_orchestration("other", "other-1", 3))
        yield step("event", lambda: ctx.wait_for_event("go"))
        message = yield step("queue", lambda: ctx.dequeue_event("inbox"))
        yield step("last", lambda: ctx.schedule_activity("last", 9))
        if "after" in swap:
            yield swap["after"](ctx)
        return [first, both, winner, message]

    return code


def returns_early(ctx: Any, value: Any) -> Any:
    yield ctx.schedule_activity("first", value)
    return "early"


def raises_early(ctx: Any, value: Any) -> Any:
    yield ctx.schedule_activity("first", value)
    raise ValueError("early")


SHAPES: dict[str, Orchestrator] = {
    "another activity": changed(first=lambda c: c.schedule_activity("other", 1)),
    "another input": changed(first=lambda c: c.schedule_activity("first", 2)),
    "a session added": changed(first=lambda c: c.schedule_activity("first", 1, "s")),
    "a tag added": changed(first=lambda c: c.schedule_activity("first", 1).with_tag("gpu")),
    "a timer instead of an activity": changed(first=lambda c: c.schedule_timer(1)),
    "an activity inserted in front": changed(before=lambda c: c.schedule_activity("new", 1)),
    "a timer inserted in front": changed(before=lambda c: c.schedule_timer(5)),
    "status no longer set": changed(status=lambda _: None),
    "another key": changed(key=lambda c: c.set_kv_value("other", "v")),
    "another value of a key": changed(key=lambda c: c.set_kv_value("k", "other")),
    "a key cleared instead of set": changed(key=lambda c: c.clear_kv_value("k")),
    "a join in another order": changed(join=lambda c: c.all([c.schedule_timer(100), c.schedule_activity("left", 1)])),
    "a join with fewer branches": changed(join=lambda c: c.all([c.schedule_activity("left", 1)])),
    "a race that became a join": changed(
        race=lambda c: c.all([c.schedule_activity("fast", 1), c.schedule_sub_orchestration("kid", 2)])
    ),
    "another child": changed(
        race=lambda c: c.race(c.schedule_activity("fast", 1), c.schedule_sub_orchestration("niece", 2))
    ),
    "another input of a child": changed(
        race=lambda c: c.race(c.schedule_activity("fast", 1), c.schedule_sub_orchestration("kid", 3))
    ),
    "another detached instance": changed(detached=lambda c: c.start_orchestration("other", "other-2", 3)),
    "another event name": changed(event=lambda c: c.wait_for_event("stop")),
    "another queue name": changed(queue=lambda c: c.dequeue_event("outbox")),
    "an early return": returns_early,
    "an early exception": raises_early,
    "the last step removed": changed(last=lambda c: c.dequeue_event("inbox")),
}


@pytest.fixture(scope="module")
def story() -> Stage:
    stage = play(recorded, {"event": ["go"], "queue": ["inbox"]})
    assert stage.kinds[-1] == "OrchestrationCompleted", stage.kinds
    return stage


def test_there_are_at_least_twenty_shapes() -> None:
    assert len(SHAPES) >= 20


@pytest.mark.parametrize("shape", SHAPES)
def test_changed_code_is_detected(shape: str, story: Stage) -> None:
    with pytest.raises(NondeterminismDetected, match=r"at event \d+ history has \w+"):
        check_replay(story.history, generator_entry(SHAPES[shape]))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_turn_on_changed_code_parks_the_instance(shape: str, story: Stage) -> None:
    stage = Stage(SHAPES[shape])
    stage.history = [each for each in story.history if type(each).__name__ != "OrchestrationCompleted"]
    turn = stage.feed(stage.raised("late"))
    assert isinstance(turn.outcome, Parked)
    assert turn.commit.metadata.status == "Parked"
    assert stage.error.startswith("nondeterministic: at event ")
    assert stage.kinds[-2:] == ["ExternalEvent", "OrchestrationParked"], "what arrived is kept"
    assert not turn.commit.worker_items


def test_the_message_names_event_history_and_code(story: Stage) -> None:
    with pytest.raises(NondeterminismDetected) as caught:
        check_replay(story.history, generator_entry(SHAPES["another activity"]))
    assert str(caught.value) == (
        "at event 2 history has ActivityScheduled(name=first, input=1), "
        "but the code asked for ActivityScheduled(name=other, input=1)"
    )


def logs(ctx: Any, value: Any) -> Any:
    logging.getLogger("test").debug("a new line")
    ctx.trace_info("another")
    return (yield from recorded(ctx, value))


def renamed_locals(ctx: Any, amount: Any) -> Any:
    alpha = yield ctx.schedule_activity("first", amount)
    ctx.set_custom_status("half")
    ctx.set_kv_value("k", "v")
    beta = yield ctx.all([ctx.schedule_activity("left", 1), ctx.schedule_timer(100)])
    gamma = yield ctx.race(ctx.schedule_activity("fast", 1), ctx.schedule_sub_orchestration("kid", 2))
    yield ctx.start_orchestration("other", "other-1", 3)
    yield ctx.wait_for_event("go")
    delta = yield ctx.dequeue_event("inbox")
    yield ctx.schedule_activity("last", 9)
    return [alpha, beta, gamma, delta]


def catches(ctx: Any, value: Any) -> Any:
    try:
        return (yield from recorded(ctx, value))
    except ValueError:
        yield ctx.schedule_activity("never", 0)
        raise


def unyielded(ctx: Any, value: Any) -> Any:
    ctx.schedule_activity("described but not yielded", 0)
    return (yield from recorded(ctx, value))


def reads_keys(ctx: Any, value: Any) -> Any:
    assert ctx.get_kv_value("k") is None
    result = yield from recorded(ctx, value)
    assert ctx.get_kv_value("k") == "v"
    assert ctx.get_kv_all_keys() == ["k"]
    return result


def reads_status(ctx: Any, value: Any) -> Any:
    result = yield from recorded(ctx, value)
    return [result, ctx.get_custom_status()]


def branch_not_taken(ctx: Any, value: Any) -> Any:
    if value == 2:
        yield ctx.schedule_timer(1)
    return (yield from recorded(ctx, value))


def other_result(ctx: Any, value: Any) -> Any:
    yield from recorded(ctx, value)
    return "a different result"


def computes(ctx: Any, value: Any) -> Any:
    total = sum(range(1000))
    result = yield from recorded(ctx, value)
    return [total, *result]


def in_a_loop(ctx: Any, value: Any) -> Any:
    first = None
    for name, given in (("first", value),):
        first = yield ctx.schedule_activity(name, given)
    rest = yield from _rest(ctx)
    return [first, *rest]


def _rest(ctx: Any) -> Any:
    ctx.set_custom_status("half")
    ctx.set_kv_value("k", "v")
    both = yield ctx.all([ctx.schedule_activity("left", 1), ctx.schedule_timer(100)])
    winner = yield ctx.race(ctx.schedule_activity("fast", 1), ctx.schedule_sub_orchestration("kid", 2))
    yield ctx.start_orchestration("other", "other-1", 3)
    yield ctx.wait_for_event("go")
    message = yield ctx.dequeue_event("inbox")
    yield ctx.schedule_activity("last", 9)
    return [both, winner, message]


HARMLESS: dict[str, Orchestrator] = {
    "nothing changed": recorded,
    "renamed locals": renamed_locals,
    "added logging": logs,
    "a longer timer": changed(join=lambda c: c.all([c.schedule_activity("left", 1), c.schedule_timer(99_999)])),
    "a shorter timer": changed(join=lambda c: c.all([c.schedule_activity("left", 1), c.schedule_timer(0)])),
    "another custom status": changed(status=lambda c: c.set_custom_status("fifty percent")),
    "status cleared instead of set": changed(status=lambda c: c.reset_custom_status()),
    "a step moved into a function": in_a_loop,
    "an error now caught": catches,
    "a description never yielded": unyielded,
    "keys read": reads_keys,
    "status read": reads_status,
    "a branch not taken by this input": branch_not_taken,
    "another result": other_result,
    "pure computation added": computes,
    "typed instead of plain": changed(first=lambda c: c.schedule_activity_typed("first", 1)),
    "keyword arguments": changed(first=lambda c: c.schedule_activity(name="first", input=1)),
    "an explicit child id": changed(
        race=lambda c: c.race(c.schedule_activity("fast", 1), c.schedule_sub_orchestration_with_id("kid", "chosen", 2))
    ),
    "a pinned child version": changed(
        race=lambda c: c.race(c.schedule_activity("fast", 1), c.schedule_sub_orchestration_versioned("kid", "2.0.0", 2))
    ),
    "a generic join result": changed(
        join=lambda c: c.all_typed([c.schedule_activity("left", 1), c.schedule_timer(100)])
    ),
}


def test_there_are_at_least_twenty_harmless_changes() -> None:
    assert len(HARMLESS) >= 20


@pytest.mark.parametrize("change", HARMLESS)
def test_harmless_changes_are_not_detected(change: str, story: Stage) -> None:
    check_replay(story.history, generator_entry(HARMLESS[change]))


@pytest.mark.parametrize("cut", range(1, 22))
def test_every_prefix_of_a_history_replays(cut: int, story: Stage) -> None:
    assert len(story.history) == 21, story.kinds
    check_replay(story.history[:cut], generator_entry(recorded))


def test_a_new_branch_after_historys_end_is_recorded() -> None:
    stage = Stage(recorded)
    stage.start("1")
    stage.entry = generator_entry(
        changed(join=lambda c: c.all([c.schedule_activity("left", 1), c.schedule_timer(100), c.schedule_timer(5)]))
    )
    stage.feed(stage.done(2, "1"))
    assert stage.turns[-1].outcome is None
    assert stage.kinds.count("TimerCreated") == 2


def test_a_new_last_step_is_recorded(story: Stage) -> None:
    stage = Stage(changed(after=lambda c: c.schedule_activity("audit", 0)))
    stage.history = story.history[:-2]
    last = next(each.event_id for each in reversed(stage.history) if type(each).__name__ == "ActivityScheduled")
    turn = stage.feed(stage.done(last))
    assert turn.outcome is None
    assert [each.name for each in turn.commit.worker_items] == ["audit"]
