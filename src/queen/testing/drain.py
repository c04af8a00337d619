"""Take everything that waits, for assertions."""

from __future__ import annotations

from typing import Any, Final

from queen.client._sync.client import Client as SyncClient
from queen.client._sync.message import Message as SyncMessage
from queen.client.client import Client
from queen.client.message import Message
from queen.model import QUEUE_MODE

_BATCH: Final = 1000


async def drain(client: Client, queue: str, *, group: str = QUEUE_MODE, data: Any = None) -> list[Message[Any]]:
    """Take and acknowledge all messages of a queue that can be had now, partition by partition."""
    found: list[Message[Any]] = []
    while batch := await client.pop(queue, group=group, data=data, batch=_BATCH, partitions=_BATCH):
        await client.ack(batch)
        found += batch
    return found


def drain_sync(client: SyncClient, queue: str, *, group: str = QUEUE_MODE, data: Any = None) -> list[SyncMessage[Any]]:
    """The same with a synchronous client."""
    found: list[SyncMessage[Any]] = []
    while batch := client.pop(queue, group=group, data=data, batch=_BATCH, partitions=_BATCH):
        client.ack(batch)
        found += batch
    return found
