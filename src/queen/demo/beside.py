"""The shop beside a broker: some hours of history once, then live orders for as long as the broker runs."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from multiprocessing import get_context, parent_process
from typing import Final

import httpx2

from queen.client.client import Client
from queen.client.connect import connect
from queen.client.direct import DirectTransport
from queen.config import Settings
from queen.demo import fulfilment
from queen.demo.history import make_history
from queen.demo.live import Shop
from queen.demo.storing import store
from queen.durable import open_provider
from queen.engine import Engine
from queen.errors import InvalidRequest, QueenError

MESSAGES: Final = 30_000
DAYS: Final = 0.25
RATE: Final = 0.6  # orders a second: about as many messages as the history has
ROUND: Final = 600.0
_PATIENCE: Final = 60.0
_PAUSE: Final = 0.5
_FAILED_PAUSE: Final = 5.0


@contextmanager
def shop_beside(settings: Settings) -> Iterator[None]:
    """Run the shop in a process of its own while the block runs a broker with these settings."""
    shop = get_context("spawn").Process(target=live, args=(settings,), name="queen-demo", daemon=True)
    shop.start()
    try:
        yield
    finally:
        shop.terminate()
        shop.join(10)


def live(settings: Settings) -> None:
    """The life of the shop's process; it ends with the broker's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(KeyboardInterrupt):
        asyncio.run(_live(settings))


async def _live(settings: Settings) -> None:
    work = asyncio.create_task(_work(settings))
    parent = parent_process()
    while parent is not None and parent.is_alive() and not work.done():
        await asyncio.wait((work,), timeout=1.0)
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


async def _work(settings: Settings) -> None:
    address = f"http://{'127.0.0.1' if settings.host == '0.0.0.0' else settings.host}:{settings.port}"  # noqa: S104
    await _until_it_answers(address)
    with suppress(InvalidRequest):  # there is a history already
        async with connect(settings.database_url, data_dir=settings.data_dir) as client:
            history = make_history(MESSAGES, DAYS, seed=1, until=datetime.now(UTC), plain=False)
            await store(_engine(client), history, "")
    async with asyncio.TaskGroup() as group:
        group.create_task(_sell(address))
        group.create_task(_fulfil(settings))


async def _sell(address: str) -> None:
    for number in count(2):
        try:
            async with connect(address) as client:
                await Shop(client, seed=number, plain=False, prefix="").run(RATE, ROUND)
        except QueenError:
            await asyncio.sleep(_FAILED_PAUSE)


async def _fulfil(settings: Settings) -> None:
    async with (
        connect(settings.database_url, data_dir=settings.data_dir) as client,
        await open_provider(_engine(client).database.dsn) as provider,
    ):
        await fulfilment.run(provider, random.Random(1))  # noqa: S311 - a shop, not a secret


def _engine(client: Client) -> Engine:
    assert isinstance(client.transport, DirectTransport)
    return client.transport.engine


async def _until_it_answers(address: str) -> None:
    async with asyncio.timeout(_PATIENCE), httpx2.AsyncClient(base_url=address, timeout=5) as client:
        while True:
            with suppress(httpx2.HTTPError):
                if (await client.get("/health")).status_code == 200:
                    return
            await asyncio.sleep(_PAUSE)
