"""Whatever is sent: a clear 4xx, nothing stored, and the neighbours unharmed."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx2
import pytest

from tests.server.calls import data, pop, push
from tests.server.running import Running, run_broker

DEEP = "[" * 100_000 + "]" * 100_000
PAYLOADS = {
    "nul": '"a\\u0000b"',
    "nul in a key": '{"\\u0000": 1}',
    "huge number": "1e200000",
    "lone surrogate": '"\\ud800"',
    "deep": DEEP,
}
BODIES = {
    "no JSON": b"items",
    "half JSON": b'{"items": [{"queue": "q"',
    "trailing": b'{"items": []} x',
    "not UTF-8 in a name": b'{"items": [{"queue": "\xff\xfe"}]}',
    "not UTF-8 in a payload": b'{"items": [{"queue": "q", "payload": "\xff"}]}',
    "an array": b"[]",
    "a number": b"42",
    "null": b"null",
    "deep": DEEP.encode(),
    "NaN": b'{"items": [{"queue": "q", "payload": NaN}]}',
}
POSTS = [
    "/api/v1/push",
    "/api/v1/ack",
    "/api/v1/ack/batch",
    "/api/v1/transaction",
    "/api/v1/configure",
    "/api/v1/nack",
    "/api/v1/lease/00000000-0000-7000-8000-000000000000/extend",
    "/api/v1/system/maintenance",
]


def require_refusal(answer: httpx2.Response) -> None:
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text[:200])
    body = answer.json()
    assert body["error"]
    assert body["code"]
    assert body["retryable"] is False
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize("name", PAYLOADS)
def test_payloads_postgresql_cannot_store_are_refused(api: httpx2.Client, queue: str, name: str) -> None:
    body = f'{{"items": [{{"queue": "{queue}", "payload": 1}}, {{"queue": "{queue}", "payload": {PAYLOADS[name]}}}]}}'
    require_refusal(api.post("/api/v1/push", content=body.encode()))
    assert pop(api, queue) == []


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("path", POSTS)
def test_bodies_that_are_none_are_refused(api: httpx2.Client, path: str, name: str) -> None:
    require_refusal(api.post(path, content=BODIES[name]))


def test_one_bad_push_among_many_fails_alone(api: httpx2.Client, queue: str) -> None:
    push(api, queue, "first")

    def one(number: int) -> int:
        payload = '"\\u0000"' if number % 10 == 5 else str(number)
        body = f'{{"items": [{{"queue": "{queue}", "payload": {payload}}}]}}'
        return api.post("/api/v1/push", content=body.encode()).status_code

    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(one, range(60)))
    assert [status for number, status in enumerate(statuses) if number % 10 == 5] == [400] * 6
    assert [status for number, status in enumerate(statuses) if number % 10 != 5] == [201] * 54
    assert len(pop(api, queue, batch=100)) == 55


@pytest.mark.parametrize("name", ["'; drop table queen.messages; --", '"', "\\", "%s $1 {}", "ü" * 200, "x" * 512])
def test_names_are_only_names(api: httpx2.Client, queue: str, name: str) -> None:
    name = f"{queue}{name}"[:512].encode()[:512].decode(errors="ignore")
    push(api, name, 1, partition=name, transactionId=name[:255])
    messages = pop(api, quote(name, safe=""), quote(name, safe=""), consumerGroup=name)
    assert data(messages) == [1]
    assert messages[0]["queue"] == name


@pytest.mark.parametrize("field", ["queue", "partition", "transactionId"])
@pytest.mark.parametrize("value", ["x" * 5000, "a\0b"])
def test_names_have_limits(api: httpx2.Client, queue: str, field: str, value: str) -> None:
    require_refusal(api.post("/api/v1/push", json={"items": [{"queue": queue, "payload": 1, field: value}]}))


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/pop/queue/%ff",
        "/api/v1/pop/queue/q?consumerGroup=%ff",
        "/api/v1/pop/queue/q?consumerGroup=%00",
        "/api/v1/pop/queue/%00",
        "/api/v1/pop/queue/q/partition/%00",
        "/api/v1/pop/queue/q?batch=-1",
        "/api/v1/pop/queue/q?batch=99999999999999",
        "/api/v1/pop/queue/q?wait=true&timeout=-5",
        "/api/v1/pop/queue/q?leaseSeconds=0",
        "/api/v1/pop?namespace=%00",
        "/api/v1/unknown",
        "/api",
        "/../etc/passwd",
    ],
)
def test_paths_and_queries_are_checked(api: httpx2.Client, path: str) -> None:
    require_refusal(api.get(path))


def test_the_wrong_method_says_which_is_right(api: httpx2.Client) -> None:
    answer = api.get("/api/v1/push")
    require_refusal(answer)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_body_above_the_limit_is_413(database: str, tmp_path: Path) -> None:
    with (
        run_broker(database, tmp_path, body_limit=4096) as running,
        httpx2.Client(base_url=running.url, timeout=20) as client,
    ):
        body = json.dumps({"items": [{"queue": "q", "payload": "x" * 10_000}]}).encode()
        for content in (body, iter([body[:5000], body[5000:]])):
            answer = client.post("/api/v1/push", content=content)
            require_refusal(answer)
            assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")
        assert push(client, "q", 1)[0]["status"] == "queued"


def test_a_body_that_never_comes_is_broken_off(broker: Running) -> None:
    broker.server.broker.bodies._time = 0.2
    address = urlsplit(broker.url)
    with socket.create_connection((str(address.hostname), address.port or 0), timeout=10) as connection:
        connection.sendall(b"POST /api/v1/push HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nslow")
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")


def test_what_is_not_http_does_not_hurt(api: httpx2.Client, shared_broker: Running) -> None:
    address = urlsplit(shared_broker.url)
    for noise in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\ncontent-length: -4\r\n\r\n"):
        with socket.create_connection((str(address.hostname), address.port or 0), timeout=10) as connection:
            connection.sendall(noise)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(1000)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    assert api.get("/health/live").status_code == 200


def test_a_request_id_is_kept_or_made(api: httpx2.Client) -> None:
    assert api.get("/health/live", headers={"x-request-id": "mine-7"}).headers["x-request-id"] == "mine-7"
    first, second = (api.get("/health/live").headers["x-request-id"] for _ in range(2))
    assert first != second
    assert len(api.get("/health/live", headers={"x-request-id": "x" * 5000}).headers["x-request-id"]) == 128


def test_only_named_origins_may_call_from_a_browser(database: str, tmp_path: Path) -> None:
    origin = "https://shop.example"
    with run_broker(database, tmp_path, cors_origins=(origin,)) as running:
        allowed = httpx2.get(f"{running.url}/health", headers={"origin": origin})
        assert allowed.headers["access-control-allow-origin"] == origin
        other = httpx2.get(f"{running.url}/health", headers={"origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
        assert other.headers["vary"] == "origin"
