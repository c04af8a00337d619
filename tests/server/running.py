"""The real server over real sockets: in a thread of the test process, or as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import structlog
import uvloop

from queen.config import Settings
from queen.server.serve import Server, make_server
from tests.support.ports import free_port
from tests.support.wait import wait_for


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that runs, and where."""

    url: str
    server: Server
    settings: Settings


@contextmanager
def run_broker(database: str, data_dir: Path, **options: Any) -> Iterator[Running]:
    """Run a broker in a thread until the block ends."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    settings = Settings(
        **{"database_url": database, "data_dir": data_dir, "port": port, "log_level": "error", **options}
    )
    # Events go where the program sends them: what a command prints beside this broker is only its own.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    server = make_server(settings)
    thread = threading.Thread(target=lambda: _run(server, listening), name="broker")
    thread.start()
    try:
        wait_for(lambda: server.started or not thread.is_alive(), limit=60)
        assert server.started, "the broker did not start"
        yield Running(f"http://127.0.0.1:{port}", server, settings)
    finally:
        server.should_exit = True
        thread.join(60)
        listening.close()
        assert not thread.is_alive(), "the broker did not stop"


def _run(server: Server, listening: socket.socket) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=[listening]))


class Process:
    """`queen serve` as a process of its own, which may be killed and started again on the same port."""

    def __init__(self, database: str, data_dir: Path, **variables: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = data_dir / "broker.log"
        self._environment = {
            **os.environ,
            "QUEEN_DATABASE_URL": database,
            "QUEEN_DATA_DIR": str(data_dir),
            "QUEEN_PORT": str(self.port),
            "QUEEN_LOG_FORMAT": "json",
            **variables,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text()

    def start(self, *, ready: bool = True) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "queen", "serve"], env=self._environment, stdout=log, stderr=log
            )
        wait_for(lambda: self.answers("/health" if ready else "/health/live"), limit=60, pause=0.05)

    def answers(self, path: str) -> bool:
        """Tell whether a path is answered with 200."""
        assert self._process is not None
        assert self._process.poll() is None, f"the broker ended: {self.log}"
        with suppress(httpx2.HTTPError):
            return httpx2.get(f"{self.url}{path}", timeout=5).status_code == 200
        return False

    def kill(self) -> None:
        """End it as a power failure would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def stop(self, limit: float = 40) -> int:
        """Ask it to stop; returns its exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(limit)


@contextmanager
def run_process(database: str, data_dir: Path, **variables: str) -> Iterator[Process]:
    """A started process, killed when the block ends."""
    process = Process(database, data_dir, **variables)
    process.start()
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
