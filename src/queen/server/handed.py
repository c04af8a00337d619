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

from queen.model import LeaseAck, Message

MESSAGES: Final = 200_000

Lane = tuple[UUID, int]


class Handed(Struct):
    """The messages of one partition under one lease, by transaction id."""

    queue: str
    partition: str
    group: str
    seqs: dict[str, int]


class HandedOut:
    """The leases of this process, the oldest forgotten first when there are too many messages."""

    def __init__(self, limit: int = MESSAGES) -> None:
        self._limit = limit
        self._lanes: OrderedDict[Lane, Handed] = OrderedDict()
        self._messages = 0

    def remember(self, messages: Sequence[Message]) -> None:
        """These went to a consumer."""
        handed: Handed | None = None
        lane: Lane | None = None
        for message in messages:
            if message.lease_id is None:
                return
            if lane != (message.lease_id, message.partition_id):
                lane = (message.lease_id, message.partition_id)
                handed = self._lanes.setdefault(lane, Handed(message.queue, message.partition, message.group, {}))
            assert handed is not None
            handed.seqs[message.transaction_id] = message.seq
        self._messages += len(messages)
        while self._messages > self._limit:
            self._messages -= len(self._lanes.popitem(last=False)[1].seqs)

    def find(self, lane: Lane, group: str) -> Handed | None:
        """What is known of a lane, if the group is right."""
        handed = self._lanes.get(lane)
        return handed if handed is not None and handed.group == group else None

    def settled(self, ack: LeaseAck) -> None:
        """Everything up to a seq is done: a repeated acknowledgement goes the ordinary way."""
        lane = (ack.lease_id, ack.partition_id)
        handed = self._lanes.get(lane)
        if handed is None:
            return
        left = {name: seq for name, seq in handed.seqs.items() if seq > ack.up_to}
        self._messages -= len(handed.seqs) - len(left)
        handed.seqs = left
        if not left:
            del self._lanes[lane]

    def forget(self, ack: LeaseAck) -> None:
        """The lease is lost."""
        handed = self._lanes.pop((ack.lease_id, ack.partition_id), None)
        self._messages -= len(handed.seqs) if handed else 0
