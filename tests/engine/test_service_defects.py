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

DEFECTS: dict[str, tuple[Check, str, str, str]] = {
    "retention loses sight of what is left": (
        services.test_retention_keeps_up_with_one_busy_partition,
        "remove_ranges", "oldest_at = x.rest", "oldest_at = null",
    ),
    "retention stops at what must stay": (
        services.test_a_group_that_lags_does_not_hide_what_others_have_passed,
        "retain_queue", "elsif cardinality(v_seen) = 1000 then", "elsif false then",
    ),
    "retention walks over everything": (
        services.test_retention_looks_only_at_what_is_due,
        "retain_queue", "p.oldest_at < greatest(v_aged, v_completed)", "true",
    ),
    "scheduled messages share one call": (
        services.test_a_full_queue_does_not_hold_up_what_is_scheduled_for_others,
        "deliver_due", "array(select generate_subscripts(s.ids, 1)), false) r", "null, false) r",
    ),
    "scheduled messages stop at a busy partition": (
        services.test_a_busy_partition_does_not_hold_up_what_is_scheduled_for_others,
        "deliver_due", "if s.n = p_limit and not v_full then", "if false then",
    ),
    "eviction is not expected": (
        services.test_eviction_goes_on_lane_by_lane,
        "expect_eviction", "c.evict_at is null and", "false and",
    ),
    "eviction looks at everything": (
        services.test_eviction_looks_only_at_what_is_due,
        "evict_queue", "pc.evict_at <= v_now", "pc.evict_at is not null",
    ),
    "the log is truncated as a whole": (
        services.test_the_delivery_log_loses_whole_days_that_are_over,
        "trim_deliveries", "'truncate %s', v_table", "'truncate queen.deliveries'",
    ),
    "statistics forget what went": (
        services.test_statistics_stay_right_when_partitions_and_groups_go,
        "collect_stats", "+ coalesce(g.pushed, 0)", "",
    ),
    "ticks go by number": (
        services.test_a_raised_interval_does_not_stop_a_service,
        "hold_service", "floor(extract(epoch from s.last_start_at) * 1000 / p_interval_ms) < v_slot", "s.slot < v_slot",
    ),
    "a corrected clock is not noticed": (
        services.test_a_clock_that_was_ahead_does_not_stop_a_service,
        "hold_service", "s.last_start_at > v_now + v_interval", "false",
    ),
    "services are kept by those who stop": (
        services.test_a_stopped_process_gives_its_services_back,
        "release_services", "where holder = p_holder", "where false and holder = p_holder",
    ),
    "a duplicate needs room": (
        limits.test_a_duplicate_is_answered_though_the_queue_is_full,
        "refuse_full", "and i.place <> all (v_known)", "",
    ),
    "a group counts only once it has cursors": (
        limits.test_a_group_counts_from_its_registration_on,
        "queue_depth", "and not (s.filled and s.settled)", "and false",
    ),
    "every push counts": (
        limits.test_a_push_counts_only_when_the_credit_is_used_up,
        "take_credit", "if v_left >= 0 then", "if false then",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFECTS)
async def test_a_planted_defect_is_noticed(name: str, engine: Engine, sql: Sql, clock: Clock, database: str) -> None:
    check, function, old, new = DEFECTS[name]
    plant(database, function, (old, new))
    given: dict[str, Any] = {
        "engine": engine, "sql": sql, "clock": clock, "database": database, "jobs": Jobs(engine, Settings()),
        "mode": "all", "careful": False,
    }  # fmt: skip
    with pytest.raises((Exception, pytest.fail.Exception)):
        await check(**{name: given[name] for name in inspect.signature(check).parameters})
