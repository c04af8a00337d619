"""What operators read: complete, summed over workers, and so cheap that nobody notices a scrape."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import httpx2
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.calls import ack_batch, configure, pop, push
from tests.server.producing import Producers
from tests.server.running import Process, run_process
from tests.support.wait import wait_for

FAMILIES = {
    "queen_refused",
    "queen_request_seconds",
    "queen_request_messages",
    "queen_push_to_pop_seconds",
    "queen_pop_to_ack_seconds",
    "queen_uptime_seconds",
    "queen_cpu_user_microseconds",
    "queen_process_resident_memory_bytes",
    "queen_db_pool_size",
    "queen_db_pool_idle",
    "queen_db_pool_active",
    "queen_db_pool_waits",
    "queen_db_pool_wait_seconds",
    "queen_db_up",
    "queen_file_buffer_pending",
    "queen_file_buffer_failed",
    "queen_maintenance_mode_enabled",
    "queen_microbatch_calls",
    "queen_microbatch_requests",
    "queen_queue_depth",
    "queen_queue_pushed_per_minute",
    "queen_queue_pop_lag_milliseconds",
    "queen_queue_parked_consumers",
    "queen_lease_utilisation",
    "queen_dlq_depth",
    "queen_dlq_depth_by_queue",
    "queen_cluster_push_messages",
    "queen_service_age_seconds",
}


def scrape(client: httpx2.Client) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = client.get("/metrics/prometheus")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = list(text_string_to_metric_families(answer.text))
    names = [family.name for family in families]
    assert len(names) == len(set(names)), "a family is there twice"
    assert set(names) >= FAMILIES
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_prometheus_has_what_an_operator_needs(client: httpx2.Client) -> None:
    configure(client, "mail")
    push(client, "mail", 1, 2, 3)
    ack_batch(client, pop(client, "mail", batch=3))
    client.post("/api/v1/push", json={})
    found = scrape(client)
    verb = (("verb", "push"),)
    assert found["queen_request_seconds_count", verb] == 1
    assert found["queen_request_messages_sum", verb] == 3
    assert found["queen_refused_total", (("status", "400"),)] == 1
    assert found["queen_push_to_pop_seconds_count", (("queue", "mail"),)] == 1
    assert found["queen_pop_to_ack_seconds_count", (("queue", "mail"),)] == 1
    assert found["queen_queue_partitions", (("queue", "mail"),)] == 1
    assert found["queen_db_up", ()] == 1


def test_names_of_queues_cannot_break_the_page(client: httpx2.Client) -> None:
    name = 'a"b\\c\nd{}'
    push(client, name, 1)
    pop(client, "a%22b%5Cc%0Ad%7B%7D")
    assert ("queen_push_to_pop_seconds_count", (("queue", name),)) in scrape(client)


def test_many_queues_share_a_label(client: httpx2.Client) -> None:
    for start in (0, 150):
        names = range(start, start + 150)
        client.post("/api/v1/push", json={"items": [{"queue": f"q{number}"} for number in names]})
        for number in names:
            pop(client, f"q{number}", autoAck=True)
    found = scrape(client)
    series = [labels for name, labels in found if name == "queen_push_to_pop_seconds_count"]
    assert len(series) == 201
    assert found["queen_push_to_pop_seconds_count", (("queue", "other"),)] == 100


def test_the_json_form_is_kept(client: httpx2.Client) -> None:
    push(client, "mail", 1, 2)
    body = client.get("/metrics").json()
    assert body["uptime"] > 0
    assert (body["requests"]["total"], body["messages"]["push"]) == (1, 2)
    assert body["database"]["poolSize"] >= 1
    assert body["memory"]["rss"] > 0
    assert set(body["cpu"]) == {"user", "system"}


def pushes_seen(broker: Process) -> float:
    """How many pushes a scrape on a connection of its own tells of."""
    with httpx2.Client(base_url=broker.url, timeout=20) as client:
        return scrape(client).get(("queen_request_seconds_count", (("verb", "push"),)), 0.0)


def test_every_worker_tells_of_all(database: str, tmp_path: Path) -> None:
    with run_process(database, tmp_path, QUEEN_WORKERS="2") as broker:
        for number in range(40):
            with httpx2.Client(base_url=broker.url, timeout=20) as client:
                push(client, "mail", number)
        wait_for(lambda: all(pushes_seen(broker) == 40 for _ in range(8)), limit=30, pause=0.2)
        workers = psutil.Process(broker.pid).children()
        victim = next(child for child in workers if "spawn_main" in " ".join(child.cmdline()))
        victim.kill()
        wait_for(lambda: all(pushes_seen(broker) == 40 for _ in range(8)), limit=30, pause=0.2)
        assert broker.stop() == 0


def accepted(producers: Producers, seconds: float, broker: Process | None = None) -> float:
    """Messages accepted a second for some seconds, while ten scrapes a second are made of a broker."""
    before, began = producers.accepted, time.monotonic()
    end = began + seconds
    with httpx2.Client(timeout=20) as client:
        while (left := end - time.monotonic()) > 0:
            if broker is not None:
                client.get(f"{broker.url}/metrics/prometheus").raise_for_status()
            time.sleep(min(left, 0.1))
    return (producers.accepted - before) / (time.monotonic() - began)


@pytest.mark.measure
def test_a_scrape_costs_nothing_noticeable(database: str, tmp_path: Path) -> None:
    with run_process(database, tmp_path) as broker, httpx2.Client(base_url=broker.url, timeout=40) as client:
        for number in range(250):
            push(client, f"q{number}", 1)
            ack_batch(client, pop(client, f"q{number}"))
        scrape(client)
        process = psutil.Process(broker.pid)
        before, times = process.cpu_times(), 50
        sizes = [len(client.get("/metrics/prometheus").content) for _ in range(times)]
        now = process.cpu_times()
        cost = (now.user + now.system - before.user - before.system) / times
        with Producers(lambda _: broker.url, "orders", count=4) as producers:
            accepted(producers, 1)
            rounds = [(accepted(producers, 0.5), accepted(producers, 0.5, broker)) for _ in range(8)]
    without, beside = (statistics.median(side) for side in zip(*rounds, strict=True))
    sys.stdout.write(
        f"a scrape of 250 queues: {sizes[0]:,} bytes, {cost * 1000:.1f} ms of processor time; "
        f"ten a second leave {beside / without:.0%} of {without:,.0f} accepted messages/s\n"
    )
    assert cost < 0.03
    assert beside > 0.75 * without
