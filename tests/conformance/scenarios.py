# mypy: ignore-errors
"""What users of the published client do, with assertions on what comes back.

Runs in the client's own environment: `queen` there is the published package. Each scenario has queues
of its own and runs beside others; those of ALONE change the whole broker and run one by one.

    python scenarios.py <broker's address> <file for the report>
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from json import dumps
from pathlib import Path

import admin_scenarios
import queue_scenarios
import stream_scenarios
from surface import public, record

from queen import Queen

TOGETHER = 8
ALONE = ("maintenance", "pop_maintenance")
SCENARIOS = {
    name.removeprefix("scenario_"): scenario
    for module in (queue_scenarios, admin_scenarios, stream_scenarios)
    for name, scenario in vars(module).items()
    if name.startswith("scenario_")
}


async def attempt(name, url, places):
    try:
        async with places, asyncio.timeout(60), Queen(url) as client:
            await SCENARIOS[name](client, url)
    except Exception:  # noqa: BLE001 - the report has them all
        return traceback.format_exc()
    return None


async def main(url):
    called = set()
    record(called)
    places = asyncio.Semaphore(TOGETHER)
    together = [name for name in SCENARIOS if name not in ALONE]
    failures = dict(
        zip(together, await asyncio.gather(*(attempt(name, url, places) for name in together)), strict=True)
    )
    for name in ALONE:
        failures[name] = await attempt(name, url, places)
    return {"failures": failures, "public": public(), "called": sorted(called)}


Path(sys.argv[2]).write_text(dumps(asyncio.run(main(sys.argv[1]))), encoding="utf-8")
