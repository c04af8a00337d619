"""The transactional outbox: a row of yours and a message commit together. Needs a database: QUEEN_URL=postgresql://..."""

import asyncio
import os

import asyncpg

import queen


async def main() -> None:
    url = os.environ["QUEEN_URL"]
    connection = await asyncpg.connect(url)
    await connection.execute("create table if not exists invoices (id integer primary key)")
    async with queen.connect(url) as q:
        for number, solvent in ((1, False), (2, True)):
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("insert into invoices values ($1)", number)
            await q.push("invoices", {"id": number}, partition="acme", connection=connection)
            await (transaction.commit() if solvent else transaction.rollback())
        print("rows:", [row["id"] for row in await connection.fetch("select id from invoices")])
        print("messages:", [message.data for message in await q.pop("invoices", batch=10)])
    await connection.close()


asyncio.run(main())
