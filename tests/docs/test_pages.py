from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.server.running import run_broker
from tests.support.programs import find_program
from tests.support.tree import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "quickstart.md",
    ROOT / "docs" / "reference" / "sql.md",
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]
RUNNABLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
BROKER = "http://localhost:6632"
BLOCKS = [
    pytest.param(code, printed, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, (code, printed) in enumerate(RUNNABLE.findall(page.read_text()), 1)
]


@pytest.mark.parametrize(("code", "printed"), BLOCKS)
def test_a_program_on_a_page_prints_what_the_page_says(code: str, printed: str, database: str, tmp_path: Path) -> None:
    if BROKER in code:
        with run_broker(database, tmp_path) as broker:
            assert run(code.replace(BROKER, broker.url), database, tmp_path) == printed
    else:
        assert run(code, database, tmp_path) == printed


def run(code: str, database: str, directory: Path) -> str:
    file = directory / "page.py"
    file.write_text(code)
    command = [sys.executable, "-W", "error", str(file)]
    environment = {**os.environ, "QUEEN_URL": database}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_page_that_should_has_a_program() -> None:
    assert len(BLOCKS) >= 9


def test_the_shell_and_sql_of_the_readme(database: str, tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    (curl,) = [block for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "curl" in block]
    (sql,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create table invoices (customer integer, total numeric)")
        connection.execute(sql)
        row = connection.execute("select payload ->> 'total' from queen.messages").fetchone()
        assert row == ("99.50",)
    find_program("curl")
    with run_broker(database, tmp_path) as broker:
        script = curl.replace("localhost:6632", broker.url.removeprefix("http://"))
        done = subprocess.run(["sh", "-ec", script], capture_output=True, text=True, check=True, timeout=60)
    assert '"status":"queued"' in done.stdout
    assert '"orderId": 123' in done.stdout


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "bench" / "README.md", *(ROOT / "docs").rglob("*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in re.findall(r"\]\((?!http)([^)#]+)", page.read_text())
        if not (page.parent / link).exists()
    ]
    assert broken == []
