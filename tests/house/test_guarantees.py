"""Every promise names a test that `make test` runs, and a planted defect that makes this test fail."""

from __future__ import annotations

import re

from tests.mutants.defects import all_defects
from tests.support.functions import has_test, marks_of
from tests.support.tree import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
ROW = re.compile(r"\| .+ \| .+ \| `(tests/[\w/]+\.py::\w+)` \| `([a-z0-9-]+)` \|")
HEAD = "| situation | what you get | proof | a defect it notices |"
# Lines that still name a file, and no defect.
MOST_LOOSE = 15
NOT_RUN = {"scale", "skip", "skipif", "xfail"}


def promises() -> list[tuple[str, str]]:
    """The test and the defect of each line."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and line != HEAD]
    found = [ROW.fullmatch(line) for line in lines]
    loose = [line for line, match in zip(lines, found, strict=True) if match is None]
    assert len(loose) <= MOST_LOOSE, loose
    return [(match[1], match[2]) for match in found if match is not None]


def test_every_promise_names_a_test_that_make_test_runs() -> None:
    assert len(promises()) > 100
    named = set(re.findall(r"`(tests/[\w/]+\.py::[^`]*)`", PAGE))
    assert {test for test in named if not has_test(test)} == set()
    assert {test for test in named if marks_of(test) & NOT_RUN} == set()


def test_every_promise_names_a_defect_that_its_test_notices() -> None:
    defects = all_defects()
    assert {defect for _, defect in promises()} - defects.keys() == set()
    blind = [
        f"{test} beside {name}"
        for test, name in promises()
        if not any(seen == test or seen.startswith(f"{test}[") for seen in defects[name].noticed_by)
    ]
    assert blind == []
