"""The saga: its worker is killed in the middle, and it ends right."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "30_saga.py"


async def test_the_saga_ends_right_after_a_kill(store_url: str) -> None:
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE),
        "--store",
        store_url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(running.communicate(), 90)
    assert running.returncode == 0, err.decode()
    lines = out.decode().splitlines()
    assert re.fullmatch(r"killed the worker after [1-9]\d* effects", lines[0])
    assert lines[1:4] == [
        "ann: parcel-ann",
        "bob: taken back: Activity 'ship' call failed: ValueError: no such place",
        "cem: parcel-cem",
    ]
    assert lines[4:] == [
        "ann charged 100",
        "ann reserved",
        "ann shipped to paris",
        "bob charged 200",
        "bob refunded 200",
        "bob released",
        "bob reserved",
        "cem charged 300",
        "cem reserved",
        "cem shipped to izmir",
    ]
