"""Several brokers: the same work goes to the same one while it answers, and to the next when it does not."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_FIRST_REST: Final = 0.5
_LONGEST_REST: Final = 30.0


@dataclass(slots=True)
class Endpoint:
    """One broker, and until when it is left alone after it failed."""

    url: str
    failures: int = 0
    rests_until: float = 0.0


class Endpoints:
    """Chooses a broker by what a call is about, so that brokers can share database calls.

    Every key has its own fixed order of brokers; a failed one is passed over for a while that doubles
    with each failure, so that work moves away at once and comes back by itself.
    """

    def __init__(self, urls: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._endpoints = [Endpoint(url.rstrip("/")) for url in urls]
        self._clock = clock

    def order(self, key: str) -> list[Endpoint]:
        """All brokers in the order to try them for this key."""
        if len(self._endpoints) == 1:
            return self._endpoints
        now = self._clock()
        return sorted(self._endpoints, key=lambda one: (one.rests_until > now, _weight(key, one.url)))

    def failed(self, endpoint: Endpoint) -> None:
        """It did not answer: leave it alone for a while."""
        rest = min(_LONGEST_REST, _FIRST_REST * 2**endpoint.failures)
        endpoint.failures += 1
        endpoint.rests_until = self._clock() + rest

    def worked(self, endpoint: Endpoint) -> None:
        """It answered."""
        endpoint.failures = 0
        endpoint.rests_until = 0.0


def _weight(key: str, url: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{url}".encode(), digest_size=8).digest()
