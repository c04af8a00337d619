"""Acknowledge and push in one transaction: the step to the next queue happens once or not at all."""

import asyncio

import queen


async def main() -> None:
    async with queen.connect() as q:
        await q.push("orders", {"order": 1})
        (order,) = await q.pop("orders")
        async with q.transaction() as transaction:
            transaction.push("invoices", {"of": order.data["order"]}, partition="acme")
            transaction.push("mails", {"about": order.data["order"]})
            transaction.ack(order)
        print("invoices:", [message.data for message in await q.pop("invoices")])
        print("orders left:", len(await q.pop("orders")))

        (mail,) = await q.pop("mails")
        await q.nack(mail)
        await q.pop("mails")  # someone else has it by now
        late = q.transaction()
        late.push("archive", mail.data)
        late.ack(mail)
        try:
            await late.commit()
        except queen.LeaseLost as error:
            print("refused:", error.code)
        print("archived:", len(await q.pop("archive")))


asyncio.run(main())
