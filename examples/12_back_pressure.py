"""A limited queue refuses what does not fit; a producer may wait for room. A buffer pushes by count and time."""

import asyncio

import queen


async def main() -> None:
    async with queen.connect() as q:
        await q.queues.configure("jobs", max_queue_size=3)
        async with q.buffer(count=2, delay=0.1) as buffer:
            for number in range(3):
                await buffer.push("jobs", number)
        try:
            await q.push("jobs", 3)
        except queen.QueueFull as error:
            print(error.code, "retryable:", error.retryable, "depth:", error.figures["depth"])

        waiting = asyncio.create_task(q.push("jobs", 3, wait_for_room=30))
        await q.ack(await q.pop("jobs", batch=2))
        print("with room:", (await waiting).status)
        print("jobs:", [message.data for message in await q.pop("jobs", batch=10)])


asyncio.run(main())
