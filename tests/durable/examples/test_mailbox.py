"""The aggregator on the mailbox: what a dead worker took is added up once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "31_mailbox.py"


async def test_every_order_is_added_up_once(store_url: str) -> None:
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE),
        "--store",
        store_url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(running.communicate(), 60)
    assert running.returncode == 0, err.decode()
    assert out.decode().splitlines() == [
        "a worker takes 3 orders of ann and dies",
        "ann 100",
        "bob 10",
        "cem 1",
        "3 receipts",
    ]
