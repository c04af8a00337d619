"""`python manage.py worker`: run the tasks, with Django's models and settings at hand."""

from __future__ import annotations

import asyncio
from typing import Any

from django.core.management.base import BaseCommand
from tasks import app


class Command(BaseCommand):
    """Run the tasks until SIGTERM or Ctrl-C."""

    help = "Run the tasks until SIGTERM or Ctrl-C."

    def handle(self, **_options: Any) -> None:
        """Work."""
        asyncio.run(app.run(concurrency=4))
