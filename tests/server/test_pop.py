from __future__ import annotations

import re
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from tests.server.calls import ack_batch, configure, data, pop, push
from tests.server.running import Running, run_broker
from tests.support.wait import wait_for


def test_an_answer_looks_as_clients_expect(api: httpx2.Client, queue: str) -> None:
    (pushed,) = push(api, queue, {"n": 1}, partition="eu", transactionId="m-1")
    body = api.get(f"/api/v1/pop/queue/{queue}").json()
    (message,) = body.pop("messages")
    lease = body["leaseId"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body.pop("leaseExpiresAt"))
    assert body == {
        "success": True,
        "queue": queue,
        "partition": "eu",
        "partitionId": pushed["partition_id"],
        "leaseId": lease,
        "consumerGroup": "__QUEUE_MODE__",
        "partitionsClaimed": 1,
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", message.pop("createdAt"))
    assert message == {
        "id": pushed["message_id"],
        "transactionId": "m-1",
        "traceId": None,
        "data": {"n": 1},
        "producerSub": None,
        "partitionId": pushed["partition_id"],
        "partition": "eu",
        "leaseId": lease,
        "consumerGroup": "__QUEUE_MODE__",
        "queue": queue,
        "seq": 1,
        "retryCount": 0,
        "deliveryCount": 0,
    }


def test_nothing_is_204_without_a_body(api: httpx2.Client, queue: str) -> None:
    for path in (queue, f"{queue}/partition/none"):
        answer = api.get(f"/api/v1/pop/queue/{path}")
        assert (answer.status_code, answer.content) == (204, b"")


def test_the_partition_route_leaves_out_the_count(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, partition="eu")
    assert "partitionsClaimed" not in api.get(f"/api/v1/pop/queue/{queue}/partition/eu").json()


def test_several_partitions_share_one_lease(api: httpx2.Client, queue: str) -> None:
    for name in "abc":
        push(api, queue, 1, 2, partition=name)
    messages = pop(api, queue, batch=100, partitions=3)
    assert len(messages) == 6
    assert len({message["partitionId"] for message in messages}) == 3
    assert len({message["leaseId"] for message in messages}) == 1


def test_the_batch_is_a_cap_over_all_partitions(api: httpx2.Client, queue: str) -> None:
    for name in "abcde":
        push(api, queue, *range(100), partition=name)
    assert len(pop(api, queue, batch=10, partitions=5)) == 10


def test_one_partition_unless_more_are_asked_for(api: httpx2.Client, queue: str) -> None:
    for name in "abcd":
        push(api, queue, *range(5), partition=name)
    messages = pop(api, queue, batch=100)
    assert len(messages) == 5
    assert len({message["partitionId"] for message in messages}) == 1


def test_a_leased_partition_is_hidden_from_its_group_only(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    assert data(pop(api, queue)) == [1]
    assert pop(api, queue) == []
    assert data(pop(api, queue, consumerGroup="other", subscriptionMode="all")) == [1]


def test_an_expired_lease_gives_the_same_messages_again(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, leaseTime=1)
    push(api, queue, 1, 2)
    first = pop(api, queue, batch=2)
    again = pop(api, queue, batch=2, wait=True, timeout=5000)
    assert data(again) == data(first) == [1, 2]
    assert again[0]["leaseId"] != first[0]["leaseId"]


def test_a_lease_of_the_pops_own(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    pop(api, queue, leaseSeconds=1)
    assert data(pop(api, queue, wait=True, timeout=5000)) == [1]
    assert api.get(f"/api/v1/pop/queue/{queue}?leaseSeconds=0").status_code == 400


def test_delayed_messages_come_when_they_are_old_enough(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, delayedProcessing=1)
    push(api, queue, 1)
    assert pop(api, queue) == []
    assert data(pop(api, queue, wait=True, timeout=5000)) == [1]


def test_a_window_buffer_waits_for_quiet(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, windowBuffer=1)
    push(api, queue, 1, 2, 3)
    assert pop(api, queue, batch=4) == []
    assert data(pop(api, queue, batch=4, wait=True, timeout=5000)) == [1, 2, 3]


def test_auto_ack_keeps_no_lease(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2)
    body = api.get(f"/api/v1/pop/queue/{queue}", params={"autoAck": "true"}).json()
    assert body["leaseId"] == ""
    assert body["messages"][0]["leaseId"] == ""
    assert data(pop(api, queue, autoAck=True)) == [2]
    assert pop(api, queue, autoAck=True) == []


def test_a_waiting_pop_gets_what_is_pushed_later(api: httpx2.Client, queue: str, shared_broker: Running) -> None:
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(pop(api, queue, wait=True, timeout=15_000)))
    waiting.start()
    wait_for(lambda: shared_broker.server.broker.engine.parked.get(queue))
    push(api, queue, "late")
    waiting.join(14)
    assert data(found) == ["late"]


def test_a_waiting_pop_ends_in_time(api: httpx2.Client, queue: str) -> None:
    started = time.monotonic()
    assert pop(api, queue, wait=True, timeout=300) == []
    assert 0.25 < time.monotonic() - started < 20


def test_groups_start_where_they_say(api: httpx2.Client, queue: str) -> None:
    push(api, queue, *range(5))
    assert len(pop(api, queue, batch=10, consumerGroup="a", subscriptionMode="all")) == 5
    assert pop(api, queue, batch=10, consumerGroup="b", subscriptionMode="new") == []
    ack_batch_of = pop(api, queue, "Default", batch=1, consumerGroup="c", subscriptionMode="new-only")
    assert ack_batch_of == []
    push(api, queue, 5, 6, 7)
    assert data(pop(api, queue, batch=10, consumerGroup="b")) == [5, 6, 7]
    assert data(pop(api, queue, batch=10, consumerGroup="c")) == [5, 6, 7]


def test_a_group_remembers_new_also_on_an_empty_queue(api: httpx2.Client, queue: str) -> None:
    configure(api, queue)
    assert pop(api, queue, consumerGroup="early", subscriptionFrom="now") == []
    push(api, queue, "after")
    assert data(pop(api, queue, consumerGroup="early")) == ["after"]


def test_a_group_may_start_at_a_time(api: httpx2.Client, queue: str) -> None:
    push(api, queue, "old")
    (old,) = pop(api, queue, consumerGroup="look", subscriptionMode="all")
    moment = datetime.fromisoformat(old["createdAt"])
    push(api, queue, "new")
    at = moment.isoformat()
    assert data(pop(api, queue, batch=9, consumerGroup="inclusive", subscriptionFrom=at)) == ["old", "new"]
    later = (moment + timedelta(microseconds=1)).isoformat()
    assert data(pop(api, queue, batch=9, consumerGroup="later", subscriptionFrom=later)) == ["new"]
    assert data(pop(api, queue, batch=9, consumerGroup="odd", subscriptionFrom="no time")) == ["old", "new"]
    assert moment < datetime.now(UTC)


def test_pop_by_namespace_and_task_takes_the_higher_priority(api: httpx2.Client, queue: str) -> None:
    for name, priority in (("low", 1), ("high", 9)):
        body = {"queue": f"{queue}-{name}", "namespace": queue, "task": name, "options": {"priority": priority}}
        assert api.post("/api/v1/configure", json=body).status_code == 200
        push(api, f"{queue}-{name}", name)
    first = api.get("/api/v1/pop", params={"namespace": queue}).json()
    assert (first["queue"], data(first["messages"])) == (f"{queue}-high", ["high"])
    assert data(api.get("/api/v1/pop", params={"namespace": queue, "task": "low"}).json()["messages"]) == ["low"]
    assert api.get("/api/v1/pop", params={"namespace": queue}).status_code == 204
    assert api.get("/api/v1/pop").status_code == 400


def test_names_are_percent_decoded(api: httpx2.Client, queue: str) -> None:
    name, partition = f"{queue}/a b?ü%", "päck/1"
    push(api, name, 1, partition=partition)
    messages = pop(api, quote(name, safe=""), quote(partition, safe=""))
    assert (messages[0]["queue"], messages[0]["partition"]) == (name, partition)


def test_the_empty_name_is_a_name(client: httpx2.Client) -> None:
    configure(client, "")
    push(client, "", 1)
    assert data(pop(client, "")) == [1]


def test_numbers_that_do_not_parse_fall_back(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2)
    assert data(pop(api, queue, batch="many")) == [1]
    assert api.get(f"/api/v1/pop/queue/{queue}?batch=0").status_code == 400
    assert api.get(f"/api/v1/pop/queue/{queue}?conflation=true").status_code == 400


def test_autopilot_takes_a_large_batch(api: httpx2.Client, queue: str) -> None:
    push(api, queue, *range(150))
    assert len(pop(api, queue, autopilot=True)) == 150


def test_first_contact_with_many_partitions_is_quick(api: httpx2.Client, queue: str) -> None:
    items = [{"queue": queue, "partition": f"p{n}", "payload": "old"} for n in range(1000)]
    assert api.post("/api/v1/push", json={"items": items}).status_code == 201
    started = time.monotonic()
    assert pop(api, queue, consumerGroup="late", subscriptionMode="new", batch=1000, partitions=1000) == []
    assert time.monotonic() - started < 10
    fresh = [{**item, "payload": "new"} for item in items]
    assert api.post("/api/v1/push", json={"items": fresh}).status_code == 201
    messages = pop(api, queue, consumerGroup="late", batch=1000, partitions=1000)
    assert data(messages) == ["new"] * 1000
    assert {result["success"] for result in ack_batch(api, messages, group="late")} == {True}


def test_a_pop_has_a_budget_of_bytes(database: str, tmp_path: Path) -> None:
    large = "x" * 100_000
    with (
        run_broker(database, tmp_path, pop_byte_limit=250_000) as broker,
        httpx2.Client(base_url=broker.url, timeout=40) as client,
    ):
        push(client, "large", *[large] * 5)
        path = "/api/v1/pop/queue/large"
        for asked, count in (
            ({}, 2),
            ({"maxBytes": "150000"}, 1),
            ({"maxBytes": "1"}, 1),
            ({"maxBytes": "2000000"}, 2),
        ):
            body = client.get(path, params={"batch": "100", **asked}).json()
            assert data(body["messages"]) == [large] * count
            client.post("/api/v1/nack", json={"leaseId": body["leaseId"]}).raise_for_status()
        refused = client.get(path, params={"maxBytes": "0"})
        assert (refused.status_code, refused.json()["code"]) == (400, "INVALID_MAX_BYTES")
