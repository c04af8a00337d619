"""Several broker processes on one port: start them, replace those that die, stop them together."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Final

import structlog

from queen.config import ConfigError, Settings
from queen.db import migrate
from queen.server import logs
from queen.server.doorman import is_local
from queen.server.serve import database_for, listening_socket, run
from queen.server.shares import DIRECTORY

LOG: Final = structlog.get_logger("queen.supervisor")
_STEADY: Final = 10.0
_KNOCK: Final = 5.0
_PAUSES: Final = (0.1, 0.5, 1.0, 2.0, 5.0)


def work(settings: Settings, number: int) -> None:
    """The life of one worker process."""
    logs.set_up(settings)
    if not run(settings, worker=number, shared=True):
        raise SystemExit(3)


class Supervisor:
    """Keeps `settings.workers` processes running until it is told to stop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._context = get_context("spawn")
        self._workers: dict[int, SpawnProcess] = {}
        self._started: dict[int, float] = {}
        self._failures = 0
        self._stopping = False

    def run(self) -> bool:
        """Serve until a signal comes; tells whether that was the reason to end."""
        # Without sharing first: a port that somebody else listens on is an error, not company.
        listening_socket(self._settings).close()
        reserved = listening_socket(self._settings, shared=True)
        shared = tempfile.mkdtemp(prefix="queen-metrics-")
        os.environ[DIRECTORY] = shared
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        try:
            for worker in range(self._settings.workers):
                self._start(worker)
            while not self._stopping:
                self._replace_dead()
            return True
        finally:
            self._end_all()
            reserved.close()
            shutil.rmtree(shared, ignore_errors=True)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _start(self, worker: int) -> None:
        process = self._context.Process(target=work, args=(self._settings, worker), name=f"queen-worker-{worker}")
        process.start()
        self._workers[worker] = process
        self._started[worker] = time.monotonic()

    def _replace_dead(self) -> None:
        wait([process.sentinel for process in self._workers.values()], timeout=0.2)
        for worker, process in list(self._workers.items()):
            if process.is_alive() or self._stopping:
                continue
            steady = time.monotonic() - self._started[worker] > _STEADY
            self._failures = 0 if steady else self._failures + 1
            LOG.warning("a worker ended and is replaced", worker=worker, code=process.exitcode)
            time.sleep(_PAUSES[min(self._failures, len(_PAUSES) - 1)])
            self._start(worker)

    def _end_all(self) -> None:
        deadline = time.monotonic() + self._settings.shutdown_limit + 5
        for process in self._workers.values():
            if process.is_alive():
                process.terminate()
        for process in self._workers.values():
            process.join(max(deadline - time.monotonic(), 0.1))
            if process.is_alive():
                process.kill()
                process.join(5)


def require_admitted(settings: Settings) -> None:
    """Refuse an address that PostgreSQL will never let us in by; one where nobody answers yet is waited for."""

    async def knock() -> None:
        async with migrate.connect(settings.database_url or "", timeout=_KNOCK):
            pass

    try:
        asyncio.run(knock())
    except (ValueError, migrate.TurnedAway) as error:
        raise ConfigError(f"database_url cannot be used: {error}") from error
    except (OSError, TimeoutError):
        pass


def serve(settings: Settings) -> bool:
    """`queen serve`: one process, or several under a supervisor; tells whether it could start."""
    if not (settings.jwt_enabled or settings.allow_anonymous or is_local(settings.host)):
        raise ConfigError(
            f"the broker would serve everybody who reaches {settings.host}: set jwt_enabled and a key, or say "
            "allow_anonymous (QUEEN_ALLOW_ANONYMOUS=true) if that is meant"
        )
    logs.set_up(settings)
    with database_for(settings) as complete:
        require_admitted(complete)
        return run(complete) if complete.workers == 1 else Supervisor(complete).run()
