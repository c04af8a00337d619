"""What is looked for while a run goes on: a partition in which messages wait that nobody will be woken for."""

from __future__ import annotations

import pytest

from queen.db.pool import Database
from queen.engine import Engine
from tests.support.work import connect, pop, push
from torture.defects import plant_in_database
from torture.rack import SQL
from torture.watch import ASLEEP


@pytest.mark.parametrize(("defect", "asleep"), [("", 0), ("lost wake-up", 1)])
async def test_an_ack_beside_an_open_push_leaves_nobody_asleep(database: str, defect: str, asleep: int) -> None:
    async with connect(database) as sql, connect(database) as other:
        await sql.execute((SQL / "witness.sql").read_text())
        plant_in_database(database, defect)
        async with Engine(Database(database), listen_url=None) as engine:
            await push(engine, 1)
            messages = await pop(engine)
            transaction = other.transaction()
            await transaction.start()
            await other.execute("select queen.push('q', 'p', '2')")
            await engine.ack_messages(messages)
            await transaction.commit()
            assert len(await sql.fetch(ASLEEP)) == asleep
