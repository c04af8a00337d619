"""Consumers of every kind: plain pops with every outcome, handlers one by one and in batches, transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from queen.client.message import HandBack, Message, Outcome, Reject
from queen.ids import uuid7
from torture.actor import TROUBLE, Actor, never_succeeds
from torture.plan import RELAYED


class Shaky(Exception):
    """A handler failed."""


class Pop(Actor):
    """Pops batches and tells everything that can be told of them."""

    async def run(self) -> None:
        """Pop until the end."""
        while self.consuming:
            try:
                found = await self._pop()
                if found:
                    await self._work(found)
            except TROUBLE:
                await self.pause(0.02, 0.1)

    async def _pop(self) -> list[Message[Any]]:
        rng = self.rng
        return await self.client.pop(
            self.plan.queue,
            group=self.plan.group,
            batch=rng.choice((1, 4, 12, 40)),
            partitions=rng.choice((1, 1, 3)),
            lease=rng.choice((None, None, 2)),
            wait=1.0,
        )

    async def _work(self, found: list[Message[Any]]) -> None:
        rng = self.rng
        await self.pause(0, 0.03)
        chance = rng.random() if self.running else 1.0
        if chance < 0.04:
            await self.pause(2.2, 5.0)  # too slow: the lease runs out, and most likely somebody else has it then
        elif chance < 0.05:
            await self.client.nack(found, delay=rng.choice((0.0, 0.1)))
            return
        elif chance < 0.07:
            await self.client.renew(found, 3)
        elif chance < 0.10:
            await self.client.ack(found, status="failed", error="all of them")
            return
        elif chance < 0.13:
            await self.client.ack([self._outcome(one) for one in found])
            return
        for batch in by_partition(found):
            await self._in_order(batch)

    async def _in_order(self, batch: list[Message[Any]]) -> None:
        """What is good up to the first that is not is done; that one failed."""
        good = 0
        while good < len(batch) and not never_succeeds(batch[good].transaction_id):
            good += 1
        if good:
            await self.client.ack(batch[:good])
        if good < len(batch):
            await self.client.ack(batch[good].failed("never"))

    def _outcome(self, message: Message[Any]) -> Outcome:
        if never_succeeds(message.transaction_id):
            return message.failed("never")
        return message.dead("unwanted") if self.rng.random() < 0.03 else message.completed()


class Matching(Pop):
    """Pops from whichever queue of the namespace comes first by priority."""

    async def _pop(self) -> list[Message[Any]]:
        return await self.client.pop(
            namespace="torture", group=self.plan.group, batch=self.rng.choice((1, 5)), wait=1.0
        )


class Consume(Actor):
    """A handler of single messages, with and without prefetching."""

    async def run(self) -> None:
        """Consume until the end; a consumer that was refused something begins again."""
        prefetch = self.rng.choice((1, 8, 50))
        while self.consuming:
            try:
                await self._until_end(prefetch)
            except TROUBLE:
                await self.pause(0.05, 0.2)

    async def _until_end(self, prefetch: int) -> None:
        consuming = asyncio.create_task(
            self.client.consume(
                self.plan.queue,
                self._handle,
                group=self.plan.group,
                prefetch=prefetch,
                concurrency=self.rng.choice((1, 3)),
                poll=1.0,
                drain=5.0,
                signals=False,
            )
        )
        try:
            while self.consuming and not consuming.done():
                await asyncio.sleep(0.1)
            if consuming.done():
                await consuming
        finally:
            consuming.cancel()
            await asyncio.gather(consuming, return_exceptions=True)

    async def _handle(self, message: Message[Any]) -> None:
        name = message.transaction_id
        self.history.note("given", message.queue, message.group, message.partition, name)
        await self.pause(0, 0.004)
        if never_succeeds(name):
            raise Shaky("never")
        chance = self.rng.random() if self.running else 1.0
        if chance < 0.01:
            raise Shaky("this time")
        if chance < 0.015:
            raise HandBack("not now", delay=self.rng.choice((0.0, 0.1)))
        if chance < 0.018:
            raise Reject("unwanted")
        if chance < 0.021:
            await self.pause(0.3, 3.0)


class Batches(Consume):
    """A handler of whole batches."""

    async def _until_end(self, prefetch: int) -> None:
        consuming = asyncio.create_task(
            self.client.consume_batches(
                self.plan.queue,
                self._handle_all,
                group=self.plan.group,
                batch=max(prefetch, 3),
                partitions=self.rng.choice((1, 2)),
                poll=1.0,
                drain=5.0,
                signals=False,
            )
        )
        try:
            while self.consuming and not consuming.done():
                await asyncio.sleep(0.1)
            if consuming.done():
                await consuming
        finally:
            consuming.cancel()
            await asyncio.gather(consuming, return_exceptions=True)

    async def _handle_all(self, messages: list[Message[Any]]) -> Sequence[Outcome]:
        await self.pause(0, 0.02)
        if self.running and self.rng.random() < 0.03:
            raise Shaky("all of them")
        return [one.failed("never") for one in messages if never_succeeds(one.transaction_id)]


class Relay(Actor):
    """Moves messages to another queue: acknowledgements and pushes in one transaction, for one message or several."""

    async def run(self) -> None:
        """Relay until the end."""
        while self.consuming:
            batch = self.rng.choice((1, 8, 30))
            try:
                found = await self.client.pop(self.plan.queue, group=self.plan.group, batch=batch, wait=1.0)
                while found:
                    count = self.rng.choice((1, 5, 30))
                    await self._relay(found[:count])
                    found = found[count:]
            except TROUBLE:
                await self.pause(0.02, 0.1)

    async def _relay(self, messages: Sequence[Message[Any]]) -> None:
        async with self.client.transaction() as transaction:
            for message in messages:
                name = f"{message.transaction_id}>{uuid7()}"
                transaction.push(RELAYED, {}, partition=message.partition, transaction_id=name)
                transaction.ack(message)


def by_partition(messages: Sequence[Message[Any]]) -> list[list[Message[Any]]]:
    """The messages of each partition, in order."""
    found: dict[str, list[Message[Any]]] = {}
    for message in messages:
        found.setdefault(f"{message.queue}/{message.partition}", []).append(message)
    return list(found.values())
