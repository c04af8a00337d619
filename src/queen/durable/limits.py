"""Limits: how many of a kind may run at once, and how many may start in a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

__all__ = ["Limit", "Place", "encode_place"]

_LONGEST_KEY = 512


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run needs before it begins: a place in a group of runs. `kept`: until its execution ends."""

    group: str
    concurrency: int | None = None
    rate: int | None = None
    per_ms: int = 0
    kept: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most `concurrency` at once, and at most `rate` starts in any `per`, over all workers of a store.

    With a `key`, a function of the arguments, that many for each key. Those with the same `name` share a limit; without
    one each activity or workflow has its own. Whoever has no place waits in the store, first come, first served.

    >>> @activity(limit=Limit(concurrency=2, key=lambda customer, cents: customer))
    ... async def charge(customer: str, cents: int) -> str: ...
    """

    concurrency: int | None = None
    rate: int | None = None
    per: timedelta = timedelta(seconds=1)
    key: Callable[..., object] | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.concurrency is None and self.rate is None:
            raise ValueError("a limit needs a concurrency, a rate, or both")
        for what in ("concurrency", "rate"):
            value = getattr(self, what)
            if value is not None and not 1 <= value <= 10_000:
                raise ValueError(f"{what} must be 1 to 10000, got {value}")
        if self.per < timedelta(milliseconds=1):
            raise ValueError(f"per must be at least a millisecond, got {self.per}")

    def place(self, owner: str, arguments: tuple[Any, ...], *, kept: bool = False) -> Place:
        """What a call with these arguments needs."""
        group = self.name or owner
        if self.key is not None:
            key = str(self.key(*arguments))
            if len(key) > _LONGEST_KEY:
                raise ValueError(f"the key of a limit must have at most {_LONGEST_KEY} characters, got {len(key)}")
            group = f"{group}/{key}"
        per_ms = round(self.per / timedelta(milliseconds=1))
        return Place(group=group, concurrency=self.concurrency, rate=self.rate, per_ms=per_ms, kept=kept)


def encode_place(place: Place) -> str:
    """As the stores keep it."""
    return msgspec.json.encode(place).decode()
