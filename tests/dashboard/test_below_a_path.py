"""Behind a proxy that serves the dashboard below a path of its own."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import httpx2
from playwright.sync_api import Browser, expect

from tests.dashboard.clicking import Operator
from tests.dashboard.conftest import Shop
from tests.server.calls import push

PREFIX = b"/tools/queen"


class Proxy(socketserver.ThreadingTCPServer):
    """Takes the prefix away and passes the rest on, WebSockets too; one request to a connection."""

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        parts = urlsplit(target)
        self.target = str(parts.hostname), int(parts.port or 0)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.refused: list[bytes] = []


class Passing(socketserver.BaseRequestHandler):
    """One connection of a browser."""

    server: Proxy
    request: socket.socket

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            data = self.request.recv(65_536)
            if not data:
                return
            head += data
        method, path, rest = head.split(b" ", 2)
        if not path.startswith(PREFIX + b"/"):
            self.server.refused.append(path)
            self.request.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return
        if b"upgrade: websocket" not in rest.lower():
            rest = rest.replace(b"Connection: keep-alive", b"Connection: close")
        with socket.create_connection(self.server.target) as far:
            far.sendall(b" ".join((method, path.removeprefix(PREFIX), rest)))
            back = threading.Thread(target=copy, args=(far, self.request))
            back.start()
            copy(self.request, far)
            back.join()


def copy(source: socket.socket, sink: socket.socket) -> None:
    """Pass on what comes until there is no more, then say so."""
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def proxy(target: str) -> Iterator[Proxy]:
    with Proxy(target) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.05,), name="proxy")
        thread.start()
        try:
            yield found
        finally:
            found.shutdown()
            thread.join(20)


def test_pages_acts_and_live_figures_work_there(chromium: Browser, shop: Shop, api: httpx2.Client) -> None:
    push(api, "below.path", 1)
    with proxy(shop.url) as found:
        context = chromium.new_context(base_url=found.url)
        operator = Operator(context.new_page())
        page, place = operator.page, f"{found.url}{PREFIX.decode()}/"
        operator.start(f"{PREFIX.decode()}/")
        expect(page.locator(".plot canvas").first).to_be_visible()
        operator.follow("Queues", within=page.locator("nav"))
        expect(page).to_have_url(f"{place}queues")
        page.fill("#search", "below.path")
        page.keyboard.press("Enter")
        operator.follow("below.path")
        expect(page).to_have_url(f"{place}queue?name=below.path")
        expect(page.locator("#live")).to_have_text("live")
        operator.click("Pause…")
        operator.click("Pause", within=operator.dialog)
        operator.told("below.path is paused")
        operator.click("Undo")
        operator.told("hands out messages again")
        operator.follow("Overview", within=page.locator("nav"))
        expect(page).to_have_url(place)
        context.close()
        assert found.refused == []
