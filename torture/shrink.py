"""A failing plan made smaller: less that breaks, fewer clients, a shorter run, as long as the same check fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from torture.plan import Plan
from torture.run import Verdict, run

SPARE = ("operator", "outbox", "starter", "matching")


async def shrink(plan: Plan, kinds: set[str], folder: Path, limit: float, tell: Callable[[str], None]) -> Plan:
    """The smallest plan found within `limit` seconds that still breaks one of the same checks; kept in the folder."""
    deadline = time.monotonic() + limit
    smaller = True
    turn = 0
    while smaller:
        smaller = False
        for word, candidate in candidates(plan):
            if time.monotonic() + 1.5 * candidate.seconds + 60 > deadline:
                break
            turn += 1
            verdict = await _try(candidate, folder / f"shrink-{turn}")
            same = bool(verdict.kinds & kinds)
            tell(f"  {word}: {'still fails' if same else 'holds'}")
            if same:
                plan, smaller = candidate, True
                break
    (folder / "shrunk.json").write_bytes(msgspec.json.format(msgspec.json.encode(plan)))
    return plan


async def _try(plan: Plan, folder: Path) -> Verdict:
    try:
        return await run(plan, folder)
    except (OSError, TimeoutError) as error:
        return Verdict(violations=[f"rack: {error}"])


def candidates(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Smaller plans, the ones that save most first."""
    half = len(plan.acts) // 2
    if plan.seconds > 10:
        end = plan.seconds / 2
        acts = [act for act in plan.acts if act.at < end]
        yield f"{end:g} s", msgspec.structs.replace(plan, seconds=end, acts=acts)
    if half:
        yield f"the first {half} acts", msgspec.structs.replace(plan, acts=plan.acts[:half])
        yield f"the last {len(plan.acts) - half} acts", msgspec.structs.replace(plan, acts=plan.acts[half:])
    for kind in sorted({act.kind for act in plan.acts}):
        left = [act for act in plan.acts if act.kind != kind]
        yield f"without {kind}", msgspec.structs.replace(plan, acts=left)
    for kind in SPARE:
        clients = [
            msgspec.structs.replace(client, actors=[actor for actor in client.actors if actor.kind != kind])
            for client in plan.clients
        ]
        if clients != plan.clients:
            yield f"without {kind}", msgspec.structs.replace(plan, clients=clients)
    if plan.workers:
        acts = [act for act in plan.acts if not act.target.startswith("worker")]
        clients = [
            msgspec.structs.replace(client, actors=[actor for actor in client.actors if actor.kind != "starter"])
            for client in plan.clients
        ]
        yield "without workflows", msgspec.structs.replace(plan, workers=0, acts=acts, clients=clients)
