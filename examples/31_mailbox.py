"""A mailbox without workflows: orders of each customer are added up, one customer at a time, each order exactly once.

    python examples/31_mailbox.py [--store sqlite:///totals.db]

Two workers share the queue. The key of a message is its customer: all waiting orders of one customer come together,
and nobody else gets that customer until they are acknowledged. The ack stores the new total and sends the receipt in
the same transaction; a worker that dies before it leaves nothing behind, and another one takes the customer over.
"""

from __future__ import annotations

import argparse
import asyncio
import json

from queen.durable import Mailbox, Outgoing, StoredEvent, UnitOfWork, open_mailbox

ORDERS = [("ann", 5), ("bob", 7), ("ann", 20), ("cem", 1), ("bob", 3), ("ann", 75)]


async def total_of(mailbox: Mailbox, customer: str) -> tuple[int, int]:
    """How many totals were stored for a customer, and the last one."""
    stored = await mailbox.read_events(customer)
    return len(stored), json.loads(stored[-1].data)["total"] if stored else 0


async def add_up(mailbox: Mailbox) -> None:
    while batch := await mailbox.dequeue_batch("orders", lock_timeout_ms=10_000):
        customer = batch.routing_key or ""
        count, total = await total_of(mailbox, customer)
        total += sum(json.loads(message.body)["cents"] for message in batch.messages)
        receipt = json.dumps({"customer": customer, "total": total}).encode()
        await mailbox.ack(
            batch.lock_token,
            UnitOfWork(
                events=(StoredEvent(customer, 1, count + 1, "Total", json.dumps({"total": total})),),
                outgoing=(Outgoing("receipts", None, receipt),),
            ),
        )


async def main(store: str) -> None:
    async with await open_mailbox(store) as mailbox:
        for customer, cents in ORDERS:
            await mailbox.enqueue("orders", customer, json.dumps({"cents": cents}).encode())
        dropped = await mailbox.dequeue_batch("orders", lock_timeout_ms=50)
        assert dropped is not None
        print(f"a worker takes {len(dropped.messages)} orders of {dropped.routing_key} and dies")
        while not all([(await total_of(mailbox, name))[1] for name in ("ann", "bob", "cem")]):
            await asyncio.gather(add_up(mailbox), add_up(mailbox))
            await asyncio.sleep(0.01)
        for customer in ("ann", "bob", "cem"):
            print(customer, (await total_of(mailbox, customer))[1])
        receipts = 0
        while batch := await mailbox.dequeue_batch("receipts"):
            receipts += len(batch.messages)
            await mailbox.ack(batch.lock_token)
        print(f"{receipts} receipts")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", default="sqlite::memory:")
    asyncio.run(main(parser.parse_args().store))
