from __future__ import annotations

import pytest

from queen.durable.mailbox import StoredEvent
from queen.durable.provider import ProviderError
from queen.durable.providers.postgres.mailbox import PostgresMailbox
from queen.durable.providers.sqlite.mailbox import SqliteMailbox

AnyMailbox = SqliteMailbox | PostgresMailbox


async def test_events_come_back_in_order_per_instance_and_execution(mailbox: AnyMailbox) -> None:
    await mailbox.append([StoredEvent("a", 1, n, "K", f'"{n}"') for n in (3, 1, 2)])
    await mailbox.append([StoredEvent("b", 1, 1, "K", '"other"')])
    assert [event.data for event in await mailbox.read_events("a", 1)] == ['"1"', '"2"', '"3"']
    assert await mailbox.read_events("a", 2) == []
    assert await mailbox.read_events("nobody") == []
    assert await mailbox.latest_execution("nobody") is None


async def test_a_duplicate_refuses_the_whole_append(mailbox: AnyMailbox) -> None:
    await mailbox.append([StoredEvent("a", 1, 1, "K", "old")])
    with pytest.raises(ProviderError) as failure:
        await mailbox.append([StoredEvent("a", 1, 2, "K", "new"), StoredEvent("a", 1, 1, "K", "new")])
    assert failure.value.code == "duplicate_event"
    assert [event.data for event in await mailbox.read_events("a")] == ["old"]
