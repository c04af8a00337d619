"""What this process handed out lately: it turns acknowledgements by transaction id into the engine's fast form.

A batch whose messages are all completed needs no look at the messages: the lease and the highest seq say it
all. Callers name transaction ids, so the process that popped them remembers which seq each has. What it does
not know, after a restart or when another process popped, goes the ordinary way; the outcome is the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from queen.model import Message
from queen.server.wire import partition_id

MESSAGES: Final = 200_000

# A lease and a partition, as they stand on the wire.
Lane = tuple[str | None, str]


class Handed(Struct):
    """The seqs of one partition's messages under one lease, by transaction id, and the first of them."""

    first: Message
    lease_id: UUID
    seqs: dict[str, int]


class HandedOut:
    """The leases of this process, the oldest forgotten first when there are too many messages."""

    def __init__(self, limit: int = MESSAGES) -> None:
        self._limit = limit
        self._lanes: OrderedDict[Lane, Handed] = OrderedDict()
        self._messages = 0

    def remember(self, messages: Sequence[Message]) -> None:
        """These went to a consumer, all under one lease, those of a partition in a row."""
        lease = messages[0].lease_id
        if lease is None:
            return
        wire = str(lease)
        partition, seqs = -1, dict[str, int]()
        for message in messages:
            if message.partition_id != partition:
                partition, seqs = message.partition_id, {}
                self._lanes[wire, partition_id(partition)] = Handed(message, lease, seqs)
            seqs[message.transaction_id] = message.seq
        self._messages += len(messages)
        while self._messages > self._limit:
            self._messages -= len(self._lanes.popitem(last=False)[1].seqs)

    def find(self, lane: Lane, group: str) -> Handed | None:
        """What is known of a lane, if the group is right."""
        handed = self._lanes.get(lane)
        return handed if handed is not None and handed.first.group == group else None

    def settled(self, lane: Lane, up_to: int) -> None:
        """Everything up to a seq is done: a repeated acknowledgement goes the ordinary way."""
        handed = self._lanes.get(lane)
        if handed is None:
            return
        left = {name: seq for name, seq in handed.seqs.items() if seq > up_to}
        self._messages -= len(handed.seqs) - len(left)
        handed.seqs = left
        if not left:
            del self._lanes[lane]

    def forget(self, lane: Lane) -> None:
        """What was handed out of a lane is settled or lost."""
        handed = self._lanes.pop(lane, None)
        self._messages -= len(handed.seqs) if handed else 0
