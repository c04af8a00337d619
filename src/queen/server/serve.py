"""Run the broker: the listening socket, the event loop, a graceful stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from types import FrameType
from typing import Any, Final

import msgspec
import structlog
import uvicorn
import uvloop

from queen.config import Settings
from queen.db.embedded import EmbeddedServer
from queen.server.app import App
from queen.server.broker import Broker
from queen.server.protocol import Protocol

LOG: Final = structlog.get_logger("queen.serve")
BACKLOG: Final = 4096
# Requests make much garbage that counting frees at once; looking for cycles every 700 objects is wasted on it.
GARBAGE: Final = 20_000
SAME_BREATH: Final = 1.0


class Server(uvicorn.Server):
    """Uvicorn, but whoever waits is answered as soon as a stop is asked for, and a signal ends with exit code 0."""

    def __init__(self, config: uvicorn.Config, broker: Broker) -> None:
        super().__init__(config)
        self.broker = broker
        self._asked_at: float | None = None
        self._certificate: tuple[int, int] | None = None
        self._certificate_problem = ""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGTERM and SIGINT."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came: stop gracefully; one more, not sent in the same breath, stops at once."""
        now = time.monotonic()
        if self._asked_at is None:
            LOG.info("stopping", signal=signal.Signals(sig).name)
            self._asked_at = now
        elif now - self._asked_at > SAME_BREATH:
            self.force_exit = True
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; a certificate that was replaced is taken for the connections that follow."""
        if counter % 10 == 0 and self.config.ssl is not None:
            self._renew_certificate()
        return await super().on_tick(counter)

    def _renew_certificate(self) -> None:
        settings = self.broker.settings
        assert self.config.ssl is not None
        assert settings.tls_certificate is not None
        assert settings.tls_key is not None
        try:
            stamps = settings.tls_certificate.stat().st_mtime_ns, settings.tls_key.stat().st_mtime_ns
            if self._certificate not in (None, stamps):
                self.config.ssl.load_cert_chain(settings.tls_certificate, settings.tls_key)
                LOG.info("the certificate was read again", file=str(settings.tls_certificate))
            self._certificate = stamps
        except (OSError, ssl.SSLError) as error:
            if str(error) != self._certificate_problem:
                LOG.error("the new certificate cannot be used, the old one stays", reason=str(error))
            self._certificate_problem = str(error)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        for listening in sockets or ():
            if self.started:
                host, port, *_ = listening.getsockname()
                scheme = "http" if self.config.ssl is None else "https"
                LOG.info(
                    "listening", url=f"{scheme}://{host}:{port}", worker=self.broker.worker, version=self.broker.version
                )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer whoever waits, let the connections end, then close."""
        limit = self.broker.settings.shutdown_limit
        draining = asyncio.create_task(self.broker.drain(), name="queen-stop")
        await super().shutdown(sockets)
        with suppress(TimeoutError):
            await asyncio.wait_for(draining, limit)
        LOG.info("stopped")


def make_server(settings: Settings, *, worker: int = 0) -> Server:
    """A server that is not running yet."""
    broker = Broker(settings, worker=worker)
    config = uvicorn.Config(
        App(broker),
        http=Protocol,
        ws="websockets-sansio",
        lifespan="on",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        timeout_graceful_shutdown=max(int(settings.shutdown_limit), 1),
        backlog=BACKLOG,
    )
    return Server(config, broker)


def listening_socket(settings: Settings, *, shared: bool = False) -> socket.socket:
    """The socket of the settings' address; `shared` lets other processes have one on the same port."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot listen on {settings.host}:{settings.port}: {error.strerror}") from error
    return listening


@contextmanager
def database_for(settings: Settings) -> Iterator[Settings]:
    """The settings with a database in them: an embedded one when none is named."""
    if settings.database_url:
        yield settings
        return
    with EmbeddedServer.start(settings.data_dir, port=settings.embedded_port or None) as server:
        server.keep_running()
        LOG.info("the embedded PostgreSQL runs", directory=str(server.data_dir))
        yield msgspec.structs.replace(settings, database_url=server.dsn())


def run(settings: Settings, *, worker: int = 0, shared: bool = False) -> bool:
    """Serve until a signal comes; tells whether the start worked."""
    server = make_server(settings, worker=worker)
    listening = listening_socket(settings, shared=shared)
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 50)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(server, listening))
    return server.started


async def _serve(server: Server, listening: socket.socket) -> None:
    parent = _parent_sentinel()
    if parent is not None:
        # A worker whose supervisor was killed must not live on unseen.
        loop = asyncio.get_running_loop()

        def orphaned() -> None:
            loop.remove_reader(parent)
            server.handle_exit(signal.SIGTERM, None)

        loop.add_reader(parent, orphaned)
    await server.serve(sockets=[listening])


def _parent_sentinel() -> Any:
    parent = parent_process()
    return parent.sentinel if parent is not None else None
