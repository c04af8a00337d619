"""Retrying is a loop of recorded attempts and timers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from queen.durable import events
from queen.durable.retry import RetryPolicy
from tests.durable.replay.stage import Stage


def retrying(**retry: Any) -> Any:
    def code(ctx: Any, _: Any) -> Any:
        try:
            return (yield ctx.schedule_activity_with_retry("a", 1, retry))
        except Exception as error:  # noqa: BLE001 what the generator style raises
            return f"gave up: {error}"

    return code


def delays(stage: Stage) -> list[int]:
    return [each.fire_at_ms - each.timestamp_ms for each in stage.history if isinstance(each, events.TimerCreated)]


def fail_all(stage: Stage, attempts: int) -> None:
    for attempt in range(1, attempts + 1):
        task = stage.tasks.pop()
        stage.feed(stage.broken(task.activity_id, f"failure {attempt}"))
        if stage.turns[-1].outcome is None:
            stage.feed(stage.fired(stage.history[-1].event_id))


def test_the_last_failure_is_raised_after_all_attempts() -> None:
    stage = Stage(retrying(max_attempts=4))
    stage.start()
    fail_all(stage, 4)
    assert stage.output == '"gave up: failure 4"'
    assert delays(stage) == [100, 200, 400]


def test_three_attempts_are_the_default_and_success_ends_the_loop() -> None:
    stage = Stage(retrying())
    stage.start()
    fail_all(stage, 2)
    stage.feed(stage.done(stage.tasks.pop().activity_id, '"fine"'))
    assert stage.output == '"fine"'


@pytest.mark.parametrize(
    ("word", "expected"),
    [("fixed", [1000, 1000, 1000]), ("linear", [100, 200, 300]), ("anything", [100, 200, 300])],
)
def test_back_off_words(word: str, expected: list[int]) -> None:
    stage = Stage(retrying(maxAttempts=4, backoff=word))
    stage.start()
    fail_all(stage, 4)
    assert delays(stage) == expected


def test_back_off_is_capped_at_thirty_seconds() -> None:
    assert RetryPolicy().delay_ms(20) == 30_000
    assert RetryPolicy(backoff="linear").delay_ms(1000) == 30_000
    assert RetryPolicy(first_delay=timedelta(minutes=1), backoff="fixed").delay_ms(3) == 60_000


def test_a_timeout_ends_the_loop_at_once() -> None:
    stage = Stage(retrying(max_attempts=5, timeout_ms=50))
    stage.start()
    turn = stage.feed(stage.fired(3))
    assert stage.output == '"gave up: timeout: activity timed out"'
    assert [each.activity_id for each in turn.commit.cancelled_activities] == [2]


def test_the_total_timeout_is_a_total() -> None:
    stage = Stage(retrying(max_attempts=50, timeout_ms=50, total_timeout_ms=120))
    stage.start()
    assert sorted(delays(stage)) == [50, 120]
    total = next(
        each.event_id
        for each in stage.history
        if isinstance(each, events.TimerCreated) and each.fire_at_ms - each.timestamp_ms == 120
    )
    stage.feed(stage.broken(stage.tasks.pop().activity_id))
    assert stage.turns[-1].outcome is None, "it retries"
    stage.feed(stage.fired(total))
    assert stage.output == '"gave up: timeout: activity timed out"'


def test_retry_on_a_session_keeps_the_session_and_the_tag() -> None:
    def code(ctx: Any, _: Any) -> Any:
        yield ctx.schedule_activity_with_retry_on_session("a", 1, {"max_attempts": 2}, "s").with_tag("gpu")

    stage = Stage(code)
    stage.start()
    fail_all(stage, 1)
    assert [(each.session_id, each.tag) for each in stage.tasks] == [("s", "gpu")]


def test_a_policy_needs_an_attempt() -> None:
    with pytest.raises(ValueError, match="max_attempts must be at least 1"):
        RetryPolicy(max_attempts=0)
