from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tree import ROOT

EXAMPLES = sorted(path for path in (ROOT / "examples").glob("[0-2][0-9]_*.py"))
EXPECTED = ROOT / "examples" / "expected"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_it_says(example: Path, database: str, tmp_path: Path) -> None:
    environment = {**os.environ, "QUEEN_URL": database}
    command = [sys.executable, "-W", "error", str(example)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (EXPECTED / f"{example.stem}.txt").read_text()


def test_every_expectation_has_its_example() -> None:
    assert {path.stem for path in EXPECTED.glob("*.txt")} == {path.stem for path in EXAMPLES}
    assert len(EXAMPLES) >= 12
