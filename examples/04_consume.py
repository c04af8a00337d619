"""A typed consumer: an error is retried, and in the end the message is a dead letter with the error's text."""

import asyncio

from msgspec import Struct

import queen


class Order(Struct):
    number: int
    address: str | None = None


async def main() -> None:
    async with queen.connect() as q:
        await q.queues.configure("shipments", retry_limit=1)
        await q.push_many("shipments", [Order(1, "Main St"), Order(2), Order(3, "Hill Rd")])

        @q.consumer("shipments", group="shipping", prefetch=10, idle=1)
        async def ship(message: queen.Message[Order]) -> None:
            if message.data.address is None:
                print("order", message.data.number, "fails, attempt", message.retry_count + 1)
                raise ValueError("no address")
            print("order", message.data.number, "ships to", message.data.address)

        (consumed,) = await q.run()
        print("handled", consumed.handled, "failed", consumed.failed)
        for letter in await q.dead_letters.list("shipments"):
            print("dead letter:", letter.data, letter.error.splitlines()[0])


asyncio.run(main())
