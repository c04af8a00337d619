"""Consumer groups read the same messages, each at its own pace; a group can be moved to read again."""

import asyncio

import queen


async def main() -> None:
    async with queen.connect() as q:
        await q.push_many("orders", [1, 2, 3])
        for group in ("billing", "shipping"):
            batch = await q.pop("orders", group=group, batch=2)
            await q.ack(batch)
            print(group, [message.data for message in batch])

        preview = await q.groups.seek("orders", "billing", to="start", dry_run=True)
        print("a seek would deliver again:", preview.redelivered)
        await q.groups.seek("orders", "billing", to="start")
        print("billing", [message.data for message in await q.pop("orders", group="billing", batch=10)])

        print("a late group", await q.pop("orders", group="newsletter", start="new"))
        await q.push("orders", 4)
        print("a late group", [message.data for message in await q.pop("orders", group="newsletter", batch=10)])


asyncio.run(main())
