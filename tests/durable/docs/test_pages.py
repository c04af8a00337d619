"""Every Python block of every page runs, in order, as one program."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[3] / "docs" / "durable").glob("*.md"))


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def test_there_are_pages() -> None:
    assert len(PAGES) >= 5
    assert all(blocks(page) for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_a_page_runs(page: Path, tmp_path: Path) -> None:
    program = tmp_path / f"{page.stem.replace('-', '_')}.py"
    program.write_text("\n\n".join(blocks(page)))
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", str(program), stderr=asyncio.subprocess.PIPE
    )
    _, err = await asyncio.wait_for(running.communicate(), 60)
    assert running.returncode == 0, err.decode()
