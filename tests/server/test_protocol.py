"""Answers on the wire, byte by byte: whole, in order, and nothing is kept back."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.server.running import Running

BODY = b'{"items":[{"queue":"wire","payload":1}]}'
PUSH = b"POST /api/v1/push HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n" % len(BODY)
LIVE = b"GET /health/live HTTP/1.1\r\nhost: x\r\n"


class Wire:
    """A connection that says bytes and hears answers."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._heard = b""

    def say(self, data: bytes) -> None:
        self._connection.sendall(data)

    def head(self) -> bytes:
        """The next answer's status line and headers."""
        while b"\r\n\r\n" not in self._heard:
            self._hear()
        head, _, self._heard = self._heard.partition(b"\r\n\r\n")
        return head.lower()

    def body(self, head: bytes) -> bytes:
        """The body that belongs to a head."""
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(self._heard) < length:
            self._hear()
        body, self._heard = self._heard[:length], self._heard[length:]
        return body

    def end(self) -> bytes:
        """What is left until the other side closes."""
        while data := self._connection.recv(65_536):
            self._heard += data
        return self._heard

    def _hear(self) -> None:
        data = self._connection.recv(65_536)
        assert data, "the connection was closed in the middle of an answer"
        self._heard += data


@pytest.fixture
def wire(shared_broker: Running) -> Iterator[Wire]:
    parts = urlsplit(shared_broker.url)
    assert parts.hostname is not None
    assert parts.port is not None
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
        yield Wire(connection)


def test_a_head_alone_is_sent(wire: Wire) -> None:
    wire.say(LIVE.replace(b"GET", b"HEAD") + b"connection: close\r\n\r\n")
    assert wire.head().startswith(b"http/1.1 200")
    assert wire.end() == b""


def test_nothing_follows_a_204(wire: Wire) -> None:
    wire.say(b"GET /api/v1/pop/queue/nothing-there HTTP/1.1\r\nhost: x\r\n\r\n" + LIVE + b"\r\n")
    first = wire.head()
    assert first.startswith(b"http/1.1 204")
    assert b"content-length" not in first
    assert json.loads(wire.body(wire.head()))["status"]


def test_answers_to_requests_sent_at_once_come_in_order(wire: Wire) -> None:
    wire.say((PUSH + b"\r\n" + BODY + LIVE + b"\r\n") * 3)
    for status in (b"201", b"200") * 3:
        head = wire.head()
        assert head.startswith(b"http/1.1 " + status)
        json.loads(wire.body(head))


def test_a_caller_may_ask_before_it_sends_the_body(wire: Wire) -> None:
    wire.say(PUSH + b"expect: 100-continue\r\n\r\n")
    assert wire.head() == b"http/1.1 100 continue"
    wire.say(BODY)
    head = wire.head()
    assert head.startswith(b"http/1.1 201")
    assert json.loads(wire.body(head))[0]["status"] == "queued"


def test_a_body_sent_in_pieces_is_one_body(wire: Wire) -> None:
    wire.say(PUSH + b"\r\n")
    for place in range(len(BODY)):
        wire.say(BODY[place : place + 1])
    assert wire.head().startswith(b"http/1.1 201")
