"""Batches: one call for many messages, and what each outcome means."""

import asyncio
from collections.abc import Sequence

import queen


async def store(messages: list[queen.Message[int]]) -> Sequence[queen.Outcome]:
    print("batch", [message.data for message in messages])
    return [message.failed("negative") for message in messages if message.data < 0]


async def main() -> None:
    async with queen.connect() as q:
        await q.push_many("readings", [1, -2, 3, 4, 5])
        consumed = await q.consume_batches("readings", store, batch=3, idle=0.5)
        print("handled", consumed.handled, "in", consumed.batches, "batches")
        print("dead letters:", [letter.data for letter in await q.dead_letters.list("readings")])


asyncio.run(main())
