"""`python manage.py order CUSTOMER NUMBER [--together]`: take an order."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from shop.orders import take, take_together


class Command(BaseCommand):
    """Take an order."""

    help = "Take an order."

    def add_arguments(self, parser: CommandParser) -> None:
        """What to order."""
        parser.add_argument("customer")
        parser.add_argument("number", type=int)
        parser.add_argument("--together", action="store_true")

    def handle(self, customer: str, number: int, *, together: bool, **_options: Any) -> None:
        """Take it."""
        (take_together if together else take)(customer, number)
