"""Uvicorn's HTTP protocol, with a short way for requests that are here as a whole, as nearly all are.

Uvicorn begins to answer while a request still arrives, and so it needs a scope, a cycle, and messages to and fro. A
request that is whole needs none of that: the application is asked at once, and the answer leaves in one write.
Everything else goes uvicorn's way: bodies in pieces or in chunks, callers that ask before they send, requests
sent before the one before was answered, and upgrades.
"""

from __future__ import annotations

import asyncio
import re
import select
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from queen import errors
from queen.server.app import App, Headers
from queen.server.request import ClientGone, Request
from queen.server.wire import Response, Undelivered, refuse

_HEAD: Final = b"HTTP/1.1 "
_UPGRADE: Final = re.compile(rb"\r\nupgrade:([^\r\n]*)\r\n", re.IGNORECASE)
_CLOSE: Final = (b"connection", b"close")
# The other side has said that it sends no more, in words of the system that only Linux has; elsewhere that it is gone.
_HUNG_UP: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class Protocol(HttpToolsProtocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A caller connected."""
        super().connection_made(cast("asyncio.Transport", Joining(transport, self.loop)))
        self.direct = transport
        self.gone = asyncio.Event()
        self._unsent: Undelivered | None = None
        self._leaving_since: float | None = None
        self._held = False
        self._fields: dict[bytes, bytes] | None = None
        self._body = b""
        self._head_at: float | None = None
        self._head_bytes = 0
        self._refusal: errors.QueenError = NotHttp("this is not an HTTP/1.1 request")
        self._limits = cast("App", self.app).broker.settings
        self._answered_at = self.loop.time()
        first_look = min(self._limits.head_timeout, self.timeout_keep_alive)
        self._idle: asyncio.TimerHandle | None = self.loop.call_later(first_look, self._look_whether_idle)
        if len(self.connections) > self._limits.connection_limit:
            self._refuse(TooManyConnections(f"the broker has {self._limits.connection_limit} connections, its limit"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The caller hung up, or we did."""
        super().connection_lost(exc)
        self.gone.set()
        self._stop_idling()
        if self._unsent is not None:
            task = self.loop.create_task(self._unsent())
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def reachable(self) -> bool:
        """Tell whether the caller can still be answered, as far as this machine knows, once earlier answers left.

        The event loop may not have looked at the connection since the caller hung up: the system is asked.
        """
        if self.flow.write_paused:
            await self.flow.drain()
        return not (self.direct.is_closing() or has_hung_up(self.direct.get_extra_info("socket").fileno()))

    def answered(self, undelivered: Undelivered) -> None:
        """An answer was written: `undelivered` is called if the caller goes before the system has taken all of it."""
        if self.direct.get_write_buffer_size():
            self._unsent = undelivered
            self.direct.set_write_buffer_limits(high=0)

    def resume_writing(self) -> None:
        """The system takes more again; of an answer that must arrive, it has taken all."""
        if self._unsent is not None:
            self._unsent = None
            self.direct.set_write_buffer_limits()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Bytes came. A request of which the head is here now but not the end goes uvicorn's way."""
        if self.transport.is_closing():
            return
        if not self._held and not self._busy:
            data = without_upgrade(data)
        super().data_received(data)
        if not self._held or self.transport.is_closing():
            return
        if self._fields is not None:
            self._hand_over()
            return
        self._head_bytes += len(data)
        if self._head_bytes > self._limits.header_limit:
            self._refuse(self._head_too_large())

    def _head_too_large(self) -> errors.QueenError:
        return HeadTooLarge(f"the head of a request may have {self._limits.header_limit} bytes")

    def send_400_response(self, msg: str) -> None:
        """What came is no request, or one that was refused before it was whole."""
        self._refuse(self._refusal)

    def _refuse(self, error: errors.QueenError) -> None:
        """Answer in the envelope and hang up."""
        cast("App", self.app).broker.metrics.refused(error.status)
        response = refuse(error)
        head = b"%scontent-type: %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (
            STATUS_LINE[response.status],
            response.media,
            len(response.body),
        )
        self.direct.write(head + response.body)
        self.direct.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._held = True
        self._head_at = self.loop.time()
        self._head_bytes = 0
        self._fields = None
        self._body = b""
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of it. What comes after the body, as trailers do, is no part of the head and says nothing here."""
        if self._fields is None:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Its head is here: see which way it goes, as far as the head tells."""
        self._head_at = None
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self._limits.header_limit:
            self._refusal = self._head_too_large()
            raise ValueError("the parser stops here")
        fields = self._fields = dict(self.headers)
        if self._busy or self.parser.should_upgrade() or b"transfer-encoding" in fields or b"expect" in fields:
            self._hand_over()

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        if self._held:
            self._body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """It is here as a whole."""
        if self._held:
            self._answer()
        else:
            super().on_message_complete()

    def _answer(self) -> None:
        assert self._fields is not None
        self._held = False
        app, parser, url = cast("App", self.app), self.parser, httptools.parse_url(self.url)
        short = Short(self, keep_alive=parser.get_http_version() != "1.0" and parser.should_keep_alive())
        self.cycle = cast("RequestResponseCycle", short)
        method, path, query = parser.get_method().decode(), url.path or b"/", url.query or b""
        short.start(app, Request(app.broker, method, path, query, self._fields, short.receive, self._body))

    @property
    def _busy(self) -> bool:
        """Whether a request is being answered."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _hand_over(self) -> None:
        """Tell uvicorn what came so far, as the parser would have."""
        self._held = False
        url, headers = self.url, self.headers
        super().on_message_begin()
        self.scope["queen.protocol"] = self  # type: ignore[typeddict-unknown-key]
        super().on_url(url)
        for name, value in headers:
            super().on_header(name, value)
        super().on_headers_complete()
        if self._body:
            super().on_body(self._body)

    def handle_websocket_upgrade(self) -> None:
        """The connection becomes a WebSocket, which may be quiet for long."""
        self._stop_idling()
        super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        """A request was answered: on to the next one, or wait for it.

        One timer looks after all requests of a connection: one for each would cost more than to parse it.
        """
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._answered_at = self.loop.time()

    def _look_whether_idle(self) -> None:
        """One timer for a connection: is it idle for long, does a head not end, or an answer not leave?"""
        now = self.loop.time()
        if not self.direct.get_write_buffer_size():
            self._leaving_since = None
        elif self._leaving_since is None:
            self._leaving_since = now
        elif now - self._leaving_since > self._limits.answer_timeout:
            self.direct.abort()
            return
        left = self._answered_at + self.timeout_keep_alive - now
        if self._head_at is not None:
            left = self._head_at + self._limits.head_timeout - now
            if left <= 0:
                self._refuse(HeadTooSlow(f"the head did not arrive within {self._limits.head_timeout:g} seconds"))
                return
        elif self._busy or self._held or self._leaving_since is not None:
            left = self.timeout_keep_alive
        if left > 0:
            wait = min(left, self._limits.head_timeout, self.timeout_keep_alive)
            self._idle = self.loop.call_later(wait, self._look_whether_idle)
        else:
            self.timeout_keep_alive_handler()

    def _stop_idling(self) -> None:
        if self._idle is not None:
            self._idle.cancel()


def has_hung_up(descriptor: int) -> bool:
    """Tell whether the other side of a connection has closed it, also behind bytes that nobody has read yet."""
    look = select.poll()
    look.register(descriptor, _HUNG_UP)
    return bool(look.poll(0))


def without_upgrade(data: bytes) -> bytes:
    """The start of a request, without the wish to speak another protocol unless that is a WebSocket.

    The parser stops at such a wish and would never see the body. To ignore it is what HTTP allows; some clients say it
    with every first request.
    """
    end = data.find(b"\r\n\r\n")
    head = data[: end + 2 if end >= 0 else len(data)]
    found = _UPGRADE.search(head)
    if found is None or (head.startswith(b"GET ") and found[1].strip().lower() == b"websocket"):
        return data
    return head.replace(found[0], b"\r\nx-ignored: upgrade\r\n", 1) + data[len(head) :]


class NotHttp(errors.RequestError):
    """What came cannot be read as a request."""

    code = "INVALID_HTTP"


class HeadTooLarge(errors.RequestError):
    """The head of a request is above the limit."""

    code = "HEAD_TOO_LARGE"
    status = 431


class HeadTooSlow(errors.RequestError):
    """The head of a request did not arrive in time."""

    code = "HEAD_TOO_SLOW"
    status = 408


class TooManyConnections(errors.Backpressure):
    """The broker has all the connections it may."""

    code = "TOO_MANY_CONNECTIONS"


class Short:
    """The answer to a request that is whole: in place of uvicorn's cycle, with what its protocol wants of one.

    The request knows it, but not the other way round: a ring of the two would be left to the garbage collector.
    """

    __slots__ = ("_protocol", "_task", "disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self, protocol: Protocol, *, keep_alive: bool) -> None:
        self._protocol = protocol
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False
        self.message_event = protocol.gone

    def start(self, app: App, request: Request) -> None:
        """Begin to answer."""
        self._task = self._protocol.loop.create_task(self._run(app, request))
        self._protocol.tasks.add(self._task)

    async def receive(self) -> dict[str, Any]:
        """Wait until the caller hangs up: nothing else can come."""
        self._protocol.flow.resume_reading()
        await self._protocol.gone.wait()
        return {"type": "http.disconnect"}

    async def _run(self, app: App, request: Request) -> None:
        protocol = self._protocol
        try:
            response, headers = await app.respond(request)
            undelivered = response.undelivered
            if undelivered is None:
                if protocol.flow.write_paused:
                    await protocol.flow.drain()
                if not protocol.direct.is_closing():
                    self._send(response, headers, with_body=request.method != "HEAD")
            elif await protocol.reachable():
                self._send(response, headers, with_body=True)
                protocol.answered(undelivered)
            else:
                await undelivered()
        except ClientGone:
            return
        finally:
            protocol.tasks.discard(self._task)
            if not self.response_complete:
                protocol.direct.close()

    def _send(self, response: Response, headers: Headers, *, with_body: bool) -> None:
        protocol = self._protocol
        if _CLOSE in headers:
            self.keep_alive = False
        elif not self.keep_alive:
            headers.append(_CLOSE)
        lines = b"".join([b"%s: %s\r\n" % header for header in headers])
        body = response.body if with_body else b""
        protocol.direct.write(b"%s%s\r\n%s" % (STATUS_LINE[response.status], lines, body))
        self.response_complete = True
        if not self.keep_alive:
            protocol.direct.close()
        protocol.on_response_complete()


class Joining:
    """A transport that keeps the head of an answer for what follows it, or else until the next turn of the loop.

    Uvicorn writes them one after the other and the event loop passes every write on at once: that would be two
    system calls here, two packets, and two for whoever reads them.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Send data, after the head that was kept; to nobody when the connection is closed."""
        if self._transport.is_closing():
            self._head = b""
        elif self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Close when everything is sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
