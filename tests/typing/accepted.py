"""A typed application: everything here is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from msgspec import Struct

import queen


class Order(Struct):
    number: int
    customer: str


@dataclass
class Invoice:
    order: int
    total: float


async def produce(q: queen.Client) -> UUID:
    pushed: queen.Pushed = await q.push("orders", Order(1, "acme"), partition="acme", transaction_id="o-1")
    if pushed.status == "duplicate":
        return pushed.id
    many: list[queen.Pushed] = await q.push_many("orders", [Order(2, "acme"), {"number": 3, "customer": "x"}])
    await q.push_all([queen.Push("orders", Order(4, "acme"), partition="acme")], wait_for_room=5)
    async with q.buffer(count=100, delay=0.5) as buffer:
        await buffer.push("orders", Order(5, "acme"), deliver_at=datetime.now(UTC))
    return many[0].id


async def outbox(q: queen.Client, connection: object) -> UUID:
    return await q.push("orders", Order(1, "acme"), connection=connection)


async def take(q: queen.Client) -> int:
    orders = await q.pop("orders", batch=10, data=Order, wait=1.5)
    total = sum(message.data.number for message in orders)
    await q.ack([message.completed() if message.data.customer else message.failed("nobody") for message in orders])
    for plain in await q.pop("orders"):
        total += plain.data["number"]
    async with q.transaction() as transaction:
        transaction.push("invoices", Invoice(1, 2.0))
        transaction.ack(orders)
    return total


async def bill(message: queen.Message[Order]) -> None:
    number: int = message.data.number
    await message.trace("billed", {"number": number})


async def store(messages: list[queen.Message[Invoice]]) -> Sequence[queen.Outcome] | None:
    return [message.failed("too much") for message in messages if message.data.total > 100]


async def consume(q: queen.Client) -> int:
    done: queen.Consumed = await q.consume("orders", bill, group="billing", prefetch=100, concurrency=8)
    await q.consume_batches("invoices", store, batch=50)

    @q.consumer("orders", group="mails", start="new")
    async def mail(message: queen.Message[Order]) -> None:
        _: str = message.data.customer

    async for message in q.messages("orders", data=Order, limit=3):
        _: str = message.data.customer
    return done.handled


def synchronous(q: queen.SyncClient) -> int:
    def handle(message: queen.SyncMessage[Order]) -> None:
        message.trace("seen")

    q.push("orders", Order(1, "acme"))
    (first, *_) = q.pop("orders", data=Order)
    q.ack(first)
    return q.consume("orders", handle, limit=1).handled + first.data.number


async def main() -> None:
    async with queen.connect("postgresql://localhost/queen") as q:
        try:
            await produce(q)
        except queen.QueueFull as error:
            _: str = error.code
    with queen.connect_sync(["http://a:6632", "http://b:6632"], token="t") as sync:
        synchronous(sync)


app = queen.App("http://localhost:6632")


@app.task(queue="mail", retry=queen.Backoff(attempts=8, give_up=(ValueError,)), time_limit=30, unique=True)
async def send(to: str, template: str = "welcome") -> int:
    return len(to + template)


@app.task()
def plain(order: Order) -> Invoice:
    return Invoice(order.number, 1.0)


@app.every("*/5 * * * *", zone="Europe/Berlin")
async def sweep() -> None: ...


@app.on_dead_letter
def told(running: object, error: Exception) -> None: ...


async def tasks() -> float:
    job: queen.Job[int] = await send.push("a@b.c", template="hello")
    await send.push("a@b.c", "welcome", partition="a@b.c", delay=60)
    await send.using(partition="a@b.c", keep_result=True).push("a@b.c")
    characters: int = await send.push("a@b.c").result(timeout=5)
    invoice: Invoice = await plain.push(Order(1, "acme")).result()
    queued: queen.Job[Invoice] = plain.push_sync(Order(1, "acme"))
    if await job.cancel() or queued.status == "duplicate":
        return invoice.total
    async with app.running(concurrency=4):
        await sweep.push()
    await app.run(queues=["mail"], concurrency=20)
    return characters
