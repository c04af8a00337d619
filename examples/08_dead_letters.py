"""Dead letters: look at them, push them again, with a mended payload if need be."""

import asyncio

import queen


async def main() -> None:
    async with queen.connect() as q:
        await q.push_many("letters", [{"to": "ann@example.org"}, {"to": "bob at example"}])
        good, bad = await q.pop("letters", batch=2)
        await q.ack([good, bad.dead("not an address")])

        (letter,) = await q.dead_letters.list("letters")
        print(letter.error, letter.data)
        done = await q.dead_letters.redrive(ids=[letter.id], data={"to": "bob@example.org"})
        print("redriven:", done.redriven)
        (again,) = await q.pop("letters")
        print(again.data, "follows from the first one:", again.parent_id == bad.id)


asyncio.run(main())
