"""Callers that mean no good, or do not know better: each is answered, none holds anything for long."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import jwt
import pytest

from tests.server.calls import data, pop, push
from tests.server.conftest import SECRET
from tests.server.running import Running, run_broker
from tests.server.wires import ask, open_wire
from tests.support.postgres import TEMPLATE, Postgres
from tests.support.wait import wait_for


@pytest.fixture(scope="module")
def strict(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker with tight limits."""
    limits = {"header_limit": 4096, "head_timeout": 0.5, "connection_limit": 5, "body_limit": 100_000}
    with (
        postgres.scratch(TEMPLATE) as database,
        run_broker(database, tmp_path_factory.mktemp("strict"), **limits) as running,
    ):
        yield running


def refusal(url: str, said: bytes) -> tuple[int, str]:
    """The status and code of the answer after which the broker hangs up."""
    with open_wire(url) as wire:
        wire.say(said)
        head = wire.head()
        code = json.loads(wire.body(head))["code"]
        assert b"connection: close" in head
        assert wire.end() == b""
        return int(head.split()[1]), code


def test_a_head_that_is_too_large_is_refused_whole_or_in_pieces(strict: Running) -> None:
    many = [b"x-%d: %s" % (number, b"y" * 100) for number in range(60)]
    assert refusal(strict.url, ask("/health/live", "short", *many)) == (431, "HEAD_TOO_LARGE")
    assert refusal(strict.url, b"GET / HTTP/1.1\r\nx: " + b"y" * 9000) == (431, "HEAD_TOO_LARGE")
    assert refusal(strict.url, b"GET /" + b"y" * 9000) == (431, "HEAD_TOO_LARGE")
    with open_wire(strict.url) as wire:
        wire.say(ask("/health/live", "short", b"x: " + b"y" * 3000))
        assert wire.status() == 200
        wire.say(ask("/health/live", "short", b"x: " + b"y" * 3000))
        assert wire.status() == 200, "each request counts by itself"


@pytest.mark.parametrize("start", [b"GET /health/live HTTP/1.1\r\nhost: x\r\n", b"P"])
def test_a_head_that_does_not_end_is_answered_in_time(strict: Running, start: bytes) -> None:
    assert refusal(strict.url, start) == (408, "HEAD_TOO_SLOW")


def test_what_is_no_http_is_answered_in_the_envelope(strict: Running) -> None:
    assert refusal(strict.url, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") == (400, "INVALID_HTTP")
    assert refusal(strict.url, b"GET / HTTP/1.1\r\nno colon\r\n\r\n") == (400, "INVALID_HTTP")


def test_connections_above_the_limit_are_turned_away(strict: Running) -> None:
    with httpx2.Client(base_url=strict.url) as first:
        assert first.get("/health/live").status_code == 200
        held = [open_wire(strict.url) for _ in range(4)]
        for wire in held:
            wire.__enter__()
        assert refusal(strict.url, b"") == (503, "TOO_MANY_CONNECTIONS")
        assert first.get("/health/live").status_code == 200
        for wire in held:
            wire.__exit__(None, None, None)
    wait_for(lambda: httpx2.get(f"{strict.url}/health/live").status_code == 200)


@pytest.mark.parametrize("other", [b"h2c", b"websocket", b"anything"])
def test_a_push_that_wishes_for_another_protocol_is_answered(api: httpx2.Client, queue: str, other: bytes) -> None:
    body = json.dumps({"items": [{"queue": queue, "payload": 1}]}).encode()
    wishes = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: " + other, b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA")
    with open_wire(str(api.base_url)) as wire:
        for _ in range(2):
            wire.say(ask("/api/v1/push", "short", *wishes, body=body))
            assert wire.status() == 201
    assert data(pop(api, queue, batch=5)) == [1, 1]


def test_who_asks_before_sending_too_much_is_told_before_sending(strict: Running) -> None:
    with open_wire(strict.url) as wire:
        wire.say(b"POST /api/v1/push HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 200000\r\n\r\n")
        head = wire.head()
        assert head.startswith(b"http/1.1 413"), head


def test_trailers_change_nothing(guarded: Running) -> None:
    token = jwt.encode({"role": "admin"}, SECRET, "HS256")
    reader = jwt.encode({"role": "read-only"}, SECRET, "HS256")
    head = b"POST /api/v1/push HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b'{"items": []}'
    with open_wire(guarded.url) as wire:
        wire.say(head % reader.encode() + b"%x\r\n%s\r\n" % (len(body), body))
        wire.say(b"0\r\nauthorization: Bearer %s\r\n\r\n" % token.encode())
        assert wire.status() == 403
    said = head % reader.encode() + b"%x\r\n%s\r\n0\r\nauthorization: Bearer %s\r\n\r\n" % (
        len(body),
        body,
        token.encode(),
    )
    with open_wire(guarded.url) as wire:
        wire.say(said)
        assert wire.status() == 403


def test_head_takes_no_messages(api: httpx2.Client, queue: str) -> None:
    push(api, queue, 1)
    for path in (f"queue/{queue}", f"queue/{queue}/partition/Default"):
        assert api.head(f"/api/v1/pop/{path}", params={"autoAck": "true"}).status_code == 405
    assert data(pop(api, queue)) == [1]


SWOLLEN = (
    "1e131071",
    "[1E+401]",
    '{"a": {"b": 0.5e-12345}}',
    "1e999999999999999999999999999999",
    f"{'[' * 513}{']' * 513}",
)
FINE = (
    "1e400",
    '"1e131071"',
    '{"1e131071": "x\\"1e131071"}',
    f"{'[' * 512}{']' * 512}",
    f"[{'[],' * 1000}[]]",
    f'"{"[" * 2000}"',
)


@pytest.mark.parametrize("payload", SWOLLEN)
def test_payloads_that_swell_are_refused(api: httpx2.Client, queue: str, payload: str) -> None:
    answer = api.post("/api/v1/push", content=f'{{"items": [{{"queue": "{queue}", "payload": {payload}}}]}}')
    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID_PAYLOAD"), answer.text


@pytest.mark.parametrize("payload", FINE)
def test_payloads_that_only_look_it_are_taken(api: httpx2.Client, queue: str, payload: str) -> None:
    answer = api.post("/api/v1/push", content=f'{{"items": [{{"queue": "{queue}", "payload": {payload}}}]}}')
    assert answer.status_code == 201, answer.text
    assert api.get(f"/api/v1/pop/queue/{queue}").status_code == 200
