"""What one broker process is made of; every request gets it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

import structlog

from queen import __version__, errors
from queen.config import Settings
from queen.dashboard.look import Looker
from queen.db import migrate
from queen.db.pool import Database, PoolOptions, translate
from queen.engine import Engine, KeyRing
from queen.engine.services import ServiceRunner
from queen.engine.services.jobs import all_services
from queen.model import NewMessage, Pushed
from queen.server.auth import Authenticator
from queen.server.buffer import Buffer
from queen.server.gauges import Gauges
from queen.server.handed import HandedOut
from queen.server.limits import BodyReader
from queen.server.live import Live
from queen.server.metrics import Metrics
from queen.server.routing import Route
from queen.server.samples import Samples
from queen.server.watch import Watch

LOG: Final = structlog.get_logger("queen.broker")
T = TypeVar("T")


class Interrupted(Exception):
    """What was waited for will not come: pops were switched off, or the database went away."""


class Broker:
    """The parts that routes share: engine, settings, disk buffer, metrics, and the watch over the database."""

    def __init__(self, settings: Settings, *, worker: int = 0) -> None:
        assert settings.database_url is not None, "the embedded server is started before the broker"
        self.settings = settings
        self.worker = worker
        self.version = __version__
        self.started_at = time.time()
        self.draining = False
        options = PoolOptions(size=settings.pool_size, pooler=settings.pooler)
        self.engine = Engine(
            Database(settings.database_url, options),
            keys=KeyRing(settings.encryption_keys),
            listen_url=settings.notification_url,
            batch_limit=settings.batch_limit,
        )
        self.services = ServiceRunner(self.engine.database, all_services(self.engine, settings))
        self.metrics = Metrics(settings.metrics_queues)
        self.handed = HandedOut()
        self.bodies = BodyReader(settings.body_limit)
        self.gauges = Gauges(self)
        self.live = Live(self.engine.database)
        self.samples = Samples(self.engine.database)
        self.looker = Looker(self.engine.database)
        self.auth = Authenticator(settings)
        self.buffer = Buffer(
            settings.buffer_path,
            self.engine.keys,
            self._store_carefully,
            reachable=self._reachable,
            limit=settings.buffer_limit,
            age_limit=settings.buffer_age_limit,
        )
        self.watch = Watch(self.engine.database, self.buffer, self._prepare, self._looked)
        self.routes: Sequence[Route] = ()
        self._pushing: set[asyncio.Task[Any]] = set()
        self._popping: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        """Begin to work, also without the database: it is waited for."""
        self._loop = asyncio.get_running_loop()
        self.samples.start()
        await self.watch.start()

    async def _prepare(self) -> None:
        try:
            async with migrate.connect(self.engine.database.dsn, timeout=5) as connection:
                for migrations in migrate.SETS.values():
                    if applied := await migrate.up(connection, migrations):
                        LOG.info("the schema was brought up to date", schema=migrations.schema, files=len(applied))
        except (migrate.MigrationError, OSError):
            raise
        except Exception as error:
            raise translate(error) from error
        await self.engine.open()
        self.services.start()

    async def drain(self) -> None:
        """Hand out nothing more, answer whoever waits, finish what is under way."""
        self.draining = True
        await self.engine.stop()

    async def close(self) -> None:
        """Stop and let go of everything."""
        await self.samples.stop()
        await self.live.stop()
        await self.looker.stop()
        await self.services.stop()
        await self.watch.stop()
        self.gauges.publish()
        await self.buffer.close()
        await self.engine.close()

    async def push(self, items: Sequence[NewMessage]) -> list[Pushed] | None:
        """Store messages that have their ids, or keep them in the disk buffer and answer None."""
        direct = self.watch.up and not self.watch.modes.push
        if direct and self.buffer.holds(items):
            direct = not await self.buffer.behind(items)
        if direct:
            try:
                return await self._while_up(items)
            except errors.SchemaOutdated:
                raise
            except (errors.StoreUnavailable, Interrupted, TimeoutError):
                self.watch.doubt()
        await self.buffer.append(items)
        return None

    async def pop(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result of a pop that may wait; None when pops are switched off meanwhile."""
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._popping.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            if not self.watch.modes.pop or task.uncancel():
                raise
            return None
        finally:
            self._popping.discard(task)

    async def _while_up(self, items: Sequence[NewMessage]) -> list[Pushed]:
        task = asyncio.current_task(self._loop)
        assert task is not None
        self._pushing.add(task)
        try:
            return await self.engine.push(items)
        except asyncio.CancelledError:
            if self.watch.up or task.uncancel():
                raise
            raise Interrupted from None
        finally:
            self._pushing.discard(task)

    def _looked(self) -> None:
        """The watch looked at the database: nobody goes on waiting for what will not come."""
        self.bodies.sweep()
        self.gauges.publish()
        while self._pushing and not self.watch.up:
            self._pushing.pop().cancel()
        while self._popping and self.watch.modes.pop:
            self._popping.pop().cancel()

    async def _reachable(self) -> bool:
        return await self.watch.reachable()

    async def _store_carefully(self, items: Sequence[NewMessage]) -> None:
        await self.engine.push(items, careful=True)
