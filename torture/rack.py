"""The rack: PostgreSQL, brokers, clients and workers, each behind a proxy where it is called."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx2
import msgspec
import psutil

from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.pool import Database
from queen.engine import Engine, KeyRing
from tests.support.ports import free_port
from torture.client import Spec
from torture.defects import plant_in_database
from torture.history import History
from torture.plan import RELAYED, Plan, QueuePlan
from torture.process import Process
from torture.proxy import Proxy
from torture.standby import Standby

KEY = "5a" * 32
SQL = Path(__file__).parent / "sql"
LIMIT = 180.0


class Rack:
    """Everything that runs, by name."""

    def __init__(self, plan: Plan, folder: Path, history: History) -> None:
        self.plan = plan
        self.folder = folder
        self.history = history
        self.processes: dict[str, Process] = {}
        self.proxies: dict[str, Proxy] = {}
        self._home = Path(tempfile.mkdtemp(prefix="queen-torture-"))
        self._home.chmod(0o711)
        self.server: EmbeddedServer | None = None
        self.standby: Standby | None = None
        self.ports = {name: free_port() for name in plan.brokers}

    async def open(self) -> None:
        """Start everything, from the database up."""
        settings = {"max_connections": "120", "synchronous_commit": "on"}
        self.server = await asyncio.to_thread(
            EmbeddedServer.start, self._home / "server", port=free_port(), settings=settings
        )
        async with migrate.connect(self.dsn) as connection:
            for migrations in migrate.SETS.values():
                await migrate.up(connection, migrations)
            await connection.execute((SQL / "witness.sql").read_text())
        if self.plan.defect:
            plant_in_database(self.dsn, self.plan.defect)
        await self._configure()
        if self.plan.standby:
            self.standby = await asyncio.to_thread(Standby.of, self.server, self._home / "standby", free_port())
        self.proxies["postgres"] = Proxy(urlsplit(self.dsn).port or 0)
        for name, port in self.ports.items():
            self.proxies[name] = Proxy(port)
        for proxy in self.proxies.values():
            await proxy.start()
        (self.folder / "phase").write_text("run")
        self._describe()
        for process in self.processes.values():
            process.start()
        for name in self.ports:
            await self.until_serving(name)

    async def close(self) -> None:
        """End everything that was started here."""
        for process in self.processes.values():
            process.signal(signal.SIGCONT)
            process.kill()
        for proxy in self.proxies.values():
            await proxy.stop()
        if self.standby is not None:
            await asyncio.to_thread(self.standby.stop)
        if self.server is not None:
            self.signal_server(signal.SIGCONT)
            await asyncio.to_thread(self.server.stop, "immediate")
            shutil.copy(self.server.log_file, self.folder / "postgres.log")
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def dsn(self) -> str:
        """The database itself, past every proxy."""
        if self.standby is not None and self.standby.promoted:
            return self.standby.dsn
        assert self.server is not None
        return self.server.tcp_dsn()

    @property
    def proxied(self) -> str:
        """The database as everybody else sees it."""
        parts = urlsplit(self.dsn)
        place = f"{parts.username}:{parts.password}@127.0.0.1:{self.proxies['postgres'].port}"
        return urlunsplit(parts._replace(netloc=place))

    def buffer(self, broker: str) -> Path:
        """The directory of a broker's disk buffer."""
        return self.folder / f"data-{broker}" / "buffer"

    def signal_server(self, number: signal.Signals) -> None:
        """Send a signal to every process of PostgreSQL."""
        pid = self.server.pid if self.server is not None else None
        if pid is None or not psutil.pid_exists(pid):
            return
        try:
            postmaster = psutil.Process(pid)
            victims = [*postmaster.children(recursive=True), postmaster]
        except psutil.NoSuchProcess:
            return
        for victim in victims:
            try:
                victim.send_signal(number)
            except psutil.NoSuchProcess:
                continue

    async def until_serving(self, broker: str) -> None:
        """Wait until a broker answers."""
        url = f"http://127.0.0.1:{self.ports[broker]}/health/live"
        async with httpx2.AsyncClient(timeout=2, trust_env=False) as client:
            for _ in range(int(LIMIT / 0.1)):
                try:
                    if (await client.get(url)).status_code == 200:
                        return
                except httpx2.HTTPError:
                    pass
                await asyncio.sleep(0.1)
        raise TimeoutError(f"broker {broker} does not serve: {self.processes[f'broker-{broker}'].log()}")

    async def configure(self, queue: QueuePlan) -> None:
        """Make a queue what its plan says, with its groups known."""
        async with Engine(Database(self.dsn), listen_url=None, keys=KeyRing([KEY])) as engine:
            await engine.queues.configure(queue.name, queue.options, namespace=queue.namespace, task="t")
            await engine.queues.pause(queue.name, paused=False)
            for group in queue.groups:
                await engine.register(queue.name, group)

    async def _configure(self) -> None:
        for queue in self.plan.queues:
            await self.configure(queue)
        await self.configure(QueuePlan(name=RELAYED, options={}, partitions=1, groups=[], namespace="other"))

    def _describe(self) -> None:
        plan = self.plan
        shared = {"QUEEN_ENCRYPTION_KEY": KEY}
        if plan.defect:
            shared["TORTURE_DEFECT"] = plan.defect
        for name, workers in plan.brokers.items():
            home = self.folder / f"data-{name}"
            home.mkdir(exist_ok=True)
            variables = {
                "QUEEN_DATABASE_URL": self.proxied, "QUEEN_DATA_DIR": str(home), "QUEEN_PORT": str(self.ports[name]),
                "QUEEN_WORKERS": str(workers), "QUEEN_LOG_FORMAT": "json", "QUEEN_POOL_SIZE": "6",
                "QUEEN_RETENTION_INTERVAL": "1", "QUEEN_EVICTION_INTERVAL": "1", "QUEEN_STATS_INTERVAL": "2",
                "QUEEN_BUFFER_LIMIT": str(2 << 20), **shared,
            }  # fmt: skip
            self._add(f"broker-{name}", lambda _: ["-m", "queen", "serve"], variables)
        for client in plan.clients:
            self._add(client.name, partial(self._spec, client.name), shared)
        for number in range(plan.workers):
            name = f"worker{number}"
            effects = {"TORTURE_EFFECTS": str(self.folder / f"{name}.history")}
            self._add(name, lambda _: ["-m", "torture.workflow", self.proxied], effects)

        if plan.spark:
            self._add("spark", lambda _: ["-m", "torture.stream", self.proxied, str(self.folder)], {})

    def _add(self, name: str, command: Callable[[int], list[str]], variables: dict[str, str]) -> None:
        self.processes[name] = Process(name, command, self.folder, variables)

    def _spec(self, name: str, life: int) -> list[str]:
        over = next(client.over for client in self.plan.clients if client.name == name)
        url = self.proxied if over == "direct" else f"http://127.0.0.1:{self.proxies[over].port}"
        spec = Spec(plan=self.plan, client=name, life=life, url=url, database=self.proxied, folder=str(self.folder))
        path = self.folder / f"{name}.spec"
        path.write_bytes(msgspec.json.encode(spec))
        return ["-m", "torture.client", str(path)]
