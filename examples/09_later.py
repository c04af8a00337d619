"""Messages for later: kept back until their time, then pushed in order."""

import asyncio
from datetime import UTC, datetime, timedelta

import queen


async def remind(message: queen.Message[str]) -> None:
    late = datetime.now(UTC) - message.created_at
    print(message.data, "- right on time" if late < timedelta(seconds=30) else "- late")


async def main() -> None:
    async with queen.connect() as q:
        soon = datetime.now(UTC) + timedelta(seconds=1)
        print((await q.push("reminders", "stand up", deliver_at=soon)).status)
        print("now:", await q.pop("reminders"))
        await q.consume("reminders", remind, limit=1)


asyncio.run(main())
