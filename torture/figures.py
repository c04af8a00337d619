"""Figures beside a recount: depth, lag and totals by every way to ask, with work left and nobody at it."""

from __future__ import annotations

import asyncpg

import queen
from queen.client.client import Client
from torture.rack import SQL, Rack

LEFT = 7


async def compare(rack: Rack, direct: Client) -> list[str]:
    """What is wrong with the figures."""
    for queue in rack.plan.queues:
        for number in range(queue.partitions):
            await direct.push_many(queue.name, [{"left": n} for n in range(LEFT)], partition=f"p{number}")
    connection = await asyncpg.connect(rack.dsn, timeout=10)
    try:
        rows = await connection.fetch((SQL / "recount.sql").read_text())
        lags = {(row["queue"], row["consumer_group"]): row["lag"] for row in rows}
        rows = await connection.fetch((SQL / "depths.sql").read_text())
        depths = {row["queue"]: (row["waiting"], row["kept"]) for row in rows}
        unpassed = {row["queue"]: row["unpassed"] for row in rows}
        rows = await connection.fetch("select queue_name, current_depth from queen.queue_depths")
        view = {row["queue_name"]: row["current_depth"] for row in rows}
    finally:
        await connection.close()
    found = [
        f"figures: queue_depths says {view[name]} for {name}, not {depth}"
        for name, depth in unpassed.items()
        if view[name] != depth
    ]
    found += await _ask(direct, "direct", lags, depths)
    for name, port in rack.ports.items():
        async with queen.connect(f"http://127.0.0.1:{port}") as client:
            found += await _ask(client, f"broker {name}", lags, depths)
    return found


async def _ask(
    client: Client, way: str, lags: dict[tuple[str, str], int], depths: dict[str, tuple[int, int]]
) -> list[str]:
    said: dict[object, object] = {one.name: (one.depth, one.total) for one in await client.queues.list()}
    said |= {(one.queue, one.group): one.lag for one in await client.groups.list()}
    expected: dict[object, object] = {name: figures for name, figures in depths.items()}  # noqa: C416 - keys of two kinds
    expected.update(lags)
    return [
        f"figures: {way} says {said.get(about)} for {about}, not {figure}"
        for about, figure in expected.items()
        if said.get(about) != figure
    ]
