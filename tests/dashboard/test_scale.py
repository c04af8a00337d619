"""Every page over a full database: what it asks for, how long it takes, and what open pages cost others.

The small twin of the same database runs with the other tests; it looks at plans and blocks, not at time.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser

from tests.dashboard.large import EVENTS, FULL, SMALL, TRACE, WIDE, Size, fill
from tests.dashboard.watching import Pages, Recorder, explain, recorded
from tests.server.running import Running, run_broker, run_process
from tests.support.postgres import TEMPLATE, Postgres
from tests.support.wait import wait_for

SERVER, SQL, PAINT, COST = 0.150, 0.050, 1000.0, 0.10
BLOCKS = 4_000
ROUNDS = 9
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')"
HEAD = """\
| page | median, ms | of it SQL, ms | first visit, ms | blocks | first paint, ms |
|---|---:|---:|---:|---:|---:|"""


@dataclass
class Large:
    """A broker over much."""

    running: Running
    database: str
    recorder: Recorder
    size: Size


def opened(postgres: Postgres, folder: Path, size: Size) -> Iterator[Large]:
    with postgres.scratch(TEMPLATE) as database:
        fill(database, size)
        with recorded() as recorder, run_broker(database, folder) as running:
            yield Large(running, database, recorder, size)


@pytest.fixture(scope="module")
def small(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    yield from opened(postgres, tmp_path_factory.mktemp("small"), SMALL)


@pytest.fixture(scope="module")
def full(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    yield from opened(postgres, tmp_path_factory.mktemp("full"), FULL)


def pages(client: httpx2.Client) -> dict[str, str]:
    """Every page, by what it is called."""
    found = page_of(client, f"/messages?queue={EVENTS}&since=all")["messages"][0]
    place = httpx2.QueryParams({"partition": found["partitionId"], "transaction": found["transactionId"]})
    dead = page_of(client, "/dead-letters")["deadLetters"][0]
    return {
        "overview": "", "overview, 30 days": "?range=30d", "overview, a day": "?range=24h", "queues": "queues",
        "queue": f"queue?name={EVENTS}", "queue, 30 days": f"queue?name={EVENTS}&range=30d",
        "configuration": f"queue?name={EVENTS}&tab=configuration", "messages": "messages?since=all",
        "messages of a queue": f"messages?queue={EVENTS}&since=all", "message": f"message?{place}", "groups": "groups",
        "group": f"group?queue={EVENTS}&name=group-03", "dead letters": "dead-letters",
        "dead letter": f"dead-letter?id={dead['id']}", "traces": "traces", "trace": f"trace?id={TRACE}",
        "workflows": "workflows", "workflow": "workflow?id=order+17", "schedules": "schedules",
        "pipelines": "pipelines", "transfer": "transfer", "system": "system", "postgres": "system?tab=postgres",
        "audit": "system?tab=audit",
    }  # fmt: skip


def maps() -> dict[str, str]:
    return {"heat map": f"heat?name={EVENTS}", "heat map, wide": f"heat?name={WIDE}"}


def page_of(client: httpx2.Client, address: str) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = client.get(address, headers={"accept": "application/json"}).json()["page"]
    return found


def test_no_page_reads_a_large_table_as_a_whole(small: Large) -> None:
    with httpx2.Client(base_url=small.running.url, timeout=60) as client:
        for name, path in pages(client).items():
            small.recorder.take()
            assert client.get(f"/{path}").status_code == 200, name
            asked = small.recorder.take()
            scans, blocks = asyncio.run(explain(small.database, asked))
            assert scans == [], name
            assert blocks < BLOCKS, f"{name} touches {blocks} blocks"


def measured(full: Large, client: httpx2.Client, path: str) -> tuple[float, float]:
    """The medians of the whole request and of its statements."""
    whole, sql = [], []
    for _ in range(ROUNDS):
        full.recorder.take()
        began = time.perf_counter()
        answer = client.get(f"/{path}")
        whole.append(time.perf_counter() - began)
        assert answer.status_code == 200
        sql.append(sum(each.seconds for each in full.recorder.take()))
    return statistics.median(whole), statistics.median(sql)


@pytest.mark.scale
@pytest.mark.timeout(1800)
def test_every_page_is_quick_over_a_million_messages(full: Large, chromium: Browser) -> None:
    context = chromium.new_context(base_url=full.running.url)
    window = context.new_page()
    slow, rows = [], []
    with httpx2.Client(base_url=full.running.url, timeout=60) as client, ThreadPoolExecutor(1) as aside:
        for name, path in (pages(client) | maps()).items():
            began = time.perf_counter()
            client.get(f"/{path}")
            first = time.perf_counter() - began
            whole, sql = measured(full, client, path)
            full.recorder.take()
            window.goto(f"/{path}")
            asked = full.recorder.take()
            scans, blocks = aside.submit(asyncio.run, explain(full.database, asked)).result()
            wait_for(lambda: window.evaluate(f"{FIRST_PAINT}.length"))
            paint = window.evaluate(f"{FIRST_PAINT}[0].startTime")
            times = f"{whole * 1000:.0f} | {sql * 1000:.1f} | {first * 1000:.0f}"
            rows.append(f"| {name} | {times} | {blocks:,} | {paint:.0f} |")
            if whole > SERVER or (sql > SQL and name not in maps()) or paint > PAINT or (scans and name not in maps()):
                slow.append((rows[-1], scans))
    context.close()
    looks = [sum(full.recorder.looks[at : at + 8]) for at in range(0, len(full.recorder.looks) - 7, 8)]
    sys.stdout.write("\n".join(["", HEAD, *rows, f"looks: {', '.join(f'{look:.2f} s' for look in looks)}", ""]))
    assert slow == []


@pytest.mark.scale
@pytest.mark.measure
@pytest.mark.timeout(1800)
def test_fifty_open_pages_cost_a_tenth_of_the_push_rate_at_most(full: Large, tmp_path: Path) -> None:
    with run_process(full.database, tmp_path) as broker:
        paths = ["", "queues", f"queue?name={EVENTS}", "groups", "system"] * 10
        alone, beside = [], []
        for _ in range(4):
            alone.append(push_rate(broker.url))
            with open_pages(broker.url, paths):
                beside.append(push_rate(broker.url))
    ratio = statistics.median(beside) / statistics.median(alone)
    rates = f"{statistics.median(alone):,.0f}/s alone, {statistics.median(beside):,.0f}/s beside 50 pages"
    sys.stdout.write(f"\npushes: {rates}, ratio {ratio:.2f}\n")
    assert ratio >= 1 - COST


def push_rate(url: str, seconds: float = 25.0) -> float:
    """Pushes per second of four callers with ten messages each."""
    end = time.monotonic() + seconds
    counts = [0] * 4

    def work(number: int) -> None:
        items = [{"queue": f"pushed-{number}", "payload": {"n": n}} for n in range(10)]
        with httpx2.Client(base_url=url, timeout=30) as client:
            while time.monotonic() < end:
                assert client.post("/api/v1/push", json={"items": items}).status_code == 201
                counts[number] += 1

    began = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    return sum(counts) / (time.monotonic() - began)


class open_pages:  # noqa: N801 - reads as a block
    """Pages that are open within a block, all of them drawn once before it begins."""

    def __init__(self, url: str, paths: list[str]) -> None:
        self._pages = Pages(url, paths)
        self._count = len(paths)
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="pages")

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._pages.watch(self._stop)

    def __enter__(self) -> Pages:
        self._thread.start()
        wait_for(lambda: self._pages.fetched >= self._count, limit=60)
        return self._pages

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        sys.stdout.write(f"\n{self._pages.fetched} pages fetched, {self._pages.bytes / 1e6:.1f} MB\n")
