"""Many consumers that take one message at a time, over HTTP: served from runs, and none of them can tell."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import httpx2
import psycopg
import pytest

from queen.engine import ahead
from tests.server.calls import ack, data, pop, push
from tests.server.running import Running
from tests.server.test_metrics import scrape

LANES, MESSAGES, CONSUMERS = 40, 12, 24


def test_a_crowd_gets_every_message_in_order_and_once(
    broker: Running, client: httpx2.Client, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "_AIM", 1e9)
    for lane in range(LANES):
        push(client, "mail", *range(MESSAGES), partition=f"p{lane}")
    seen: dict[str, list[int]] = defaultdict(list)
    working: set[str] = set()
    lock = Lock()

    def work(_consumer: int) -> None:
        with httpx2.Client(base_url=broker.url, timeout=40) as own:
            while got := pop(own, "mail", wait=True, timeout=2000):
                (message,) = got
                with lock:
                    assert message["partition"] not in working
                    working.add(message["partition"])
                    seen[message["partition"]] += data([message])
                    working.remove(message["partition"])
                result = ack(own, message)
                assert (result["success"], result["leaseReleased"]) == (True, True)

    with ThreadPoolExecutor(CONSUMERS) as pool:
        list(pool.map(work, range(CONSUMERS)))
    assert seen == {f"p{lane}": list(range(MESSAGES)) for lane in range(LANES)}
    found = scrape(client)
    for name in ("queen_push_to_pop_seconds_count", "queen_pop_to_ack_seconds_count"):
        assert found[name, (("queue", "mail"),)] == LANES * MESSAGES
    with psycopg.connect(database) as connection:
        row = connection.execute("select max(batch_to - batch_from) from queen.deliveries").fetchone()
        assert row is not None
        assert row[0] > 0, "nothing was popped ahead"
