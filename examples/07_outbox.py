"""The transactional outbox: a row of yours and a message commit together. Needs the database itself:

QUEEN_DATABASE_URL=$(queen url --database) python examples/07_outbox.py
"""

import asyncio
import os

import asyncpg

import queen


async def main() -> None:
    url = os.environ.get("QUEEN_DATABASE_URL") or os.environ["QUEEN_URL"]
    connection = await asyncpg.connect(url)
    await connection.execute("create table if not exists ledger (id integer primary key)")
    async with queen.connect(url) as q:
        for number, solvent in ((1, False), (2, True)):
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute("insert into ledger values ($1)", number)
            await q.push("ledger", {"id": number}, partition="acme", connection=connection)
            await (transaction.commit() if solvent else transaction.rollback())
        print("rows:", [row["id"] for row in await connection.fetch("select id from ledger")])
        print("messages:", [message.data for message in await q.pop("ledger", batch=10)])
    await connection.close()


asyncio.run(main())
