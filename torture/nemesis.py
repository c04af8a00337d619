"""The nemesis: does to the rack what happens to machines, on schedule, and heals everything in the end."""

from __future__ import annotations

import asyncio
import random
import signal
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import httpx2

from torture.damage import damage
from torture.plan import BALLAST, Act
from torture.proxy import Mode
from torture.rack import KEY, Rack


class Nemesis:
    """Carries out the acts of a plan; on one target one act at a time."""

    def __init__(self, rack: Rack) -> None:
        self._rack = rack
        self._busy: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.troubles: list[str] = []

    async def run(self) -> None:
        """Act by act until the last one is over; then everything is as it was."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.TaskGroup() as acts:
                for act in self._rack.plan.acts:
                    await asyncio.sleep(max(0.0, started + act.at - loop.time()))
                    acts.create_task(self._act(act))
                await asyncio.sleep(max(0.0, started + self._rack.plan.seconds - loop.time()))
        finally:
            self._rack.history.note("healed")

    async def heal(self) -> None:
        """Every connection open, every clock right, no maintenance."""
        for proxy in self._rack.proxies.values():
            proxy.set("open")
        self._rack.signal_server(signal.SIGCONT)
        for process in self._rack.processes.values():
            process.signal(signal.SIGCONT)
            process.set_clock(0)
        await self._switch(on=False)

    async def _act(self, act: Act) -> None:
        await getattr(self, f"_{act.kind}")(act, random.Random(act.seed))

    async def _kill(self, act: Act, rng: random.Random) -> None:
        async with self._busy[act.target]:
            self._note(act)
            if act.target == "postgres":
                await self._kill_server(act)
                return
            process = self._rack.processes[act.target]
            if rng.random() < 0.5 and process.kill_child(rng.randrange(8)):
                return
            await asyncio.to_thread(process.kill)
            await asyncio.sleep(act.lasts)
            process.start()

    async def _kill_server(self, act: Act) -> None:
        server = self._rack.server
        assert server is not None
        if self._rack.standby is not None:
            return  # what is left of a killed primary is not the standby's to follow
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(act.lasts)
        await asyncio.to_thread(server.restart)

    async def _pause(self, act: Act, rng: random.Random) -> None:
        async with self._busy[act.target]:
            self._note(act)
            if act.target == "postgres":
                self._rack.signal_server(signal.SIGSTOP)
                await asyncio.sleep(act.lasts)
                self._rack.signal_server(signal.SIGCONT)
                return
            process = self._rack.processes[act.target]
            process.signal(signal.SIGSTOP)
            await asyncio.sleep(act.lasts)
            process.signal(signal.SIGCONT)

    async def _cut(self, act: Act, rng: random.Random) -> None:
        await self._wire(act, "cut")

    async def _slow(self, act: Act, rng: random.Random) -> None:
        await self._wire(act, "slow", rng.choice((0.005, 0.02, 0.08)))

    async def _deaf(self, act: Act, rng: random.Random) -> None:
        await self._wire(act, "deaf")

    async def _wire(self, act: Act, mode: Mode, delay: float = 0.0) -> None:
        async with self._busy[f"wire {act.target}"]:
            self._note(act)
            proxy = self._rack.proxies[act.target]
            proxy.set(mode, delay)
            await asyncio.sleep(act.lasts)
            proxy.set("open")

    async def _clock(self, act: Act, rng: random.Random) -> None:
        async with self._busy[f"clock {act.target}"]:
            self._note(act)
            process = self._rack.processes[act.target]
            process.set_clock(rng.choice((-3_600_000, -30_000, -2_000, 2_000, 30_000, 3_600_000)))
            await asyncio.sleep(act.lasts)
            process.set_clock(0)

    async def _snapshot(self, act: Act, rng: random.Random) -> None:
        """A transaction that looks once and stays open: nothing is cleaned up meanwhile."""
        self._note(act)
        await self._in_transaction(
            "select count(*) from queen.partition_consumers", act.lasts, isolation="repeatable_read"
        )

    async def _hold(self, act: Act, rng: random.Random) -> None:
        """A transaction that has pushed and does not end: its partitions are locked, and it is rolled back."""
        self._note(act)
        queue = rng.choice(
            [queue for queue in self._rack.plan.queues if not queue.options["encryption_enabled"]] or [None]
        )
        if queue is not None:
            partition = f"p{rng.randrange(queue.partitions)}"
            await self._in_transaction("select queen.push($1, $2, '{}'::jsonb)", act.lasts, queue.name, partition)

    async def _in_transaction(
        self, text: str, lasts: float, *values: object, isolation: str = "read_committed"
    ) -> None:
        try:
            connection = await asyncpg.connect(self._rack.dsn, timeout=5, command_timeout=10)
            try:
                transaction = connection.transaction(isolation=isolation)  # type: ignore[arg-type]
                await transaction.start()
                await connection.execute("set local lock_timeout = '2s'")
                await connection.fetch(text, *values)
                await asyncio.sleep(lasts)
                await transaction.rollback()
            finally:
                connection.terminate()
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return

    async def _maintenance(self, act: Act, rng: random.Random) -> None:
        """Pushes wait on the disks of the brokers for a while."""
        async with self._busy["maintenance"]:
            self._note(act)
            async with self._buffering():
                await asyncio.sleep(act.lasts)

    async def _damage(self, act: Act, rng: random.Random) -> None:
        """Bits flip in a record of the disk buffer while its broker is down."""
        name = f"broker-{act.target}"
        async with self._busy["maintenance"], self._busy[name]:
            self._note(act)
            async with self._buffering():
                await asyncio.sleep(act.lasts)
                process = self._rack.processes[name]
                await asyncio.to_thread(process.kill)
                self._rack.history.note("damaged", damage(self._rack.buffer(act.target), rng, KEY))
                process.start()
                await self._rack.until_serving(act.target)

    async def _fill(self, act: Act, rng: random.Random) -> None:
        """The disk buffer is full: pushes are refused until there is room."""
        async with self._busy["maintenance"]:
            self._note(act)
            async with self._buffering():
                await self._stuff(act.target)
                await asyncio.sleep(act.lasts)

    async def _stuff(self, broker: str) -> None:
        body = {"items": [{"queue": BALLAST, "payload": "x" * 200_000}]}
        url = f"http://127.0.0.1:{self._rack.ports[broker]}/api/v1/push"
        async with httpx2.AsyncClient(timeout=5, trust_env=False) as client:
            for _ in range(30):
                try:
                    if (await client.post(url, json=body)).status_code == 503:
                        return
                except httpx2.HTTPError:
                    await asyncio.sleep(0.1)

    @asynccontextmanager
    async def _buffering(self) -> AsyncIterator[None]:
        """Push maintenance is on within the block, and producers make haste, so that there is something on disk."""
        phase = self._rack.folder / "phase"
        await self._switch(on=True)
        phase.write_text("rush")
        try:
            yield
        finally:
            phase.write_text("run")
            await self._switch(on=False)

    async def _promote(self, act: Act, rng: random.Random) -> None:
        """The primary is gone for good; the standby takes over, and everybody is led there."""
        standby, server = self._rack.standby, self._rack.server
        assert standby is not None
        assert server is not None
        async with self._busy["postgres"], self._busy["wire postgres"]:
            self._note(act)
            await asyncio.to_thread(server.kill)
            proxy = self._rack.proxies["postgres"]
            proxy.set("cut")
            await asyncio.to_thread(standby.promote)
            proxy.target = standby.port
            proxy.set("open")

    async def _switch(self, *, on: bool) -> None:
        """By whichever broker answers: the mode is one for all of them."""
        async with httpx2.AsyncClient(timeout=5, trust_env=False) as client:
            for attempt in range(300):
                ports = list(self._rack.ports.values())
                url = f"http://127.0.0.1:{ports[attempt % len(ports)]}/api/v1/system/maintenance"
                try:
                    if (await client.post(url, json={"enabled": on})).status_code == 200:
                        return
                except httpx2.HTTPError:
                    pass
                if on and attempt > 20:
                    return
                await asyncio.sleep(0.2)
        self.troubles.append("maintenance could not be switched off")

    def _note(self, act: Act) -> None:
        self._rack.history.note("act", act.kind, act.target, act.lasts)
