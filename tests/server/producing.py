"""Producers that keep a log of what was accepted, and the check that it all arrived: once, and in order."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

import httpx2

from tests.server.calls import Json

PATIENCE = 60.0


class Producer(threading.Thread):
    """Pushes numbered messages to a partition of its own; a push without an answer is sent again with the same ids."""

    def __init__(
        self,
        url: Callable[[int], str],
        queue: str,
        name: str,
        batch: int,
        stop: threading.Event,
        *,
        reconnect: bool = False,
    ) -> None:
        super().__init__(name=f"producer-{name}")
        self._headers = {"connection": "close"} if reconnect else {}
        self._url = url
        self._queue, self.partition, self._batch = queue, name, batch
        self._ended = stop
        self.accepted: list[int] = []
        self.statuses: Counter[str] = Counter()
        self.repeated = 0
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._produce()
        except BaseException as error:
            self.error = error
            raise

    def _produce(self) -> None:
        turn = 0
        with httpx2.Client(timeout=30, headers=self._headers) as client:
            while not self._ended.is_set():
                numbers = list(range(turn * self._batch, (turn + 1) * self._batch))
                self._push(client, numbers, turn)
                turn += 1

    def _push(self, client: httpx2.Client, numbers: list[int], turn: int) -> None:
        items = [
            {
                "queue": self._queue,
                "partition": self.partition,
                "payload": number,
                "transactionId": f"{self.partition}-{number}",
            }
            for number in numbers
        ]
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(httpx2.HTTPError):
                answer = client.post(f"{self._url(turn)}/api/v1/push", json={"items": items})
                assert answer.status_code in (201, 503), answer.text
                if answer.status_code == 201:
                    self.statuses.update(result["status"] for result in answer.json())
                    self.accepted += numbers
                    return
            assert time.monotonic() < deadline, "a push was not accepted in time"
            self.repeated += 1
            time.sleep(0.02)


class Producers:
    """Several producers at once, each with a partition of its own."""

    def __init__(
        self, url: Callable[[int], str], queue: str, count: int, batch: int = 10, *, reconnect: bool = False
    ) -> None:
        self._ended = threading.Event()
        self.all = [
            Producer(url, queue, f"p{number}", batch, self._ended, reconnect=reconnect) for number in range(count)
        ]

    def __enter__(self) -> Self:
        for producer in self.all:
            producer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Let everyone finish what it is at."""
        self._ended.set()
        for producer in self.all:
            producer.join(PATIENCE + 10)
            assert producer.error is None, producer.error

    @property
    def accepted(self) -> int:
        """How many messages were accepted so far."""
        assert all(producer.error is None for producer in self.all)
        return sum(len(producer.accepted) for producer in self.all)

    @property
    def statuses(self) -> Counter[str]:
        """What the answers said."""
        return sum((producer.statuses for producer in self.all), Counter())


def consume_all(url: str, queue: str, group: str = "check", quiet: int = 1500) -> dict[str, list[Any]]:
    """Everything in a queue, by partition, in the order it is handed out."""
    found: dict[str, list[Any]] = {}
    query = {"batch": "1000", "partitions": "50", "consumerGroup": group, "subscriptionMode": "all", "autoAck": "true"}
    with httpx2.Client(base_url=url, timeout=40) as client:
        while True:
            answer = client.get(f"/api/v1/pop/queue/{queue}", params={**query, "wait": "true", "timeout": str(quiet)})
            if answer.status_code == 204:
                return found
            assert answer.status_code == 200, answer.text
            messages: list[Json] = answer.json()["messages"]
            for message in messages:
                found.setdefault(message["partition"], []).append(message["data"])


def require_all_once_in_order(producers: Sequence[Producer], found: dict[str, list[Any]]) -> None:
    """What was accepted is there; nothing is twice; each partition is in order."""
    for producer in producers:
        assert found.get(producer.partition, []) == producer.accepted
