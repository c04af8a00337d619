"""Acknowledge and push in one transaction: the step to the next queue happens once or not at all."""

import asyncio

import queen


async def main() -> None:
    async with queen.connect() as q:
        await q.push("carts", {"order": 1})
        (order,) = await q.pop("carts")
        async with q.transaction() as transaction:
            transaction.push("cart-invoices", {"of": order.data["order"]}, partition="acme")
            transaction.push("cart-mails", {"about": order.data["order"]})
            transaction.ack(order)
        print("invoices:", [message.data for message in await q.pop("cart-invoices")])
        print("carts left:", len(await q.pop("carts")))

        (mail,) = await q.pop("cart-mails")
        await q.nack(mail)
        await q.pop("cart-mails")  # someone else has it by now
        late = q.transaction()
        late.push("cart-archive", mail.data)
        late.ack(mail)
        try:
            await late.commit()
        except queen.LeaseLost as error:
            print("refused:", error.code)
        print("archived:", len(await q.pop("cart-archive")))


asyncio.run(main())
