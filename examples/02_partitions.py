"""Each partition is a lane of its own: strictly in order, and never held up by another one."""

import asyncio

import queen


async def main() -> None:
    async with queen.connect() as q:
        for step in ("pick", "pack", "ship"):
            for customer in ("acme", "bolt"):
                await q.push("parcels", step, partition=customer)

        slow = await q.pop("parcels", partition="acme")
        print("acme is taken:", [message.data for message in slow])
        print("more of acme:", await q.pop("parcels", partition="acme", batch=10))
        print("bolt goes on:", [message.data for message in await q.pop("parcels", batch=10)])

        await q.ack(slow)
        print("acme again:", [message.data for message in await q.pop("parcels", partition="acme", batch=10)])


asyncio.run(main())
