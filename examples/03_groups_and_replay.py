"""Consumer groups read the same messages, each at its own pace; a group can be moved to read again."""

import asyncio

import queen


async def main() -> None:
    async with queen.connect() as q:
        await q.push_many("articles", [1, 2, 3])
        for group in ("billing", "shipping"):
            batch = await q.pop("articles", group=group, batch=2)
            await q.ack(batch)
            print(group, [message.data for message in batch])

        preview = await q.groups.seek("articles", "billing", to="start", dry_run=True)
        print("a seek would deliver again:", preview.redelivered)
        await q.groups.seek("articles", "billing", to="start")
        print("billing", [message.data for message in await q.pop("articles", group="billing", batch=10)])

        print("a late group", await q.pop("articles", group="newsletter", start="new"))
        await q.push("articles", 4)
        print("a late group", [message.data for message in await q.pop("articles", group="newsletter", batch=10)])


asyncio.run(main())
