"""Answers on the wire, byte by byte, by both ways: whole, in order, and nothing is kept back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from queen.server.protocol import Protocol
from tests.server.calls import ack, data, pop, push
from tests.server.running import Running, run_broker
from tests.server.wires import WAYS, Wire, ask, counting_uvicorns_way, open_wire
from tests.support.wait import wait_for

BODY = b'{"items":[{"queue":"wire","payload":1}]}'
LIVE = "/health/live"
PUSH = "/api/v1/push"
either_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def wire(shared_broker: Running) -> Iterator[Wire]:
    with open_wire(shared_broker.url) as wire:
        yield wire


def test_whole_requests_go_the_short_way_and_no_others(broker: Running) -> None:
    chunked = b"transfer-encoding: chunked"
    with counting_uvicorns_way(broker) as seen, open_wire(broker.url) as wire:
        for whole in (ask(LIVE), ask(PUSH, body=BODY), ask(f"{LIVE}?a=b"), ask(f"http://x{LIVE}"), ask("http://x")):
            wire.say(whole)
            assert wire.status() < 300
        assert seen == []
        wire.say(ask(LIVE, "uvicorn"))
        assert wire.status() == 200
        wire.say(ask(PUSH, "short", chunked, method="POST") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY))
        assert wire.status() == 201
        wire.say(ask(LIVE) + ask(LIVE))
        assert (wire.status(), wire.status()) == (200, 200)
        assert seen == [LIVE, PUSH, LIVE]


@either_way
def test_a_head_alone_is_sent(wire: Wire, way: str) -> None:
    wire.say(ask(LIVE, way, b"connection: close", method="HEAD"))
    head = wire.head()
    assert head.startswith(b"http/1.1 200")
    assert int(head.split(b"content-length: ")[1].split(b"\r\n")[0]) > 0
    assert wire.end() == b""


@either_way
def test_nothing_follows_a_204(wire: Wire, way: str) -> None:
    wire.say(ask("/api/v1/pop/queue/nothing-there", way) + ask(LIVE))
    first = wire.head()
    assert first.startswith(b"http/1.1 204")
    assert b"content-length" not in first
    assert json.loads(wire.body(wire.head()))["status"]


@either_way
def test_both_ways_answer_with_the_same_headers(wire: Wire, way: str) -> None:
    wire.say(ask(PUSH, way, b"X-Request-Id: mine", body=BODY))
    head = wire.head()
    length = len(wire.body(head))
    assert head.split(b"\r\n") == [
        b"http/1.1 201 created",
        b"x-request-id: mine",
        b"access-control-allow-origin: *",
        b"content-type: application/json",
        b"content-length: %d" % length,
    ]


@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_answers_to_requests_sent_at_once_come_in_order(wire: Wire, first: str, second: str) -> None:
    wire.say((ask(PUSH, first, body=BODY) + ask(LIVE, second)) * 3)
    for status in (b"201", b"200") * 3:
        head = wire.head()
        assert head.startswith(b"http/1.1 " + status)
        json.loads(wire.body(head))


@either_way
def test_who_waits_is_answered_before_what_was_sent_behind(
    api: httpx2.Client, shared_broker: Running, wire: Wire, queue: str, way: str
) -> None:
    wire.say(ask(f"/api/v1/pop/queue/{queue}?wait=true&timeout=20000", way) + ask(LIVE) + ask(PUSH, body=BODY))
    wait_for(lambda: shared_broker.server.broker.engine.parked.get(queue))
    push(api, queue, "first")
    assert b'"first"' in wire.body(wire.head())
    assert (wire.status(), wire.status()) == (200, 201)


def test_a_caller_may_ask_before_it_sends_the_body(wire: Wire) -> None:
    wire.say(ask(PUSH, "short", b"expect: 100-continue", body=BODY).removesuffix(BODY))
    assert wire.head() == b"http/1.1 100 continue"
    wire.say(BODY)
    head = wire.head()
    assert head.startswith(b"http/1.1 201")
    assert json.loads(wire.body(head))[0]["status"] == "queued"


def test_a_request_sent_in_pieces_is_one_request(wire: Wire) -> None:
    request = ask(PUSH, body=BODY)
    for place in range(len(request)):
        wire.say(request[place : place + 1])
    assert wire.status() == 201
    wire.say(ask(LIVE))
    assert wire.status() == 200


def test_a_body_that_comes_later_is_waited_for(broker: Running) -> None:
    with open_wire(broker.url) as wire:
        wire.say(ask(PUSH, body=BODY)[: -len(BODY) // 2])
        wait_for(lambda: broker.server.server_state.tasks)
        wire.say(ask(PUSH, body=BODY)[-len(BODY) // 2 :])
        assert wire.status() == 201


@either_way
@pytest.mark.parametrize(
    ("version", "header"), [("1.0", b"a: b"), ("1.0", b"connection: keep-alive"), ("1.1", b"connection: close")]
)
def test_the_connection_ends_where_it_should(wire: Wire, way: str, version: str, header: bytes) -> None:
    wire.say(ask(LIVE, way, header, version=version))
    head = wire.head()
    assert head.startswith(b"http/1.1 200")
    assert head.count(b"connection: close") == 1
    wire.body(head)
    assert wire.end() == b""


@either_way
def test_a_body_above_the_limit_ends_the_connection(database: str, tmp_path: Path, way: str) -> None:
    body = b'{"items":[{"queue":"wire","payload":"%s"}]}' % (b"x" * 2000)
    with run_broker(database, tmp_path, body_limit=1024) as running, open_wire(running.url) as wire:
        wire.say(ask(PUSH, body=BODY))
        assert wire.status() == 201
        wire.say(ask(PUSH, way, body=body))
        head = wire.head()
        assert head.startswith(b"http/1.1 413")
        assert head.count(b"connection: close") == 1
        assert json.loads(wire.body(head))["code"] == "BODY_TOO_LARGE"
        assert wire.end() == b""


@pytest.mark.parametrize(
    "noise",
    [
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\ncontent-length: -4\r\n\r\n",
        b"GET /health\xff/live HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET ?query HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nx-request-id: a\x01b\r\n\r\n",
        b"POST /api/v1/push HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nno number\r\n",
    ],
)
def test_what_is_no_request_is_400_also_after_a_good_one(wire: Wire, noise: bytes) -> None:
    wire.say(ask(LIVE))
    assert wire.status() == 200
    wire.say(noise)
    head = wire.head()
    assert head.startswith(b"http/1.1 400")
    assert b"connection: close" in head
    wire.body(head)
    assert wire.end() == b""


@pytest.mark.parametrize(("way", "behind"), [("short", b""), ("short", ask(LIVE)), ("uvicorn", b"")])
def test_a_caller_that_hangs_up_leaves_no_lease(
    api: httpx2.Client, shared_broker: Running, queue: str, way: str, behind: bytes
) -> None:
    """A lease it got while it hung up is given back, long before it runs out."""
    push(api, queue, 0)
    ack(api, pop(api, queue)[0])
    server = shared_broker.server
    with open_wire(shared_broker.url) as wire:
        wire.say(ask(f"/api/v1/pop/queue/{queue}?wait=true&timeout=30000", way) + behind)
        wait_for(lambda: server.broker.engine.parked.get(queue))
    wait_for(lambda: not server.server_state.tasks)
    push(api, queue, 1)
    wait_for(lambda: data(pop(api, queue)) == [1])


@either_way
def test_who_does_not_read_is_not_answered_without_end(client: httpx2.Client, broker: Running, way: str) -> None:
    """The first answer fills the connection; the second waits, and what is behind it is not even read."""
    size, times = 6_000_000, 8
    push(client, "large", "x" * size)
    client.close()
    state, gauges = broker.server.server_state, broker.server.broker.gauges
    answered = state.total_requests
    requests = [ask(f"/api/v1/pop/queue/large?consumerGroup=g{number}", way) for number in range(times)]
    with open_wire(broker.url, unread=65_536) as wire:
        wire.say(requests[0])
        wait_for(lambda: state.total_requests == answered + 1)
        wire.say(requests[1])
        wait_for(lambda: gauges.totals()["pop"][0] == 2)
        wire.say(requests[2])
        wait_for(lambda: connection(broker).flow.read_paused)
        wire.say(b"".join(requests[3:]))
        assert state.total_requests == answered + 1
        assert 0 < connection(broker).direct.get_write_buffer_size() < size
        assert [wire.status() for _ in range(times)] == [200] * times


def connection(broker: Running) -> Protocol:
    """The only connection of a broker."""
    (found,) = broker.server.server_state.connections
    assert isinstance(found, Protocol)
    return found
