"""The list of planted defects is what it says: each can be planted, and the tests that are to notice are there."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutants.defects import Defect, all_defects
from tests.support.functions import has_test
from tests.support.tree import SOURCE

LEAST = 120
KINDS = {"sql", "engine", "client", "server", "durable", "spark", "pipelines", "transfer", "dashboard"}


def test_there_are_many_of_every_kind() -> None:
    counts = Counter(defect.kind for defect in all_defects().values())
    assert sum(counts.values()) >= LEAST
    assert counts.keys() >= KINDS


@pytest.mark.parametrize("defect", all_defects().values(), ids=lambda defect: defect.name)
def test_a_defect_can_still_be_planted(defect: Defect) -> None:
    texts = {change.file: (SOURCE / change.file).read_text(encoding="utf-8") for change in defect.changes}
    for change in defect.changes:
        planted = change.apply(texts[change.file])
        assert planted != texts[change.file]
        texts[change.file] = planted
        if change.file.endswith(".py"):
            compile(planted, change.file, "exec")
    assert defect.breaks.endswith(".")
    assert "\n" not in defect.breaks
    assert defect.noticed_by
    assert [test for test in defect.noticed_by if not has_test(test)] == []


def test_no_two_are_the_same() -> None:
    counts = Counter((defect.changes, defect.noticed_by) for defect in all_defects().values())
    assert [defects for defects, count in counts.items() if count > 1] == []
