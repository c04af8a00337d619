"""The shop at work: orders come in at a rate, and consumers of the client move them on."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Final
from uuid import UUID

from queen.client.client import Client
from queen.client.consumer import Consumed
from queen.client.message import Message, Reject
from queen.client.push import Push
from queen.demo import shop
from queen.demo.flow import Order
from queen.demo.planted import ErrorCluster, HotKey, Planted
from queen.demo.shop import ATTEMPTS, PAYMENTS, STAGES, Stage, Weather
from queen.errors import StoreUnavailable
from queen.ids import uuid7

CUSTOMERS: Final = 100
CONCURRENCY: Final = 8
DRAIN: Final = 60.0


class Failed(Exception):
    """What a handler of the shop raises when a message runs into a defect."""


class Shop:
    """One run of the shop on a client that is open."""

    def __init__(self, client: Client, *, seed: int, plain: bool, prefix: str) -> None:
        self._client = client
        self._chance = random.Random(seed)  # noqa: S311 - a shop, not a secret
        self._customers = shop.customers_for(CUSTOMERS * 100)
        self._weather = Weather.fine() if plain else Weather.stormy(self._chance, self._customers)
        self._prefix = prefix
        self._orders: dict[str, Order] = {}
        self._under_way = 0
        self._counts: Counter[tuple[int, str]] = Counter()
        self._died: Counter[shop.Defect] = Counter()
        self._idle = asyncio.Event()
        self.planted = Planted(seed)

    async def run(self, rate: float, seconds: float) -> Planted:
        """Take orders for some seconds, then finish what is under way."""
        for stage in STAGES:
            await self._client.queues.configure(
                self._prefix + stage.queue, namespace="shop", task=stage.queue, **shop.QUEUE_OPTIONS
            )
        consumers = [asyncio.create_task(self._consume(number)) for number in range(len(STAGES))]
        consumers.append(asyncio.create_task(self._watch()))
        try:
            await self._take_orders(rate, seconds)
            await self._finish(consumers)
        finally:
            self._client.stop()
            await asyncio.gather(*consumers, return_exceptions=True)
        return self._described()

    async def _take_orders(self, rate: float, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        for number in range(round(rate * seconds)):
            await asyncio.sleep(max(0.0, started + number / rate - loop.time()))
            order = self._draw(number, number / (rate * seconds))
            await self._send(order, 0, trace=order.trace)

    async def _finish(self, consumers: list[asyncio.Task[Any]]) -> None:
        done = asyncio.create_task(self._idle.wait())
        try:
            async with asyncio.timeout(DRAIN):
                ended, _ = await asyncio.wait({done, *consumers}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise StoreUnavailable(f"{self._under_way} messages of the shop were not handled in time") from None
        finally:
            done.cancel()
        for task in ended - {done}:
            task.result()

    def _draw(self, number: int, share: float) -> Order:
        chance, weather = self._chance, self._weather
        version = shop.VERSIONS[share >= shop.RELEASE]
        customer = shop.pick_customer(chance, self._customers, weather.hot)
        order = Order(uuid7(), f"o-{number:06}", customer, version, 0, shop.pick_shape(chance))
        order.defect = shop.pick_defect(chance, order.shape, version, share, weather)
        if order.defect is not None:
            order.shape = shop.cut(order.shape, order.defect.stage)
        order.broken = order.defect is None and chance.random() < weather.broken
        if order.broken:
            self.planted.broken_traces.append(str(order.trace))
        self._orders[order.number] = order
        self.planted.traces += 1
        return order

    async def _send(self, order: Order, place: int, trace: UUID | None = None) -> None:
        """Push one message of an order; while another is handled, the client links the two."""
        stage = order.shape[place][0]
        payload = shop.details(self._chance, stage, order.number, order.customer, order.version) | {"place": place}
        parent = uuid7() if order.broken and stage == PAYMENTS else None
        queue, partition = self._prefix + STAGES[stage].queue, str(payload[STAGES[stage].by])
        key = f"{order.trace}:{place}"
        (pushed,) = await self._client.push_all([Push(queue, payload, partition, key, trace, parent)])
        if pushed.status == "queued":
            self._under_way += 1
            self._idle.clear()
            self._counts[stage, order.customer] += 1
            self.planted.messages += 1

    def _consume(self, number: int) -> Coroutine[Any, Any, Consumed]:
        stage = STAGES[number]

        async def handle(message: Message[Any]) -> None:
            await self._handle(number, stage, message)

        return self._client.consume(
            self._prefix + stage.queue,
            handle,
            group=stage.group,
            prefetch=stage.batch,
            concurrency=CONCURRENCY,
            signals=False,
        )

    def _watch(self) -> Coroutine[Any, Any, Consumed]:
        async def look(message: Message[Any]) -> None:
            _ = message.data

        queue = self._prefix + STAGES[shop.ORDERS].queue
        return self._client.consume(queue, look, group=shop.WATCHERS, prefetch=100, signals=False)

    async def _handle(self, number: int, stage: Stage, message: Message[Any]) -> None:
        order = self._orders.get(message.data["order"])
        if order is None or order.trace != message.trace_id:
            return  # of an earlier run
        await asyncio.sleep(self._chance.lognormvariate(0, 0.5) * stage.work / 2)
        defect = order.defect
        if defect is not None and defect.stage == number:
            self._fail(defect, order, message)
        for place, (_, parent) in enumerate(order.shape):
            if parent == message.data["place"]:
                await self._send(order, place)
        self._settle()

    def _fail(self, defect: shop.Defect, order: Order, message: Message[Any]) -> None:
        text = defect.text(self._chance, order.number)
        kind, _, rest = text.partition(": ")
        if defect.rejected or message.retry_count >= ATTEMPTS - 1:
            self._died[defect] += 1
            self._settle()
        raise type(kind, (Reject if defect.rejected else Failed,), {})(rest)

    def _settle(self) -> None:
        self._under_way -= 1
        if self._under_way == 0:
            self._idle.set()

    def _described(self) -> Planted:
        planted = self.planted
        planted.dead_letters = sum(self._died.values())
        planted.error_clusters = [
            ErrorCluster(STAGES[defect.stage].queue, defect.version, defect.normalised, count)
            for defect, count in self._died.most_common()
        ]
        planted.hot_keys = [
            HotKey(stage.queue, "customer", customer, self._counts[number, customer])
            for number, stage in enumerate(STAGES)
            for customer in self._weather.hot
        ]
        return planted
