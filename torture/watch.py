"""Looks at the rack while it runs: nothing sleeps that should be awake, nothing ends by itself, memory is bounded."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import asyncpg

from torture.history import now
from torture.plan import ASIDE
from torture.rack import SQL, Rack

MEMORY_LIMIT = 600 << 20
AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
ASLEEP = (SQL / "asleep.sql").read_text()
UNDONE = (SQL / "undone.sql").read_text()
SIZES = (SQL / "sizes.sql").read_text()


class Watch:
    """A task beside the run; what it finds wrong is in `violations`."""

    def __init__(self, rack: Rack, folder: Path) -> None:
        self._rack = rack
        self._samples = (folder / "samples.jsonl").open("a")
        self.violations: list[str] = []

    async def run(self) -> None:
        """Look at processes and at the database until cancelled."""
        async with asyncio.TaskGroup() as looking:
            looking.create_task(self._look_at_processes())
            looking.create_task(self._look_at_database())

    def close(self) -> None:
        """Keep the samples."""
        self._samples.close()

    async def _look_at_processes(self) -> None:
        while True:
            memory: dict[str, int] = {}
            for name, process in self._rack.processes.items():
                if process.wanted and process.exit_code is not None and self._rack_runs():
                    self._violated(f"{name} ended by itself ({process.exit_code}): {process.log()}")
                    process.start()
                memory[name] = process.memory()
                if memory[name] > MEMORY_LIMIT * self._rack.plan.brokers.get(name.removeprefix("broker-"), 1):
                    self._violated(f"{name} has {memory[name] >> 20} MiB in memory")
            self._sample("memory", memory)
            await asyncio.sleep(1)

    def _rack_runs(self) -> bool:
        return (self._rack.folder / "phase").read_text() != "end"

    async def _look_at_database(self) -> None:
        while True:
            try:
                connection = await asyncpg.connect(self._rack.dsn, timeout=2, command_timeout=5)
                try:
                    for turn in range(100):
                        await self._look(connection, turn)
                        await asyncio.sleep(0.1)
                finally:
                    connection.terminate()
            except AWAY:
                await asyncio.sleep(0.2)

    async def _look(self, connection: asyncpg.Connection[asyncpg.Record], turn: int) -> None:
        """One snapshot: what waits and is not due; now and then how much there is."""
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            for row in await connection.fetch(ASLEEP):
                self._violated(f"lost wake-up: {dict(row)} wait and are not ready")
            if turn % 5 == 0:
                self._make_room(await connection.fetchval(UNDONE, list(ASIDE)))
            if turn == 0:
                self._sample("sizes", {row["name"]: row["size"] for row in await connection.fetch(SIZES)})

    def _violated(self, text: str) -> None:
        self.violations.append(text)
        self._rack.history.note("violation", text)

    def _make_room(self, waiting: int) -> None:
        """So that draining ends soon: producers wait while there is more to do than this."""
        phase = self._rack.folder / "phase"
        if phase.read_text() in ("run", "crowded"):
            phase.write_text("crowded" if waiting > self._rack.plan.crowd else "run")

    def _sample(self, kind: str, figures: dict[str, Any]) -> None:
        self._samples.write(json.dumps([now(), kind, figures]) + "\n")
        self._samples.flush()
