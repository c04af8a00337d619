"""Traces: messages pushed while another one is handled carry its trace id and know their parent."""

import asyncio
from uuid import uuid4

import queen


async def main() -> None:
    trace = uuid4()
    async with queen.connect() as q:
        await q.push("trips", {"order": 1}, trace_id=trace)

        async def charge(message: queen.Message[dict[str, int]]) -> None:
            await message.trace("charged", {"amount": 12})
            await q.push("trip-parcels", message.data)

        async def ship(message: queen.Message[dict[str, int]]) -> None:
            await message.trace("shipped", {"by": "train"})

        await q.consume("trips", charge, limit=1)
        await q.consume("trip-parcels", ship, limit=1)
        for message in await q.trace(trace):
            notes = [(note.event, note.data) for note in message.notes]
            print(message.queue, "<- first" if message.parent_id is None else "<- followed", notes)


asyncio.run(main())
