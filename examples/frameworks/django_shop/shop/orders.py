"""What views call to take an order."""

from __future__ import annotations

from django.db import connection, transaction
from tasks import send

from shop.models import Order


def take(customer: str, number: int) -> None:
    """Store an order and push its mail after the commit: a broker will do, but a crash in between loses the mail."""
    with transaction.atomic():
        Order.objects.create(customer=customer, number=number)
        transaction.on_commit(lambda: send.push_sync(customer, number, partition=customer))


def take_together(customer: str, number: int) -> None:
    """Store an order with its mail: both or neither, whatever happens. Needs Queen in the same database."""
    with transaction.atomic():
        Order.objects.create(customer=customer, number=number)
        send.using(partition=customer, connection=connection).push_sync(customer, number)
        if number < 0:
            raise ValueError("there is no order below 0")
