"""Keeps worker processes running: starts them again when they end, stops them in order, tells how they are."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from queen.cli.working import Report

_log = logging.getLogger("queen.worker")
_USAGE: Final = 2
_GRACE: Final = 15.0
_SHORT: Final = 30.0
_LONGEST_PAUSE: Final = 30.0
_REQUEST_LIMIT: Final = 5.0


@dataclass
class Slot:
    """One of the processes, through all its lives."""

    number: int
    process: asyncio.subprocess.Process | None = None
    now: dict[str, tuple[int, int]] = field(default_factory=dict)
    before: dict[str, tuple[int, int]] = field(default_factory=dict)

    def ended(self) -> None:
        """Keep the counts of the life that is over."""
        for queue, (handled, failed) in self.now.items():
            done = self.before.get(queue, (0, 0))
            self.before[queue] = (done[0] + handled, done[1] + failed)
        self.now, self.process = {}, None

    @property
    def works(self) -> bool:
        """Whether it runs and has begun to take messages."""
        return self.process is not None and bool(self.now)


class Supervisor:
    """Runs a command several times over, as long as it is not told to stop."""

    def __init__(self, command: list[str], processes: int, drain: float, watched: Path | None) -> None:
        self._command = command
        self._drain = drain
        self._watched = watched
        self._slots = [Slot(number) for number in range(processes)]
        self._stopping = asyncio.Event()
        self._version = 0
        self._code = 0
        self._began = time.monotonic()

    async def run(self, health: tuple[str, int] | None) -> int:
        """Run until a signal comes; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_stop)
        server = await asyncio.start_server(self._answer, *health) if health else None
        beside = [asyncio.create_task(self._show())] if sys.stderr.isatty() else []
        if self._watched is not None:
            beside.append(asyncio.create_task(self._watch(self._watched)))
        if server is not None:
            host, port = server.sockets[0].getsockname()[:2]
            sys.stderr.write(f"health on http://{host}:{port}/health\n")
        try:
            await asyncio.gather(*(self._keep(slot) for slot in self._slots))
        finally:
            for task in beside:
                task.cancel()
            if server is not None:
                server.close()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        if beside and sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{self._line()}\n")
        return self._code

    def _told_to_stop(self) -> None:
        again = self._stopping.is_set()
        self._stopping.set()
        self._signal(signal.SIGKILL if again else signal.SIGTERM)

    def _signal(self, number: int) -> None:
        for slot in self._slots:
            if slot.process is not None:
                with suppress(ProcessLookupError):
                    slot.process.send_signal(number)

    async def _keep(self, slot: Slot) -> None:
        pause = 1.0
        while not self._stopping.is_set():
            began, version = time.monotonic(), self._version
            code = await self._live(slot)
            if self._stopping.is_set():
                break
            if self._watched is not None:
                if code and version == self._version:
                    sys.stderr.write(f"queen: worker {slot.number} ended with {code}; it starts again after a change\n")
                await self._changed(version if code else -1)
                continue
            if code == _USAGE:
                self._code = code
                self._told_to_stop()
                break
            pause = 1.0 if time.monotonic() - began > _SHORT else min(pause * 2, _LONGEST_PAUSE)
            sys.stderr.write(f"queen: worker {slot.number} ended with {code}; it starts again in {pause / 2:.0f} s\n")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause / 2)

    async def _changed(self, version: int) -> None:
        while self._version == version and not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), 0.1)

    async def _live(self, slot: Slot) -> int:
        slot.process = process = await asyncio.create_subprocess_exec(
            *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        reading = asyncio.create_task(self._read(slot, process))
        ending = asyncio.create_task(process.wait())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({ending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                with suppress(ProcessLookupError):
                    process.terminate()
                await asyncio.wait({ending}, timeout=self._drain + _GRACE)
            if not ending.done():
                sys.stderr.write(f"queen: worker {slot.number} does not end; it is killed\n")
                process.kill()
            code = await ending
            await reading
        finally:
            stopping.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()
            slot.ended()
        return code

    async def _read(self, slot: Slot, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            try:
                slot.now = msgspec.json.decode(line, type=Report).queues
            except msgspec.MsgspecError:  # what a task prints
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()

    def _done(self) -> dict[str, dict[str, int]]:
        totals: dict[str, dict[str, int]] = {}
        for slot in self._slots:
            for counts in (slot.before, slot.now):
                for queue, (handled, failed) in counts.items():
                    total = totals.setdefault(queue, {"handled": 0, "failed": 0})
                    total["handled"] += handled
                    total["failed"] += failed
        return totals

    def _line(self) -> str:
        done = self._done()
        parts = [f"{queue}: {one['handled']:,} done, {one['failed']:,} failed" for queue, one in sorted(done.items())]
        working = sum(slot.works for slot in self._slots)
        return f"{working} of {len(self._slots)} processes work  {'  '.join(parts)}"

    async def _show(self) -> None:
        before, rate = 0, 0.0
        while True:
            total = sum(one["handled"] for one in self._done().values())
            rate, before = 0.5 * rate + 0.5 * (total - before) * 2, total
            sys.stderr.write(f"\r\033[K{self._line()}  {rate:,.0f}/s")
            sys.stderr.flush()
            await asyncio.sleep(0.5)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(TimeoutError, ConnectionError, ValueError):
            async with asyncio.timeout(_REQUEST_LIMIT):
                request = (await reader.readuntil(b"\r\n")).split()
                await reader.readuntil(b"\r\n\r\n")
                known = len(request) > 1 and request[1].split(b"?")[0] in (b"/health", b"/")
                status, body = self._health() if known else (404, {"error": "only /health is here"})
                content = msgspec.json.encode(body)
                head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n"
                writer.write(f"{head}connection: close\r\n\r\n".encode() + content)
                await writer.drain()
        writer.close()

    def _health(self) -> tuple[int, dict[str, Any]]:
        working = all(slot.works for slot in self._slots)
        state = "stopping" if self._stopping.is_set() else "working" if working else "starting"
        pids = [slot.process.pid for slot in self._slots if slot.process is not None]
        seconds = round(time.monotonic() - self._began, 1)
        body = {"status": state, "processes": pids, "seconds": seconds, "queues": self._done()}
        return (200 if state == "working" else 503), body

    async def _watch(self, root: Path) -> None:
        seen = await asyncio.to_thread(lambda: dict(_times(root)))
        while True:
            await asyncio.sleep(0.5)
            found = await asyncio.to_thread(lambda: dict(_times(root)))
            if found != seen:
                changed = sorted(str(file) for file, _ in set(found.items()) ^ set(seen.items()))
                sys.stderr.write(f"queen: {changed[0]} changed, starting again\n")
                seen = found
                self._version += 1
                self._signal(signal.SIGTERM)


def _times(root: Path) -> Iterator[tuple[Path, int]]:
    """The sources below a directory and when each was written; hidden directories and environments are left out."""
    for entry in root.iterdir():
        if entry.name.startswith((".", "__")) or (entry / "pyvenv.cfg").exists():
            continue
        with suppress(FileNotFoundError):
            if entry.is_dir():
                yield from _times(entry)
            elif entry.suffix == ".py":
                yield entry, entry.stat().st_mtime_ns
