from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tree import ROOT

HERE = Path(__file__).parent


def complaints(checker: str, file: Path) -> set[int]:
    """The lines of a file that a checker refuses."""
    if checker == "mypy":
        command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode in (0, 1), done.stderr
        found = re.findall(rf"{re.escape(file.name)}:(\d+): error", done.stdout)
        return set(map(int, found))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    report = json.loads(done.stdout)
    return {
        entry["range"]["start"]["line"] + 1 for entry in report["generalDiagnostics"] if entry["severity"] == "error"
    }


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
@pytest.mark.parametrize("application", ["accepted", "accepted_workflows"])
def test_a_typed_application_is_accepted(checker: str, application: str) -> None:
    assert complaints(checker, HERE / f"{application}.py") == set()


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
@pytest.mark.parametrize(("application", "count"), [("rejected", 25), ("rejected_workflows", 7)])
def test_its_mistakes_are_refused(checker: str, application: str, count: int, tmp_path: Path) -> None:
    """They are kept as text, so that the checkers of the project itself do not meet them."""
    text = (HERE / f"{application}.txt").read_text()
    file = tmp_path / "rejected.py"
    file.write_text(text)
    mistakes = {number for number, line in enumerate(text.splitlines(), 1) if "# mistake:" in line}
    assert len(mistakes) == count
    assert complaints(checker, file) == mistakes
