"""One run: set up, let everything happen at once, heal, drain, and check."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import httpx2
import msgspec

import queen
from queen.durable import WorkflowClient, open_provider
from queen.errors import QueenError
from torture import stream
from torture.checker import check
from torture.evidence import Evidence
from torture.figures import compare
from torture.history import History, read
from torture.nemesis import Nemesis
from torture.plan import ASIDE, Plan
from torture.rack import KEY, SQL, Rack
from torture.watch import Watch
from torture.workflow import STEPS, journey

# Without any progress; a loaded machine may take its time.
STUCK = 60.0
DRAIN_LIMIT = 300.0
END_LIMIT = 120.0


@dataclass(slots=True)
class Verdict:
    """What a run came to."""

    violations: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def kinds(self) -> set[str]:
        """Which checks found something."""
        return {violation.partition(":")[0] for violation in self.violations}


async def run(plan: Plan, folder: Path) -> Verdict:
    """Run a plan; histories, logs and samples stay in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_bytes(msgspec.json.format(msgspec.json.encode(plan)))
    verdict = Verdict()
    started = time.monotonic()
    history = History(folder / "conductor.history")
    rack = Rack(plan, folder, history)
    watch = Watch(rack, folder)
    try:
        await rack.open()
        watching = asyncio.create_task(watch.run())
        try:
            await _torment(rack, verdict)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        await _judge(rack, folder, verdict)
    finally:
        await rack.close()
        watch.close()
        history.close()
    verdict.violations += watch.violations
    verdict.seconds = time.monotonic() - started
    (folder / "violations.txt").write_text("".join(f"{one}\n" for one in verdict.violations))
    return verdict


async def _torment(rack: Rack, verdict: Verdict) -> None:
    nemesis = Nemesis(rack)
    await nemesis.run()
    await nemesis.heal()
    verdict.violations += nemesis.troubles
    for name in rack.ports:
        await rack.until_serving(name)
    for queue in rack.plan.queues:
        await rack.configure(queue)
    (rack.folder / "phase").write_text("drain")
    rack.history.note("drain")
    await _drain(rack, verdict)
    if rack.plan.spark:
        await _until_streamed(rack, verdict)
    (rack.folder / "phase").write_text("end")
    for _ in range(int(END_LIMIT / 0.1)):
        if all(rack.processes[client.name].exit_code is not None for client in rack.plan.clients):
            return
        await asyncio.sleep(0.1)
    late = [client.name for client in rack.plan.clients if rack.processes[client.name].exit_code is None]
    for name in late:
        rack.processes[name].signal(signal.SIGUSR1)  # it prints where its tasks are
    await asyncio.sleep(1)
    verdict.violations.append(f"ends: {late} do not end")


async def _drain(rack: Rack, verdict: Verdict) -> None:
    """Everything that waits is done once nothing breaks any more, in a time that leases and delays explain."""
    undone, stuck = (SQL / "undone.sql").read_text(), (SQL / "stuck.sql").read_text()
    deadline = time.monotonic() + STUCK
    last = time.monotonic() + DRAIN_LIMIT
    connection = await asyncpg.connect(rack.dsn, timeout=10)
    try:
        left: tuple[int, int, int] | None = None
        while time.monotonic() < min(deadline, last):
            row = await connection.fetchrow(undone, list(ASIDE))
            assert row is not None
            buffered = await _buffered(rack)
            now_left = (row["waiting"], row["scheduled"], buffered)
            if now_left != left:
                left, deadline = now_left, time.monotonic() + STUCK
                rack.history.note("left", *left)
            if left == (0, 0, 0):
                return
            await asyncio.sleep(0.25)
        why = "it takes too long" if time.monotonic() >= last else "it does not get less"
        verdict.violations.append(f"stuck: {left} are left, and {why} (waiting, scheduled, buffered)")
        verdict.violations += [f"stuck: {dict(row)}" for row in await connection.fetch(stuck, list(ASIDE))]
    finally:
        await connection.close()


async def _until_streamed(rack: Rack, verdict: Verdict) -> None:
    deadline = time.monotonic() + 3 * STUCK
    while (different := await stream.compare(rack.dsn)) and time.monotonic() < deadline:
        await asyncio.sleep(1)
    verdict.violations += different


async def _buffered(rack: Rack) -> int:
    total = 0
    async with httpx2.AsyncClient(timeout=20, trust_env=False) as client:
        for port in rack.ports.values():
            answer = await client.get(f"http://127.0.0.1:{port}/api/v1/system/maintenance")
            total += int(answer.json()["bufferedMessages"])
    return total


async def _judge(rack: Rack, folder: Path, verdict: Verdict) -> None:
    evidence = Evidence(rack.plan, folder)
    await evidence.load(rack.dsn, folder)
    verdict.violations += check(evidence)
    verdict.violations += await _check_workflows(rack, evidence)
    async with queen.connect(rack.dsn, encryption_keys=[KEY]) as client:
        verdict.violations += await compare(rack, client)
    verdict.figures = {
        "accepted": len(evidence.accepted),
        "stored": sum(map(len, evidence.stored.values())),
        "batches": len(evidence.batches),
        "delivered": sum(len(batch.names) for batch in evidence.batches),
        "leases": sum(map(len, evidence.grants.values())),
        "dead letters": len(evidence.letters),
        "damaged or parked": len(evidence.excused),
        "seeks": sum(map(len, evidence.seeks.values())),
        "workflows": len(evidence.started),
        "acts": len(evidence.acts),
    }


async def _check_workflows(rack: Rack, evidence: Evidence) -> list[str]:
    """Every instance that was started ends, with results that belong to runs of its steps, each used once."""
    found: list[str] = []
    used: dict[str, str] = {}
    deadline = time.monotonic() + END_LIMIT
    async with await open_provider(rack.dsn) as provider:
        client = WorkflowClient(provider)
        for name in sorted(evidence.started):
            try:
                tokens = await client.handle(journey, name).result(max(1.0, deadline - time.monotonic()))
            except QueenError as error:
                found.append(f"workflows: {name}: {type(error).__name__} {error}")
                continue
            if len(tokens) != STEPS:
                found.append(f"workflows: {name} came to {len(tokens)} results, not {STEPS}")
            for token in tokens:
                if token in used:
                    found.append(f"workflows: {token} is a result of {name} and of {used[token]}")
                used[token] = name
    effects = _effects(rack)
    found += [f"workflows: {token} of {name} is of no step" for token, name in used.items() if token not in effects]
    keys = [effects[token] for token in used if token in effects]
    if len(keys) != len(set(keys)):
        found.append("workflows: two results have one idempotency key")
    return found


def _effects(rack: Rack) -> dict[str, str]:
    """The runs of steps: token to idempotency key; workers go on after the first look at the histories."""
    return {note.fields[2]: note.fields[1] for note in read(rack.folder) if note.kind == "effect"}
