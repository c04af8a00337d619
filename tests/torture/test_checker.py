"""Each check notices what it is for: a good story, and the same story with one thing wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torture import checker
from torture.evidence import Batch, Evidence, Grant, Step, Stored, Told
from torture.plan import RELAYED, draw

LANE = (1, "g")
LETTER: dict[str, Any] = {
    "partition_id": 1, "consumer_group": "g", "seq": 2, "name": "b", "evicted": False, "error": "never",
}  # fmt: skip


def told(name: str, at: float, lease: str = "L1", status: str = "completed", verdict: str | None = "acked") -> Told:
    return Told(at, at + 0.1, LANE, lease, name, status, verdict, frozenset({status}))


@pytest.fixture
def story(tmp_path: Path) -> Evidence:
    """A producer pushes a and b; a group takes both under one lease and does them; both are relayed."""
    evidence = Evidence(draw(1, 10), tmp_path)
    evidence.queues["q0"].options.update(retry_limit=1, max_deliveries=2, lease_time=3, retention_enabled=False)
    evidence.places = {1: ("q0", "p0"), 2: (RELAYED, "p0")}
    evidence.lanes_of = {place: number for number, place in evidence.places.items()}
    for seq, name in ((1, "a"), (2, "b")):
        evidence.stored[1][seq] = Stored(seq, name, f"id-{name}", 1.0)
        evidence.seq_of[1, name] = [seq]
        evidence.accepted["q0", "p0", name] = 1.0
        evidence.spans[name] = (0.9, 1.0)
        evidence.stored[2][seq] = Stored(seq, f"{name}>x", f"id-{name}>x", 2.0)
        evidence.seq_of[2, f"{name}>x"] = [seq]
    evidence.produced["me", "q0", "p0"] = ["a", "b"]
    evidence.outbox, evidence.committed = {"a"}, {"a"}
    evidence.grants[LANE] = [Grant("L1", 1, 2, 2, 0, 0, 2.0, None)]
    evidence.batches = [Batch(1.9, 2.1, LANE, "L1", ["a", "b"], 3, False, "me")]
    evidence.tellings = [told("b", 2.5)]
    evidence.steps[LANE] = [Step(0, 2, 2.55)]
    return evidence


def store_twice(story: Evidence) -> None:
    story.seq_of[1, "a"].append(3)


def lose(story: Evidence) -> None:
    del story.seq_of[1, "b"]


def leave_a_hole(story: Evidence) -> None:
    story.stored[1][4] = Stored(4, "d", "id-d", 1.0)


def swap(story: Evidence) -> None:
    story.seq_of[1, "a"], story.seq_of[1, "b"] = [2], [1]


def roll_back_the_row(story: Evidence) -> None:
    story.committed.clear()


def relay_twice(story: Evidence) -> None:
    story.stored[2][3] = Stored(3, "a>y", "id-a>y", 2.0)


def give_on_too_soon(story: Evidence) -> None:
    story.grants[LANE].append(Grant("L2", 1, 2, 2, 0, 0, 3.0, "L1"))


def hand_out_more(story: Evidence) -> None:
    story.grants[LANE][0] = story.grants[LANE][0]._replace(last=1)


def skip_one(story: Evidence) -> None:
    story.stored[1][3] = Stored(3, "c", "id-c", 1.0)
    story.seq_of[1, "c"] = [3]
    story.grants[LANE][0] = story.grants[LANE][0]._replace(last=3)
    story.batches[0] = story.batches[0]._replace(names=["a", "c"])


def hold_both(story: Evidence) -> None:
    story.batches.append(Batch(2.2, 2.3, LANE, "L2", ["a", "b"], 3, False, "other"))


def tell_nothing(story: Evidence) -> None:
    story.tellings.clear()


def go_back(story: Evidence) -> None:
    story.steps[LANE].append(Step(2, 0, 3.0))


def come_again(story: Evidence) -> None:
    story.batches.append(Batch(4.0, 4.1, LANE, "L2", ["b"], 3, False, "other"))


def tell_late(story: Evidence) -> None:
    story.grants[LANE].append(Grant("L2", 1, 2, 2, 0, 0, 6.0, None))
    story.tellings.append(told("b", 7.0))


def inherit(story: Evidence) -> None:
    story.grants[LANE].append(Grant("L2", 3, 3, 3, 1, 0, 6.0, None))


def bury_unseen(story: Evidence) -> None:
    story.letters = [LETTER | {"seq": 3, "name": "c"}]  # type: ignore[list-item]


def bury_at_once(story: Evidence) -> None:
    story.tellings.append(told("b", 2.3, status="failed"))
    story.letters = [LETTER]  # type: ignore[list-item]


def test_a_good_story_holds(story: Evidence) -> None:
    assert checker.check(story) == []


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (store_twice, "stored_once"),
        (lose, "accepted_is_stored"),
        (leave_a_hole, "positions_without_holes"),
        (swap, "producers_in_order"),
        (roll_back_the_row, "outbox_is_atomic"),
        (relay_twice, "relayed_once"),
        (give_on_too_soon, "leases_are_exclusive"),
        (hand_out_more, "batches_are_as_granted"),
        (skip_one, "batches_are_as_granted"),
        (hold_both, "held_by_one"),
        (tell_nothing, "nothing_passed_unfinished"),
        (go_back, "cursors_go_forward"),
        (come_again, "finished_comes_not_again"),
        (tell_late, "stale_leases_are_refused"),
        (inherit, "first_failure_spends_first_retry"),
        (bury_unseen, "dead_letters_were_received"),
        (bury_at_once, "dead_letters_have_a_reason"),
    ],
)
def test_a_story_with_one_thing_wrong_does_not(story: Evidence, wrong: Callable[[Evidence], None], check: str) -> None:
    wrong(story)
    assert check in {violation.partition(":")[0] for violation in checker.check(story)}


def test_a_seek_is_a_reason(story: Evidence) -> None:
    go_back(story)
    come_again(story)
    story.seeks["q0", "g", "p0"].append((2.9, 3.1))
    assert {violation.partition(":")[0] for violation in checker.check(story)} == {"batches_are_as_granted"}


def test_what_was_damaged_on_disk_is_excused(story: Evidence) -> None:
    story.accepted["q0", "p0", "gone"] = 1.0
    story.excused.add("gone")
    assert checker.check(story) == []
