from __future__ import annotations

import threading
import time
from pathlib import Path

import httpx2
import pytest

from queen.server.buffer.aside import Aside
from tests.server.calls import ack_batch, configure, data, pop, push
from tests.server.running import Running, run_broker
from tests.support.wait import wait_for


def switch(client: httpx2.Client, mode: str, *, on: bool) -> None:
    answer = client.post(f"/api/v1/system/maintenance{mode}", json={"enabled": on})
    assert answer.status_code == 200, answer.text


def test_the_modes_are_shown_as_clients_expect(client: httpx2.Client) -> None:
    assert client.get("/api/v1/system/maintenance").json() == {
        "maintenanceMode": False,
        "popMaintenanceMode": False,
        "bufferedMessages": 0,
        "bufferHealthy": True,
        "bufferStats": {"pendingCount": 0, "failedCount": 0, "dbHealthy": True, "failedFiles": {"count": 0}},
    }
    body = client.post("/api/v1/system/maintenance", json={"enabled": True}).json()
    assert (body["maintenanceMode"], body["bufferedMessages"], body["bufferHealthy"]) == (True, 0, True)
    assert body["message"]


@pytest.mark.parametrize("body", [{}, {"enabled": "true"}, {"enabled": 1}, {"enabled": None}])
def test_a_switch_is_a_boolean(api: httpx2.Client, body: object) -> None:
    for mode in ("", "/pop"):
        answer = api.post(f"/api/v1/system/maintenance{mode}", json=body)
        assert (answer.status_code, answer.json()["error"]) == (400, "enabled must be true or false")


def test_pushes_are_buffered_and_drained_in_order(client: httpx2.Client) -> None:
    push(client, "mail", 0)
    switch(client, "", on=True)
    results = push(client, "mail", 1, 2, transactionId="mine")
    assert [(r["status"], r["queue"], r["partition"], r["transactionId"]) for r in results] == [
        ("buffered", "mail", "Default", "mine")
    ] * 2
    push(client, "mail", 3)
    assert client.get("/api/v1/system/maintenance").json()["bufferedMessages"] == 3
    assert data(pop(client, "mail", batch=9)) == [0]
    switch(client, "", on=False)
    wait_for(lambda: client.get("/api/v1/system/maintenance").json()["bufferedMessages"] == 0)
    push(client, "mail", 4)
    found = pop(client, "mail", batch=9, consumerGroup="all", subscriptionMode="all")
    assert data(found) == [0, 1, 3, 4]


def test_the_mode_and_the_buffer_survive_a_restart(database: str, tmp_path: Path) -> None:
    directory = tmp_path
    with run_broker(database, directory) as running, httpx2.Client(base_url=running.url, timeout=20) as client:
        switch(client, "", on=True)
        push(client, "mail", 1, 2)
    with run_broker(database, directory) as running, httpx2.Client(base_url=running.url, timeout=20) as client:
        body = client.get("/api/v1/system/maintenance").json()
        assert (body["maintenanceMode"], body["bufferedMessages"]) == (True, 2)
        switch(client, "", on=False)
        assert data(pop(client, "mail", batch=2, wait=True, timeout=10_000)) == [1, 2]


def test_a_bad_push_is_refused_while_buffering_too(client: httpx2.Client) -> None:
    switch(client, "", on=True)
    for payload in ('"\\u0000"', "1e200000"):
        body = f'{{"items": [{{"queue": "mail", "payload": {payload}}}]}}'
        assert client.post("/api/v1/push", content=body.encode()).status_code == 400
    assert push(client, "mail", "\\u0000 is only text, and so is e999999")[0]["status"] == "buffered"


def test_what_cannot_be_stored_is_parked_and_reported(client: httpx2.Client, broker: Running) -> None:
    configure(client, "small", maxSize=1)
    push(client, "small", 0)
    switch(client, "", on=True)
    push(client, "small", 1)
    push(client, "mail", 2)
    switch(client, "", on=False)
    wait_for(lambda: client.get("/api/v1/system/maintenance").json()["bufferedMessages"] == 0)
    assert client.get("/api/v1/system/maintenance").json()["bufferStats"]["failedCount"] == 1
    assert data(pop(client, "mail")) == [2]
    (entry,) = Aside(broker.settings.buffer_path).entries()
    assert entry.reason.startswith("QUEUE_FULL")


def test_every_pop_is_empty_while_pops_are_off(client: httpx2.Client) -> None:
    push(client, "mail", 1)
    switch(client, "/pop", on=True)
    started = time.monotonic()
    assert pop(client, "mail", wait=True, timeout=10_000) == []
    assert time.monotonic() - started < 9
    assert client.get("/api/v1/system/maintenance/pop").json()["popMaintenanceMode"] is True
    switch(client, "/pop", on=False)
    assert data(pop(client, "mail")) == [1]


def test_switching_pops_off_answers_those_who_wait(client: httpx2.Client, broker: Running) -> None:
    found: list[object] = [None]
    waiting = threading.Thread(target=lambda: found.append(pop(client, "mail", wait=True, timeout=30_000)))
    waiting.start()
    wait_for(lambda: broker.server.broker.engine.parked.get("mail"))
    switch(client, "/pop", on=True)
    waiting.join(5)
    assert found == [None, []]


def test_a_producer_through_maintenance_loses_nothing(client: httpx2.Client) -> None:
    """10 messages/s through off, on and off again; a waiting consumer gets exactly what was produced."""
    stop = threading.Event()
    produced: list[int] = []
    statuses: set[str] = set()

    def produce() -> None:
        while not stop.wait(0.1):
            statuses.add(push(client, "mail", len(produced))[0]["status"])
            produced.append(len(produced))

    producer = threading.Thread(target=produce)
    producer.start()
    wait_for(lambda: len(produced) >= 5)
    switch(client, "", on=True)
    wait_for(lambda: len(produced) >= 15)
    switch(client, "", on=False)
    wait_for(lambda: len(produced) >= 20)
    stop.set()
    producer.join()
    consumed: list[int] = []
    while messages := pop(client, "mail", batch=10, wait=True, timeout=2000):
        consumed += data(messages)
        ack_batch(client, messages)
    assert consumed == produced
    assert statuses == {"queued", "buffered"}
