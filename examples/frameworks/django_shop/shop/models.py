"""What the shop stores."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """An order."""

    customer = models.TextField()
    number = models.IntegerField()
