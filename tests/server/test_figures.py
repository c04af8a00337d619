"""The figures are true: of all queues, never falling, the same from every worker, and equal to a recount."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.calls import ack_batch, configure, pop, push
from tests.server.running import Process, run_process
from tests.support.wait import wait_for

Samples = dict[tuple[str, str], float]
COUNTED = ("push", "pop", "ack", "failed")
LIMIT = 60.0


def scrape(broker: Process) -> tuple[Samples, set[tuple[str, str]]]:
    """All samples by name and by queue, verb or status, and which of them are counters; on a connection of its own."""
    found: Samples = {}
    counters: set[tuple[str, str]] = set()
    with httpx2.Client(base_url=broker.url, timeout=40) as client:
        answer = client.get("/metrics/prometheus")
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = ",".join(value for name, value in sorted(sample.labels.items()) if name != "stat")
            found[sample.name, labels] = sample.value
            if family.type in ("counter", "histogram"):
                counters.add((sample.name, labels))
    return found, counters


def totals(found: Samples) -> dict[str, int]:
    return {verb: int(found[f"queen_cluster_{verb}_messages_total", "cluster"]) for verb in COUNTED}


def recount(connection: psycopg.Connection) -> dict[str, dict[str, int]]:
    """Depth, partitions and dead letters by queue, counted message by message."""
    rows = connection.execute(
        """
        select q.name,
               (select count(*) from queen.messages m join queen.partitions p on p.id = m.partition_id
                 where p.queue_id = q.id
                   and m.seq > coalesce((select min(c.last_consumed_seq) from queen.partition_consumers c
                                          where c.partition_id = p.id), 0)),
               (select count(*) from queen.partitions p where p.queue_id = q.id),
               (select count(*) from queen.dead_letter_queue d where d.queue_id = q.id and d.redriven_at is null)
          from queen.queues q order by q.id"""
    ).fetchall()
    return {name: {"depth": depth, "partitions": lanes, "dead": dead} for name, depth, lanes, dead in rows}


class Ledger:
    """What a producer and a consumer did, as they know it themselves."""

    def __init__(self, broker: Process) -> None:
        self._broker = broker
        self.done = dict.fromkeys(COUNTED, 0)

    @contextmanager
    def _client(self) -> Iterator[httpx2.Client]:
        """On a connection of its own, so that any worker may get it."""
        with httpx2.Client(base_url=self._broker.url, timeout=40) as client:
            yield client

    def push(self, queues: list[str]) -> None:
        with self._client() as client:
            items = [{"queue": name, "payload": 1} for name in queues]
            assert client.post("/api/v1/push", json={"items": items}).status_code == 201
        self.done["push"] += len(queues)

    def consume(self, queue: str, status: str = "completed") -> None:
        with self._client() as client:
            messages = pop(client, queue, batch=10)
            ack_batch(client, messages, status)
        self.done["pop"] += len(messages)
        self.done["ack" if status == "completed" else "failed"] += len(messages)

    def delete(self, queue: str) -> None:
        with self._client() as client:
            assert client.delete(f"/api/v1/resources/queues/{queue}").status_code == 200


def check(found: Samples, recounted: dict[str, dict[str, int]], named: int) -> None:
    """What a scrape says of each queue, and of the others together, is what there is."""
    own = list(recounted)[:named]
    for metric, field in (
        ("queen_queue_depth", "depth"),
        ("queen_queue_partitions", "partitions"),
        ("queen_dlq_depth_by_queue", "dead"),
    ):
        said = {queue: value for (name, queue), value in found.items() if name == metric}
        expected = {queue: recounted[queue][field] for queue in own}
        if len(recounted) > named:
            expected["other"] = sum(counts[field] for queue, counts in recounted.items() if queue not in own)
        assert said == expected, metric
    assert found["queen_dlq_depth", ""] == sum(counts["dead"] for counts in recounted.values())
    assert found["queen_queues", ""] == len(recounted)
    assert found["queen_queues_without_label", ""] == max(len(recounted) - named, 0)


def ten_scrapes(database: str, tmp_path: Path, queues: int, named: int) -> None:
    """Ten times: work, a queue deleted, and scrapes that agree with the ledger and a recount, and never fall."""
    settings = {"QUEEN_WORKERS": "2", "QUEEN_STATS_INTERVAL": "0.2", "QUEEN_METRICS_QUEUES": str(named)}
    before: Samples = {}
    with run_process(database, tmp_path, **settings) as broker, psycopg.connect(database, autocommit=True) as sql:
        ledger = Ledger(broker)
        names = [f"q{number}" for number in range(queues)]
        for start in range(0, queues, 250):
            ledger.push(names[start : start + 250])
        for turn in range(10):
            ledger.push(names[turn::7])
            ledger.consume(names[turn + 10])
            ledger.consume(names[-turn - 1], "dlq")
            ledger.delete(names.pop(turn * 3))
            wait_for(lambda: totals(scrape(broker)[0]) == ledger.done, limit=LIMIT, pause=0.1)

            def agrees() -> bool:
                check(scrape(broker)[0], recount(sql), named)
                return True

            wait_for(unless_wrong(agrees), limit=LIMIT, pause=0.1)
            for _ in range(4):
                found, counters = scrape(broker)
                check(found, recount(sql), named)
                assert totals(found) == ledger.done
                fell = {
                    key: (before[key], found.get(key)) for key in counters & set(before) if found[key] < before[key]
                }
                assert not fell
                assert found["queen_workers", ""] == 2
                before = found


def unless_wrong(look: Callable[[], bool]) -> Callable[[], bool]:
    def right() -> bool:
        try:
            return look()
        except AssertionError:
            return False

    return right


def test_ten_scrapes_of_two_workers_never_fall_and_are_a_recount(database: str, tmp_path: Path) -> None:
    ten_scrapes(database, tmp_path, queues=60, named=20)


@pytest.mark.scale
@pytest.mark.timeout(600)
def test_ten_scrapes_of_a_thousand_queues(database: str, tmp_path: Path) -> None:
    ten_scrapes(database, tmp_path, queues=1000, named=200)


def test_a_queue_that_nobody_reads_has_lag(database: str, tmp_path: Path) -> None:
    with run_process(database, tmp_path, QUEEN_STATS_INTERVAL="0.2") as broker:
        with httpx2.Client(base_url=broker.url, timeout=40) as client:
            push(client, "unread", 1)
        wait_for(
            lambda: scrape(broker)[0].get(("queen_queue_pop_lag_milliseconds", "unread"), 0) > 500,
            limit=LIMIT,
            pause=0.1,
        )


def test_a_queue_called_other_is_one_of_the_others(database: str, tmp_path: Path) -> None:
    with run_process(database, tmp_path, QUEEN_STATS_INTERVAL="0.2") as broker:
        with httpx2.Client(base_url=broker.url, timeout=40) as client:
            push(client, "other", 1, 2)
        wait_for(lambda: scrape(broker)[0].get(("queen_queue_depth", "other")) == 2, limit=LIMIT, pause=0.1)
        assert scrape(broker)[0]["queen_queues_without_label", ""] == 1


def test_completed_are_no_dead_letters(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, retryLimit=0)
    push(api, queue, *range(5))
    ack_batch(api, pop(api, queue, batch=3))
    ack_batch(api, pop(api, queue, batch=1), "dlq")
    counts = api.get(f"/api/v1/resources/queues/{queue}").json()["totals"]
    assert (counts["completed"], counts["deadLetter"], counts["pending"]) == (3, 1, 1)
