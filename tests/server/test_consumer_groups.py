from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from tests.server.calls import ack_batch, data, pop, push

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
Json = dict[str, Any]


def consume(api: httpx2.Client, queue: str, group: str, **query: Any) -> list[Any]:
    """Take and finish everything there is."""
    found: list[Any] = []
    while messages := pop(api, queue, consumerGroup=group, batch=100, partitions=100, **query):
        ack_batch(api, messages, group=group)
        found += data(messages)
    return sorted(found)


def spread(api: httpx2.Client, queue: str) -> None:
    """One message in each of ten partitions."""
    items = [{"queue": queue, "partition": f"p{n}", "payload": n} for n in range(10)]
    assert api.post("/api/v1/push", json={"items": items}).status_code == 201


def seek(api: httpx2.Client, queue: str, group: str, **body: Any) -> Json:
    answer = api.post(f"/api/v1/consumer-groups/{group}/queues/{queue}/seek", json=body)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


def test_every_group_on_every_queue(client: httpx2.Client) -> None:
    spread(client, "mail")
    consume(client, "mail", "g1", subscriptionMode="all")
    push(client, "mail", 1, 2, partition="p0")
    push(client, "other", 1)
    pop(client, "other")
    mine, mode = sorted(client.get("/api/v1/consumer-groups").json(), key=lambda entry: entry["queueName"])
    for name in ("subscriptionTimestamp", "subscriptionCreatedAt"):
        assert re.fullmatch(TIME, mine.pop(name))
    assert mine.pop("maxTimeLag") in (0, 1)
    assert mine == {
        "name": "g1", "topics": ["mail"], "queueName": "mail", "members": 10, "partitionsWithLag": 1, "totalLag": 2,
        "state": "Stable", "subscriptionMode": "all",
    }  # fmt: skip
    assert (mode["name"], mode["state"], mode["totalLag"]) == ("__QUEUE_MODE__", "Dead", 1)


def test_lagging_partitions(client: httpx2.Client) -> None:
    push(client, "mail", 1, 2, partition="eu")
    pop(client, "mail", consumerGroup="g", subscriptionMode="all", autoAck=True)
    assert client.get("/api/v1/consumer-groups/lagging").json() == []
    (lane,) = client.get("/api/v1/consumer-groups/lagging", params={"minLagSeconds": 0}).json()
    assert re.fullmatch(TIME, lane.pop("oldest_unconsumed_at"))
    assert re.fullmatch(TIME, lane.pop("last_consumed_at"))
    assert lane.pop("partition_id")
    assert lane.pop("time_lag_seconds") < 10
    assert lane == {
        "consumer_group": "g", "queue_name": "mail", "partition_name": "eu", "worker_id": None, "offset_lag": 1,
        "lag_hours": 0.0,
    }  # fmt: skip


def test_one_group(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2, 3, partition="eu")
    group = f"{queue}-g"
    ack_batch(api, pop(api, queue, consumerGroup=group, subscriptionMode="all"), group=group)
    (held,) = pop(api, queue, consumerGroup=group)
    body = api.get(f"/api/v1/consumer-groups/{group}").json()
    assert list(body) == [queue]
    (lane,) = body[queue]["partitions"]
    assert re.fullmatch(TIME, lane.pop("lastConsumedAt"))
    assert lane.pop("timeLagSeconds") < 10
    assert lane == {
        "partition": "eu", "workerId": held["leaseId"], "totalConsumed": 1, "offsetLag": 2, "leaseActive": True,
    }  # fmt: skip


def test_an_unknown_group_is_empty(api: httpx2.Client, queue: str) -> None:
    answer = api.get(f"/api/v1/consumer-groups/{queue}-nobody")
    assert (answer.status_code, answer.json()) == (200, {})


@pytest.mark.parametrize("one_queue", [False, True])
def test_a_deleted_group_reads_everything_again(api: httpx2.Client, queue: str, one_queue: bool) -> None:
    spread(api, queue)
    group = f"{queue}-g"
    assert consume(api, queue, group, subscriptionMode="all") == list(range(10))
    path = f"/api/v1/consumer-groups/{group}" + (f"/queues/{queue}" if one_queue else "")
    expected = {"success": True, "consumerGroup": group, "deletedPartitions": 10, "metadataDeleted": True}
    assert api.delete(path).json() == expected | ({"queueName": queue} if one_queue else {})
    assert consume(api, queue, group, subscriptionMode="all") == list(range(10))


def test_deleting_a_group_that_is_not_there_is_fine(api: httpx2.Client, queue: str) -> None:
    body = api.delete(f"/api/v1/consumer-groups/{queue}-nobody").json()
    assert (body["success"], body["deletedPartitions"]) == (True, 0)
    assert api.delete(f"/api/v1/consumer-groups/{queue}-nobody/queues/{queue}").json()["deletedPartitions"] == 0


def test_without_metadata_the_old_start_applies_again(api: httpx2.Client, queue: str) -> None:
    push(api, queue, "old")
    group = f"{queue}-g"
    assert pop(api, queue, consumerGroup=group, subscriptionMode="new") == []
    push(api, queue, "new")
    assert consume(api, queue, group) == ["new"]
    body = api.delete(f"/api/v1/consumer-groups/{group}", params={"deleteMetadata": "false"}).json()
    assert (body["metadataDeleted"], body["deletedPartitions"]) == (False, 1)
    assert consume(api, queue, group) == ["new"]


def test_a_changed_start_does_not_move_cursors(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2)
    group = f"{queue}-g"
    consume(api, queue, group, subscriptionMode="all")
    body = {"subscriptionTimestamp": "2020-01-01T00:00:00Z"}
    assert api.post(f"/api/v1/consumer-groups/{group}/subscription", json=body).json() == {
        "success": True, "consumerGroup": group, "newTimestamp": "2020-01-01T00:00:00.000Z", "rowsUpdated": 1,
    }  # fmt: skip
    assert consume(api, queue, group) == []
    api.delete(f"/api/v1/consumer-groups/{group}", params={"deleteMetadata": "false"})
    assert consume(api, queue, group, subscriptionMode="new") == [1, 2]


@pytest.mark.parametrize("body", [None, {}, {"subscriptionTimestamp": None}, {"subscriptionTimestamp": "soon"}])
def test_a_start_must_be_a_time(api: httpx2.Client, body: Json | None) -> None:
    answer = api.post("/api/v1/consumer-groups/g/subscription", json=body)
    assert (answer.status_code, "subscriptionTimestamp" in answer.json()["error"]) == (400, True)


def test_seek_to_a_time_before_the_pushes_brings_all_again(api: httpx2.Client, queue: str) -> None:
    before = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    spread(api, queue)
    group = f"{queue}-g"
    assert consume(api, queue, group, subscriptionMode="all") == list(range(10))
    body = seek(api, queue, group, timestamp=before)
    assert re.fullmatch(TIME, body.pop("targetTimestamp"))
    assert body == {
        "success": True, "consumerGroup": group, "queueName": queue, "seekToEnd": False, "partitionsUpdated": 10,
        "redelivered": 10, "skipped": 0, "dryRun": False,
    }  # fmt: skip
    assert consume(api, queue, group) == list(range(10))


def test_seek_to_the_end_and_to_the_beginning(api: httpx2.Client, queue: str) -> None:
    spread(api, queue)
    group = f"{queue}-g"
    pop(api, queue, consumerGroup=group, subscriptionMode="all")
    body = seek(api, queue, group, toEnd=True)
    assert (body["seekToEnd"], body["targetTimestamp"], body["skipped"]) == (True, None, 10)
    assert consume(api, queue, group) == []
    assert seek(api, queue, group, toBeginning=True)["redelivered"] == 10
    assert consume(api, queue, group) == list(range(10))


def test_a_preview_moves_nothing(api: httpx2.Client, queue: str) -> None:
    spread(api, queue)
    group = f"{queue}-g"
    consume(api, queue, group, subscriptionMode="all")
    body = seek(api, queue, group, toBeginning=True, dryRun=True)
    assert (body["redelivered"], body["dryRun"]) == (10, True)
    assert consume(api, queue, group) == []


def test_seek_by_seq(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2, 3, partition="a")
    push(api, queue, 4, 5, partition="b")
    group = f"{queue}-g"
    consume(api, queue, group, subscriptionMode="all")
    body = seek(api, queue, group, seq={"a": 1, "b": 1})
    assert (body["partitionsUpdated"], body["redelivered"]) == (2, 3)
    assert consume(api, queue, group) == [2, 3, 5]


def test_seek_of_one_partition_goes_to_its_end(api: httpx2.Client, queue: str) -> None:
    spread(api, queue)
    group = f"{queue}-g"
    pop(api, queue, "p9", consumerGroup=group, subscriptionMode="all")
    body = api.post(f"/api/v1/consumer-groups/{group}/queues/{queue}/partitions/p3/seek").json()
    assert (body["partitionsUpdated"], body["skipped"], body["seekToEnd"]) == (1, 1, True)
    seek(api, queue, group, seq={"p9": 0})
    assert consume(api, queue, group) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    "body",
    [None, {}, {"toEnd": False}, {"toEnd": True, "timestamp": "2026-01-01T00:00:00Z"}, {"timestamp": "soon"},
     {"toEnd": "yes"}, {"seq": {"p": -1}}, {"seq": {"p": "x"}}, {"seq": {"nope": 1}}],
)  # fmt: skip
def test_a_seek_must_say_where(api: httpx2.Client, queue: str, body: Json | None) -> None:
    push(api, queue, 1)
    answer = api.post(f"/api/v1/consumer-groups/g/queues/{queue}/seek", json=body)
    assert answer.status_code == 400
    if body in ({}, {"toEnd": False}):
        assert answer.json()["error"].startswith("Must specify either 'toEnd': true or 'timestamp'")


def test_seeking_in_an_unknown_queue_is_404(api: httpx2.Client, queue: str) -> None:
    answer = api.post(f"/api/v1/consumer-groups/g/queues/{queue}/seek", json={"toEnd": True})
    assert (answer.status_code, answer.json()["code"]) == (404, "QUEUE_NOT_FOUND")
