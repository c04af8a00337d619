"""Planted defects: each is put into a copy of the code, and a test that is about it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import queen

SOURCE = Path(queen.__file__).parent
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Defect:
    """What is changed in which file, and which test must notice."""

    name: str
    file: str
    old: str
    new: str
    noticed_by: str


DEFECTS = [
    Defect(
        "a child nobody awaits is not cancelled with its parent",
        "durable/replay/machine.py",
        "isinstance(each, actions.RunChild) and _wanted(each)]",
        "isinstance(each, actions.RunChild) and _wanted(each) and each.promise is None]",
        "runtime/test_never_for_ever.py::test_children_end_with_their_parent[sqlite]",
    ),
    Defect(
        "a lock may expire during the commit of a turn (SQLite)",
        "durable/providers/sqlite/orchestrator.py",
        "if store.now_ms() >= locked_until:",
        "if False:",
        "conformance/test_lock_expiry.py::test_a_lock_that_expires_during_the_commit_undoes_it_on_sqlite",
    ),
    Defect(
        "a lock may expire during the commit of a turn (PostgreSQL)",
        "sql/durable/functions/ack_turns.sql",
        "if v_expires <= queen_durable.clock_ms(p_now) then",
        "if false then",
        "conformance/test_lock_expiry.py::test_a_lock_that_expires_during_the_commit_undoes_it_on_postgres",
    ),
    Defect(
        "one more than the limit at once (SQLite)",
        "durable/providers/sqlite/limits.py",
        "taken >= wanted.concurrency",
        "taken > wanted.concurrency",
        "conformance/test_limits.py::test_at_most_so_many_at_once_in_order[sqlite]",
    ),
    Defect(
        "one more than the limit at once (PostgreSQL)",
        "sql/durable/functions/limits.sql",
        "exit when v_taken >= ",
        "exit when v_taken > ",
        "conformance/test_limits.py::test_at_most_so_many_at_once_in_order[postgres]",
    ),
    Defect(
        "a cancelled item keeps its place",
        "sql/durable/functions/limits.sql",
        "for each row when (old.limited is not null)",
        "for each row when (old.limited is not null and old.lock_token is not null)",
        "conformance/test_limits.py::test_what_is_cancelled_or_deleted_gives_its_place_up[postgres]",
    ),
    Defect(
        "a step commits its rows though its lock is lost",
        "durable/providers/postgres/steps.py",
        "if not held:",
        "if False:",
        "runtime/test_transactions.py::test_a_step_that_lost_its_lock_writes_nothing",
    ),
    Defect(
        "what a fetch is given while it is cancelled stays locked",
        "durable/providers/wake.py",
        "await give_back(waiter.untaken())",
        "pass",
        "providers/test_rides.py::test_what_a_fetch_is_given_while_it_is_cancelled_goes_back[sqlite]",
    ),
    Defect(
        "a reset loses the events that had come",
        "durable/replay/restore.py",
        "event_id=event_id, kept=True)",
        "event_id=event_id, kept=False)",
        "runtime/test_deploys.py::test_events_that_had_come_are_there_for_the_waits_that_took_them[sqlite]",
    ),
    Defect(
        "nobody is told of a cancellation elsewhere",
        "durable/providers/postgres/exchange.py",
        '+ "c" * made.cancels',
        "",
        "runtime/test_store.py::test_an_activity_elsewhere_is_told_at_once_that_it_is_cancelled[cancelled]",
    ),
    Defect(
        "a message handed over twice counts twice",
        "durable/providers/sqlite/orchestrator.py",
        "if not fresh:",
        "if False:",
        "conformance/test_queue_semantics.py",
    ),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: each.name)
def test_a_defect_can_still_be_planted(defect: Defect) -> None:
    assert defect.old in (SOURCE / defect.file).read_text(), f"{defect.file} has changed: plant the defect anew"
    assert (ROOT / "tests" / "durable" / defect.noticed_by.partition("::")[0]).exists()


@pytest.mark.scale
@pytest.mark.timeout(180)
@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: each.name)
def test_a_planted_defect_is_noticed(defect: Defect, tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "queen", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "queen" / defect.file
    file.write_text(file.read_text().replace(defect.old, defect.new))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        [*command, f"tests/durable/{defect.noticed_by}"],
        env={**environment, "PYTHONPATH": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout[-2000:]
