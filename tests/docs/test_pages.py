from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tree import ROOT

# Those of the README, the quickstart and the how-tos run one after the other: see test_in_order.
PAGES = [ROOT / "docs" / "reference" / "sql.md"]
RUNNABLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
BLOCKS = [
    pytest.param(code, printed, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (code, printed) in enumerate(RUNNABLE.findall(page.read_text()), 1)
]


@pytest.mark.parametrize(("code", "printed"), BLOCKS)
def test_a_program_on_a_page_prints_what_the_page_says(code: str, printed: str, database: str, tmp_path: Path) -> None:
    assert run(code, database, tmp_path) == printed


def run(code: str, database: str, directory: Path) -> str:
    file = directory / "page.py"
    file.write_text(code)
    command = [sys.executable, "-W", "error", str(file)]
    environment = {**os.environ, "QUEEN_URL": database}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "bench" / "README.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in re.findall(r"\]\((?!http)([^)#]+)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert broken == []
