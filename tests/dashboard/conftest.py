"""A populated broker for all browser tests of a worker process, and one browser per module of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx2
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from queen.server.broker import Broker
from tests.dashboard.filling import Filled, fill
from tests.server.running import run_broker
from tests.support.postgres import TEMPLATE, Postgres
from tests.support.programs import find_program

expect.set_options(timeout=30_000)


@dataclass(frozen=True)
class Shop:
    """A broker with much to look at; tests that change something keep to queues of their own."""

    url: str
    database: str
    filled: Filled
    broker: Broker

    def pages(self) -> list[str]:
        """Every page there is."""
        return [
            "", "queues", "queue?name=payments", "queue?name=payments&tab=configuration",
            "queue?name=payments&tab=audit", "heat?name=payments", "messages", self.filled.message, "groups",
            "group?queue=orders&name=analytics", "dead-letters", f"dead-letter?id={self.filled.dead_letter}", "traces",
            f"trace?id={self.filled.trace}", "workflows", "workflow?id=checkout+fails", "schedules", "pipelines",
            "pipeline?name=rollups", "pipeline?name=skew", "transfer", "system", "system?tab=postgres",
            "system?tab=settings", "system?tab=audit",
        ]  # fmt: skip


@pytest.fixture(scope="session")
def shop(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A populated broker."""
    with (
        postgres.scratch(TEMPLATE) as database,
        ThreadPoolExecutor(1) as aside,  # a browser's own loop may run in this thread
        run_broker(database, tmp_path_factory.mktemp("dashboard")) as running,
    ):
        filled = aside.submit(asyncio.run, fill(database)).result(100)
        yield Shop(running.url, database, filled, running.server.broker)


@pytest.fixture
def api(shop: Shop) -> Iterator[httpx2.Client]:
    """A client of the same broker."""
    with httpx2.Client(base_url=shop.url, timeout=40) as client:
        yield client


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium. Only for a module: while Playwright runs, no asyncio test can in this thread."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_program("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Seen:
    """What must not be there: errors on the console, requests to other hosts."""

    host: str
    found: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(each in message.text for each in self.expected):
            self.found.append(f"{message.type}: {message.text}")

    def request(self, request: Request) -> None:
        if not request.url.startswith((self.host, self.host.replace("http", "ws"), "data:")):
            self.found.append(f"request to {request.url}")


@pytest.fixture
def seen(shop: Shop) -> Seen:
    return Seen(shop.url)


@pytest.fixture
def page(chromium: Browser, shop: Shop, seen: Seen) -> Iterator[Page]:
    """A window on the shop; whatever it complains about fails the test."""
    context = chromium.new_context(base_url=shop.url, viewport={"width": 1280, "height": 800})
    context.set_default_timeout(20_000)
    window = context.new_page()
    window.on("console", seen.console)
    window.on("pageerror", lambda error: seen.found.append(f"exception: {error}"))
    window.on("request", seen.request)
    yield window
    context.close()
    assert seen.found == []
