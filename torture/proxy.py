"""A small TCP proxy: cuts connections, holds them up, and loses answers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Literal

Mode = Literal["open", "cut", "slow", "deaf"]
CHUNK = 65_536


class Proxy:
    """Listens on a port of its own and passes on to another one, which may change.

    Modes: `open` passes on; `cut` resets what there is and refuses what comes; `slow` holds every piece up for
    `delay` seconds; `deaf` passes on what clients say and loses the answers.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.mode: Mode = "open"
        self.delay = 0.0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._wires: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen on a free port of the loopback interface."""
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0, limit=CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Hang up on everybody."""
        if self._server is not None:
            self._server.close()
        self.reset()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def set(self, mode: Mode, delay: float = 0.0) -> None:
        """Change what happens from now on; whoever lost an answer is hung up on when that ends."""
        if mode == "cut" or self.mode == "deaf":
            self.reset()
        self.mode, self.delay = mode, delay

    def reset(self) -> None:
        """End every connection at once, as a broken network would."""
        for wire in list(self._wires):
            with suppress(OSError, RuntimeError):
                wire.transport.abort()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._wires.add(writer)
        far: asyncio.StreamWriter | None = None
        try:
            if self.mode == "cut":
                writer.transport.abort()
                return
            back, far = await asyncio.open_connection("127.0.0.1", self.target, limit=CHUNK)
            self._wires.add(far)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, far, answers=False))
                both.create_task(self._pass(back, writer, answers=True))
        except* OSError:
            pass
        finally:
            for wire in (writer, far):
                if wire is not None:
                    self._wires.discard(wire)
                    with suppress(OSError, RuntimeError):
                        wire.transport.abort()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        while data := await reader.read(CHUNK):
            if self.mode == "slow":
                await asyncio.sleep(self.delay)
            if self.mode == "deaf" and answers:
                continue
            writer.write(data)
            await writer.drain()
        # One side is done: with HTTP/1.1 and PostgreSQL so is the other.
        writer.close()
        raise ConnectionResetError
