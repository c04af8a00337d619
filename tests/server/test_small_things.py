"""Small promises: no error quotes what others stored, one spelling of codes, one value for one option."""

from __future__ import annotations

import asyncpg
import httpx2
import pytest

from queen.db.pool import translate
from queen.errors import InvalidRequest
from tests.server.calls import configure, push


async def test_errors_do_not_quote_what_is_stored(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("create table secrets (word text primary key); insert into secrets values ('sesame')")
        with pytest.raises(asyncpg.UniqueViolationError) as raised:
            await connection.execute("insert into secrets values ('sesame')")
        assert "sesame" in str(raised.value), "the driver says it"
        assert "sesame" not in translate(raised.value).message
    finally:
        await connection.close()


@pytest.mark.parametrize(("field", "code"), [("traceId", "TRACE_ID"), ("trace_id", "TRACE_ID"), ("queue", "QUEUE")])
def test_a_field_has_one_code_however_it_is_spelled(field: str, code: str) -> None:
    assert InvalidRequest(field, "no").code == f"INVALID_{code}"


def test_an_option_has_the_same_value_wherever_it_is_shown(api: httpx2.Client, queue: str) -> None:
    shown = [configure(api, queue, retryDelay=700)["options"]["retryDelay"]]
    (pushed,) = push(api, queue, 1)
    shown.append(api.get(f"/api/v1/queues/{queue}/options").json()["retryDelay"])
    message = api.get(f"/api/v1/messages/{pushed['partition_id']}/{pushed['transaction_id']}").json()
    shown.append(message["queueConfig"]["retryDelay"])
    assert shown == [700] * 3
