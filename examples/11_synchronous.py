"""The same client without async: generated from the asynchronous one, so nothing is missing."""

from dataclasses import dataclass

import queen


@dataclass
class Order:
    number: int


with queen.connect_sync() as q:
    q.push_many("tickets", [Order(1), Order(2), Order(3)])

    def bill(message: queen.SyncMessage[Order]) -> None:
        q.push("ticket-invoices", {"of": message.data.number})

    print("billed:", q.consume("tickets", bill, limit=2).handled)
    for message in q.messages("tickets", data=Order, limit=1):
        print("by hand:", message.data)
    with q.transaction() as transaction:
        transaction.push("ticket-invoices", {"of": 3})
    print("invoices:", [message.data["of"] for message in q.pop("ticket-invoices", batch=10)])
