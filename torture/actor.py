"""What every part of a client process has: its client, its history, its chances, and when to end."""

from __future__ import annotations

import asyncio
import random
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from queen.client.client import Client
from queen.errors import QueenError
from queen.ids import as_callers
from queen.model import NewMessage
from torture.history import History
from torture.plan import ActorPlan, Plan, QueuePlan

Phase = Literal["run", "crowded", "rush", "drain", "end"]
TROUBLE = (QueenError, OSError, TimeoutError)


@dataclass(slots=True)
class Context:
    """What the actors of one process share."""

    plan: Plan
    client: Client
    history: History
    name: str
    database: str
    over_http: bool
    phase_file: Path
    phase: Phase = "run"

    def name_of(self, item: NewMessage) -> str:
        """The transaction id a message will have."""
        if item.transaction_id is not None:
            return item.transaction_id
        assert item.id is not None
        return as_callers(item.id) if self.over_http else str(item.id)

    async def watch(self) -> None:
        """Follow the phase of the run, until it ends."""
        while self.phase != "end":
            text = self.phase_file.read_text()
            if text in ("run", "crowded", "rush", "drain", "end"):
                self.phase = text  # type: ignore[assignment]
            await asyncio.sleep(0.1)


class Actor:
    """One thing that a process does."""

    def __init__(self, context: Context, plan: ActorPlan, number: int) -> None:
        self.context = context
        self.plan = plan
        self.name = f"{context.name}.{number}"
        self.client = context.client
        self.history = context.history
        self.rng = random.Random(f"{plan.seed}-{context.name}")

    @property
    def queue(self) -> QueuePlan:
        """The queue it is about."""
        return next(queue for queue in self.context.plan.queues if queue.name == self.plan.queue)

    @property
    def running(self) -> bool:
        """Whether new work is made."""
        return self.context.phase in ("run", "crowded", "rush")

    @property
    def consuming(self) -> bool:
        """Whether work is done."""
        return self.context.phase != "end"

    async def room(self) -> None:
        """Wait while more is left to do than consumers get through soon."""
        while self.context.phase == "crowded":
            await asyncio.sleep(0.1)

    async def pause(self, least: float, most: float) -> None:
        """Do nothing for a moment."""
        await asyncio.sleep(self.rng.uniform(least, most))

    async def run(self) -> None:
        """Act until the run is over."""
        raise NotImplementedError


def never_succeeds(name: str) -> bool:
    """Some messages fail whoever has them, however often."""
    return zlib.crc32(name.encode()) % 37 == 0
