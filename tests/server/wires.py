"""A connection that says bytes and hears answers, and the two ways a request is served."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from queen.server.app import App
from queen.server.routing import Receive, Send
from tests.server.running import Running

# A request that arrives whole goes the short way; one that expects something, uvicorn's.
WAYS = {"short": b"", "uvicorn": b"expect: nothing\r\n"}


def ask(
    path: str, way: str = "short", *headers: bytes, body: bytes = b"", method: str = "", version: str = "1.1"
) -> bytes:
    """A request in one piece."""
    line = f"{method or ('POST' if body else 'GET')} {path} HTTP/{version}\r\nhost: x\r\n".encode()
    length = b"content-length: %d\r\n" % len(body) if body else b""
    return line + WAYS[way] + length + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + body


class Wire:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._heard = b""

    def say(self, data: bytes) -> None:
        """Send bytes."""
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

    def status(self) -> int:
        """The status of the next answer, all of which is heard."""
        head = self.head()
        if b"content-length: " in head:
            self.body(head)
        return int(head.split()[1])

    def end(self) -> bytes:
        """What is left until the other side closes."""
        while data := self._connection.recv(65_536):
            self._heard += data
        return self._heard

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def reset(self) -> None:
        """Hang up without a word: what is on its way is thrown away, and the other side is told of an error."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()

    def _hear(self) -> None:
        data = self._connection.recv(65_536)
        assert data, "the connection was closed in the middle of an answer"
        self._heard += data


@contextmanager
def open_wire(url: str, limit: float = 20, *, unread: int = 0) -> Iterator[Wire]:
    """A connection to a broker, closed when the block ends; the system keeps about `unread` bytes for it, if given."""
    parts = urlsplit(url)
    with socket.socket() as connection:
        if unread:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, unread)
        connection.settimeout(limit)
        connection.connect((str(parts.hostname), parts.port or 0))
        yield Wire(connection)


@contextmanager
def counting_uvicorns_way(broker: Running) -> Iterator[list[str]]:
    """The paths that are served uvicorn's way within the block."""
    config, seen = broker.server.config, list[str]()
    app = config.loaded_app
    assert isinstance(app, App)

    class Noting(App):
        def __init__(self) -> None:
            self.__dict__ = app.__dict__

        async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
            seen.append(scope["path"])
            await super().__call__(scope, receive, send)

    config.loaded_app = Noting()
    try:
        yield seen
    finally:
        config.loaded_app = app
