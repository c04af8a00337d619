from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.server.calls import ack, ack_batch, configure, data, pop, push

NOWHERE = "51e00000-0000-8001-8000-0000000fffff"
Json = dict[str, Any]


def listed(api: httpx2.Client, queue: str, **query: Any) -> list[Json]:
    answer = api.get("/api/v1/messages", params={"queue": queue, **query})
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.json()["messages"]
    return found


def path(pushed: Json) -> str:
    return f"/api/v1/messages/{pushed['partition_id']}/{pushed['transaction_id']}"


def test_the_list_has_everything_but_payloads(api: httpx2.Client, queue: str) -> None:
    trace = str(uuid4())
    (pushed,) = push(api, queue, {"n": 1}, partition="eu", transactionId="m-1", traceId=trace)
    answer = api.get("/api/v1/messages", params={"queue": queue}).json()
    (entry,) = answer["messages"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry.pop("createdAt"))
    assert entry == {
        "id": pushed["message_id"], "transactionId": "m-1", "partitionId": pushed["partition_id"],
        "queuePath": f"{queue}/eu", "queue": queue, "partition": "eu", "namespace": "", "task": "",
        "status": "pending", "queueStatus": None, "busStatus": {"consumedBy": 0, "totalGroups": 0},
        "traceId": trace, "producerSub": None, "queuePriority": 0, "leaseExpiresAt": None,
    }  # fmt: skip
    assert answer["mode"] == {"hasQueueMode": False, "busGroupsCount": 0, "type": "none"}
    assert answer["nextCursor"] is None


def test_statuses(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2, 3, 4)
    ack(api, pop(api, queue)[0])
    ack(api, pop(api, queue)[0], "dlq")
    pop(api, queue)
    found = listed(api, queue)
    assert [entry["status"] for entry in found] == ["pending", "processing", "dead_letter", "completed"]
    assert [bool(entry["leaseExpiresAt"]) for entry in found] == [False, True, False, False]
    for status in ("pending", "processing", "dead_letter", "completed"):
        assert [entry["status"] for entry in listed(api, queue, status=status)] == [status]


def test_a_queue_of_named_groups(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    for group in ("a", "b"):
        pop(api, queue, consumerGroup=group, autoAck=group == "a", subscriptionMode="all")
    answer = api.get("/api/v1/messages", params={"queue": queue}).json()
    assert answer["messages"][0]["busStatus"] == {"consumedBy": 1, "totalGroups": 2}
    assert answer["messages"][0]["status"] == "processing"
    assert answer["mode"] == {"hasQueueMode": False, "busGroupsCount": 2, "type": "bus"}


def test_pages_by_cursor_and_by_offset_agree(api: httpx2.Client, queue: str) -> None:
    for n in range(5):
        push(api, queue, n, partition=f"p{n % 2}", transactionId=f"t{n}")
    whole = [entry["transactionId"] for entry in listed(api, queue)]
    assert whole == ["t4", "t3", "t2", "t1", "t0"]
    assert [entry["transactionId"] for entry in listed(api, queue, limit=2, offset=3)] == whole[3:]
    seen, cursor = [], None
    for _ in range(3):
        page = api.get(
            "/api/v1/messages", params={"queue": queue, "limit": 2, **({"cursor": cursor} if cursor else {})}
        ).json()
        seen += [entry["transactionId"] for entry in page["messages"]]
        cursor = page["nextCursor"]
    assert (seen, cursor) == (whole, None)


def test_filters(api: httpx2.Client, queue: str) -> None:
    name = f"{queue}.task"
    push(api, name, 1, partition="a")
    push(api, name, 2, partition="b")
    assert len(listed(api, name)) == 2
    assert [entry["partition"] for entry in listed(api, name, partition="b")] == ["b"]
    assert len(listed(api, name, ns=queue, task="task")) == 2
    assert listed(api, name, task="other") == []
    later = (datetime.now(UTC) + timedelta(minutes=2)).isoformat()
    assert listed(api, name, **{"from": later}) == []
    assert len(listed(api, name, **{"from": "2020-01-01T00:00:00Z", "to": datetime.now(UTC).isoformat()})) == 2


def test_to_covers_its_whole_minute(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    (entry,) = listed(api, queue)
    minute = entry["createdAt"][:17] + "00.000Z"
    assert len(listed(api, queue, to=minute)) == 1


@pytest.mark.parametrize(
    ("query", "code"),
    [("status=odd", "INVALID_STATUS"), ("from=yesterday", "INVALID_FROM"), ("to=9", "INVALID_TO"),
     ("limit=5000", "INVALID_LIMIT"), ("cursor=x", "INVALID_CURSOR"), ("queue=%00", "INVALID_QUEUE")],
)  # fmt: skip
def test_what_the_list_cannot_do_is_a_clear_400(api: httpx2.Client, query: str, code: str) -> None:
    answer = api.get(f"/api/v1/messages?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert answer.json()["error"]


@pytest.mark.parametrize("payload", [None, {}, 0, "text", [1, {"a": None}], {"n": 1.5, "deep": {"x": [True]}}])
def test_one_message_with_its_payload(api: httpx2.Client, queue: str, payload: Any) -> None:
    (pushed,) = push(api, queue, payload)
    body = api.get(path(pushed)).json()
    assert body["payload"] == payload
    assert (body["status"], body["isEncrypted"], body["errorMessage"], body["retryCount"]) == (
        "pending", False, None, 0,
    )  # fmt: skip
    assert body["queueConfig"] == {"leaseTime": 300, "retryLimit": 3, "retryDelay": 0, "ttl": 3600, "priority": 0}
    assert body["consumerGroups"] == []


def test_how_groups_stand_to_a_message(api: httpx2.Client, queue: str) -> None:
    (pushed,) = push(api, queue, 1)
    pop(api, queue, consumerGroup="done", autoAck=True, subscriptionMode="all")
    pop(api, queue, consumerGroup="busy", subscriptionMode="all")
    done, busy = sorted(api.get(path(pushed)).json()["consumerGroups"], key=lambda group: not group["consumed"])
    assert done == {"name": "done", "consumed": True, "leaseExpiresAt": None}
    assert (busy["name"], busy["consumed"], bool(busy["leaseExpiresAt"])) == ("busy", False, True)


def test_an_encrypted_message_comes_back_in_clear(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, encryptionEnabled=True)
    (pushed,) = push(api, queue, {"secret": 1})
    body = api.get(path(pushed)).json()
    assert (body["payload"], body["isEncrypted"]) == ({"secret": 1}, True)


@pytest.mark.parametrize("place", [f"{NOWHERE}/m", "not-an-id/m"])
@pytest.mark.parametrize("rest", ["", "/deliveries"])
def test_an_unknown_message_is_404(api: httpx2.Client, place: str, rest: str) -> None:
    answer = api.get(f"/api/v1/messages/{place}{rest}")
    assert (answer.status_code, answer.json()["error"]) == (404, "Message not found")
    assert answer.json()["code"] == "MESSAGE_NOT_FOUND"


@pytest.mark.parametrize("rest", ["retry", "dlq"])
def test_an_unknown_message_cannot_be_moved(api: httpx2.Client, rest: str) -> None:
    assert api.post(f"/api/v1/messages/{NOWHERE}/m/{rest}").status_code == 404


def test_deleting_one_message(api: httpx2.Client, queue: str) -> None:
    first, second = push(api, queue, 1, 2)
    assert api.delete(path(first)).json() == {
        "success": True, "partitionId": first["partition_id"], "transactionId": first["transaction_id"],
        "message": "Message deleted successfully",
    }  # fmt: skip
    again = api.delete(path(first))
    assert (again.status_code, again.json()["success"]) == (200, False)
    assert data(pop(api, queue, batch=2)) == [2]
    assert api.get(path(second)).status_code == 200


def test_deleting_a_message_takes_its_dead_letter(api: httpx2.Client, queue: str) -> None:
    (pushed,) = push(api, queue, 1)
    ack(api, pop(api, queue)[0], "dlq")
    api.delete(path(pushed))
    assert api.get("/api/v1/dlq", params={"queue": queue}).json()["total"] == 0


def test_the_story_of_a_message(api: httpx2.Client, queue: str) -> None:
    (pushed,) = push(api, queue, 1)
    ack(api, pop(api, queue)[0], "failed")
    (held,) = pop(api, queue, wait=True, timeout=3000)
    story = api.get(f"{path(pushed)}/deliveries").json()["deliveries"]
    assert [(each["outcome"], each["batchFrom"], each["batchTo"]) for each in story] == [
        ("failed", 1, 1), ("leased", 1, 1),
    ]  # fmt: skip
    assert (story[1]["leaseId"], story[1]["endedAt"]) == (held["leaseId"], None)


def test_retry_pushes_a_message_again(api: httpx2.Client, queue: str) -> None:
    (pushed,) = push(api, queue, {"n": 1})
    ack_batch(api, pop(api, queue))
    body = api.post(f"{path(pushed)}/retry").json()
    assert (body["success"], body["queue"]) == (True, queue)
    (again,) = pop(api, queue)
    assert (again["data"], again["id"]) == ({"n": 1}, body["messageId"])


def test_retry_into_a_full_queue_is_429(api: httpx2.Client, queue: str) -> None:
    configure(api, queue, maxSize=1)
    (pushed,) = push(api, queue, 1)
    answer = api.post(f"{path(pushed)}/retry")
    assert (answer.status_code, answer.json()["code"]) == (429, "QUEUE_FULL")


def test_moving_a_message_to_the_dead_letters(api: httpx2.Client, queue: str) -> None:
    first, _ = push(api, queue, 1, 2)
    body = api.post(f"{path(first)}/dlq", json={"error": "poison"}).json()
    assert (body["success"], body["consumerGroup"]) == (True, "__QUEUE_MODE__")
    (letter,) = api.get("/api/v1/dlq", params={"queue": queue}).json()["messages"]
    assert (letter["data"], letter["errorMessage"], letter["deadLetterId"]) == (1, "poison", body["deadLetterId"])
    assert data(pop(api, queue, batch=2)) == [2]


def test_moving_needs_no_body_and_names_a_group(api: httpx2.Client, queue: str) -> None:
    (pushed,) = push(api, queue, 1)
    assert api.post(f"{path(pushed)}/dlq").json()["consumerGroup"] == "__QUEUE_MODE__"
    assert api.post(f"{path(pushed)}/dlq", json={"consumerGroup": "g"}).json()["consumerGroup"] == "g"
    assert api.post(f"{path(pushed)}/dlq", json={"consumerGroup": 3}).status_code == 400
    assert api.post(f"{path(pushed)}/dlq", content=b"{").status_code == 400


def test_messages_of_a_queue_for_the_status(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2)
    body = api.get(f"/api/v1/status/queues/{queue}/messages").json()
    assert [(entry["queuePath"], entry["status"]) for entry in body] == [(f"{queue}/Default", "pending")] * 2
    assert api.get(f"/api/v1/status/queues/{queue}-no/messages").json() == []


def test_messages_are_listed_after_a_seek_past_a_lease(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1, 2)
    assert len(pop(api, queue, consumerGroup="g")) == 1
    moved = api.post(f"/api/v1/consumer-groups/g/queues/{queue}/seek", json={"toEnd": True})
    assert moved.status_code == 200, moved.text
    listed = api.get("/api/v1/messages", params={"queue": queue})
    assert (listed.status_code, len(listed.json()["messages"])) == (200, 2), listed.text
