"""Defects planted into the services and the limits: the test that is about each of them notices it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from queen.config import Settings
from queen.engine import Engine
from queen.engine.services.jobs import Jobs
from tests.engine import test_limit as limits
from tests.engine import test_services as services
from tests.sql.mutation import plant
from tests.support.clock import Clock
from tests.support.work import Sql

Check = Callable[..., Awaitable[None]]

DEFECTS: dict[str, Check] = {
    "retention-loses-sight-of-what-is-left": services.test_retention_keeps_up_with_one_busy_partition,
    "retention-stops-at-what-must-stay": services.test_a_group_that_lags_does_not_hide_what_others_have_passed,
    "retention-walks-over-everything": services.test_retention_looks_only_at_what_is_due,
    "scheduled-messages-share-one-call": services.test_a_full_queue_does_not_hold_up_what_is_scheduled_for_others,
    "scheduled-stops-at-a-busy-partition": services.test_a_busy_partition_does_not_hold_up_what_is_scheduled_for_others,
    "eviction-is-not-expected": services.test_eviction_goes_on_lane_by_lane,
    "eviction-looks-at-everything": services.test_eviction_looks_only_at_what_is_due,
    "the-log-is-truncated-as-a-whole": services.test_the_delivery_log_loses_whole_days_that_are_over,
    "statistics-forget-what-went": services.test_statistics_stay_right_when_partitions_and_groups_go,
    "ticks-go-by-number": services.test_a_raised_interval_does_not_stop_a_service,
    "a-corrected-clock-is-not-noticed": services.test_a_clock_that_was_ahead_does_not_stop_a_service,
    "services-are-kept-by-those-who-stop": services.test_a_stopped_process_gives_its_services_back,
    "a-duplicate-needs-room": limits.test_a_duplicate_is_answered_though_the_queue_is_full,
    "a-group-counts-only-once-it-has-cursors": limits.test_a_group_counts_from_its_registration_on,
    "every-push-counts": limits.test_a_push_counts_only_when_the_credit_is_used_up,
}


@pytest.mark.parametrize("name", DEFECTS)
async def test_a_planted_defect_is_noticed(name: str, engine: Engine, sql: Sql, clock: Clock, database: str) -> None:
    check = DEFECTS[name]
    plant(database, name)
    given: dict[str, Any] = {
        "engine": engine, "sql": sql, "clock": clock, "database": database, "jobs": Jobs(engine, Settings()),
        "mode": "all", "careful": False,
    }  # fmt: skip
    with pytest.raises((Exception, pytest.fail.Exception)):
        await check(**{name: given[name] for name in inspect.signature(check).parameters})
