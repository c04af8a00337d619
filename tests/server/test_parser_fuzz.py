"""Bytes that are nearly HTTP: every answer is well formed and none is a 5xx, nothing hangs, and the broker works on."""

from __future__ import annotations

import logging
import os
import random
import re
import socket
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.server.calls import data, pop, push
from tests.server.running import Running, run_broker
from tests.support.wait import wait_for

SEED = int(os.environ.get("QUEEN_FUZZ_SEED", "20261116"))
PUSH = b'{"items": [{"queue": "mail", "partition": "p", "payload": {"n": 1}}]}'
KEY = b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n"
SENT = b"POST /api/v1/push HTTP/1.1\r\nhost: x\r\n"
CORPUS = [
    b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n",
    b"GET /api/v1/pop/queue/mail?batch=3&autoAck=true HTTP/1.1\r\nhost: x\r\nx-request-id: abc\r\n\r\n",
    b"GET /api/v1/pop/queue/m%61il/partition/p HTTP/1.0\r\nhost: x\r\nconnection: keep-alive\r\n\r\n",
    b"%scontent-length: %d\r\n\r\n%s" % (SENT, len(PUSH), PUSH),
    b"%sexpect: 100-continue\r\ncontent-length: %d\r\n\r\n%s" % (SENT, len(PUSH), PUSH),
    b"%stransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (SENT, len(PUSH), PUSH),
    b"POST /api/v1/ack HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nx: y\r\n\r\n",
    b"OPTIONS /api/v1/push HTTP/1.1\r\nhost: x\r\norigin: http://x\r\n\r\n",
    b"GET /ws/dashboard HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n" + KEY + b"\r\n",
    b"%sconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\n{}" % SENT,
    b"DELETE /api/v1/resources/queues/none HTTP/1.1\r\nhost: x\r\n\r\n",
]
SIGNS = rb"\r\n \n \r \0 \x80 \xff\xfe \x20 \t : ; % %00 %ff ? # // .. 0 -1 99999999999999999999 ffffffffffffffffff"
HEADERS = (
    b"content-length: 5",
    b"content-length: -5",
    b"transfer-encoding: chunked",
    b"transfer-encoding: gzip",
    b"expect: 100-continue",
    b"expect: 200-ok",
    b"connection: close",
    b"upgrade: websocket",
    b"host: y.example",
    b"x: " + b"y" * 5000,
)
PARTS = [
    *(sign.decode("unicode_escape").encode("latin-1") for sign in SIGNS.split(b" ")),
    *(header + b"\r\n" for header in HEADERS),
    *(b"HTTP/1.1", b"HTTP/2.0", b"HTTP/9.9", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    *(b"a" * 70_000, b"[" * 600, b'{"items": ', b"\xed\xa0\x80"),
]


def mutated(chance: random.Random) -> bytes:
    """A few requests, one after the other, of which some bytes are wrong."""
    said = bytearray(b"".join(chance.choices(CORPUS, k=chance.choice([1, 1, 1, 2, 3]))))
    for _ in range(chance.choice([0, 1, 1, 2, 3, 8])):
        at = chance.randrange(len(said) + 1)
        end = min(at + chance.choice([1, 1, 2, 5, 40]), len(said))
        match chance.randrange(6):
            case 0 if at < len(said):
                said[at] ^= 1 << chance.randrange(8)
            case 1:
                said[at:at] = chance.choice(PARTS)
            case 2:
                del said[at:end]
            case 3:
                said[at:at] = said[at:end]
            case 4:
                said[at:end] = chance.choice(PARTS)
            case _:
                said[at:at] = chance.randbytes(chance.choice([1, 3, 20]))
    return bytes(said)


def converse(url: str, said: bytes, chance: random.Random) -> bytes:
    """Say it in pieces, then no more; all that is heard until the broker hangs up."""
    heard = b""
    parts = urlsplit(url)
    with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=30) as connection:
        try:
            rest = said
            while rest:
                piece = chance.choice([len(rest), len(rest), 1, 7, 100, 4096])
                connection.sendall(rest[:piece])
                rest = rest[piece:]
            if chance.random() < 0.7:
                connection.settimeout(0.003)
                heard = connection.recv(1 << 20)
        except TimeoutError:
            pass
        except OSError:
            return heard
        connection.settimeout(30)
        try:
            connection.shutdown(socket.SHUT_WR)
            while more := connection.recv(1 << 20):
                heard += more
        except TimeoutError:
            raise
        except OSError:
            pass
    return heard


def statuses(heard: bytes) -> list[int]:
    """The statuses of all answers, which must be well formed; the last may be cut off, since the caller hung up."""
    found: list[int] = []
    while heard:
        head, end, rest = heard.partition(b"\r\n\r\n")
        line = re.match(rb"HTTP/1\.1 (\d\d\d) ", head)
        assert line, heard[:200]
        status = int(line[1])
        found.append(status)
        if not end or status == 101:
            break
        lines = head.split(b"\r\n")[1:]
        assert all(re.fullmatch(rb"[a-z0-9-]+: [^\r\n]*", each.lower()) for each in lines), head
        length = [int(each.split(b": ")[1]) for each in lines if each.lower().startswith(b"content-length: ")]
        assert length or status in (100, 204), head
        heard = rest[length[0] :] if length else rest
    return found


def attack(broker: Running, seconds: float) -> dict[int, int]:
    """Attack for some seconds of processor time; how often each status was answered."""
    chance, answered = random.Random(SEED), dict[int, int]()
    began, number = time.process_time(), 0
    while time.process_time() - began < seconds:
        number += 1
        said = mutated(chance)
        try:
            found = statuses(converse(broker.url, said, chance))
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(f"seed {SEED}, attack {number}: {said!r}: {error}") from error
        assert not [status for status in found if status >= 500], f"seed {SEED}, attack {number}: {said!r}: {found}"
        for status in found:
            answered[status] = answered.get(status, 0) + 1
    sys.stdout.write(f"{number:,} attacks in {seconds:g} s of processor time: {sorted(answered.items())}\n")
    return answered


def fuzz(database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, seconds: float) -> None:
    caplog.set_level(logging.ERROR)
    limits = {"header_limit": 60_000, "head_timeout": 5.0}
    with (
        run_broker(database, tmp_path, **limits) as broker,
        httpx2.Client(base_url=broker.url, timeout=40) as client,
    ):
        answered = attack(broker, seconds)
        assert {200, 201, 400} <= set(answered)
        assert not set(broker.server.broker.metrics.refusals) & {"500", "501", "502", "503"}
        wait_for(lambda: len(broker.server.server_state.connections) <= 1, limit=60)
        push(client, "sane", 1)
        assert data(pop(client, "sane")) == [1]
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    # What the pool says when a caller went in the middle of a transaction, which it then rolls back.
    assert [words for words in told if not words.startswith("Resetting connection with an active transaction")] == []


def test_nearly_http(database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fuzz(database, tmp_path, caplog, 2)


@pytest.mark.scale
@pytest.mark.timeout(3600)
def test_nearly_http_for_long(database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fuzz(database, tmp_path, caplog, float(os.environ.get("QUEEN_FUZZ_SECONDS", "300")))
