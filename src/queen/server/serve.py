"""Run the broker: sockets, processes, signals."""

from __future__ import annotations

import asyncio
import signal
from types import FrameType
from typing import Any

import uvicorn

from queen.config import Settings
from queen.db.pool import Database, PoolOptions
from queen.engine import Engine, KeyRing
from queen.server.app import App
from queen.server.broker import Broker


class Server(uvicorn.Server):
    """Uvicorn, but parked polls are answered as soon as a stop is asked for."""

    def __init__(self, config: uvicorn.Config, broker: Broker) -> None:
        super().__init__(config)
        self.broker = broker
        self._draining: asyncio.Task[None] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came: begin to drain."""
        super().handle_exit(signal.Signals(sig), frame)

    async def shutdown(self, sockets: Any = None) -> None:
        """Answer whoever waits, then let the connections end."""
        self._draining = asyncio.create_task(self.broker.drain())
        await super().shutdown(sockets)
        await self._draining


def make_server(settings: Settings) -> Server:
    """A server that is not running yet."""
    assert settings.database_url is not None
    options = PoolOptions(size=settings.pool_size, pooler=settings.pooler)
    engine = Engine(
        Database(settings.database_url, options),
        keys=KeyRing(settings.encryption_keys),
        listen_url=settings.notification_url,
        batch_limit=settings.batch_limit,
    )
    broker = Broker(settings, engine)
    config = uvicorn.Config(
        App(broker),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http="httptools",
        ws="websockets-sansio",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=int(settings.shutdown_limit) or 1,
        backlog=4096,
    )
    return Server(config, broker)
