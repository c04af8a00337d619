"""The real server over real sockets: in a thread of the test process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from queen.config import Settings
from queen.server.serve import Server, make_server
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
    server = make_server(settings)
    thread = threading.Thread(target=lambda: _run(server, listening), name="broker")
    thread.start()
    try:
        wait_for(lambda: server.started or not thread.is_alive())
        assert server.started, "the broker did not start"
        yield Running(f"http://127.0.0.1:{port}", server, settings)
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
        assert not thread.is_alive(), "the broker did not stop"


def _run(server: Server, listening: socket.socket) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.serve(sockets=[listening]))
