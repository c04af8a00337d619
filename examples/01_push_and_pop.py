"""Push messages, take them, acknowledge them. A repeated transaction id is stored once."""

import asyncio

import queen


async def main() -> None:
    async with queen.connect() as q:
        for attempt in (1, 2):
            pushed = await q.push("first-orders", {"order": 1}, partition="acme", transaction_id="order-1")
            print("attempt", attempt, pushed.status)
        await q.push_many("first-orders", [{"order": 2}, {"order": 3}], partition="acme")
        batch = await q.pop("first-orders", batch=10)
        for message in batch:
            print(message.partition, message.seq, message.data)
        await q.ack(batch)
        print("left:", len(await q.pop("first-orders")))


asyncio.run(main())
