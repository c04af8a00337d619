"""A process of the rack, which may be killed, paused and started again, with a clock that can be moved."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
STARTUP = Path(__file__).parent / "startup"


class Process:
    """One program. `command` is asked for at every start, with how often it was started before."""

    def __init__(
        self, name: str, command: Callable[[int], list[str]], folder: Path, variables: Mapping[str, str]
    ) -> None:
        self.name = name
        self.life = 0
        self.wanted = False
        self._command = command
        self._log = folder / f"{name}.log"
        self._clock = folder / f"{name}.clock"
        self.set_clock(0)
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("QUEEN_", "PYTEST"))},
            "PYTHONPATH": os.pathsep.join(map(str, (STARTUP, ROOT, ROOT / "src"))),
            "TORTURE_CLOCK": str(self._clock),
            **variables,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def set_clock(self, ahead_ms: int) -> None:
        """Let the clock of this process be so much ahead."""
        if not self._clock.exists():
            self._clock.write_bytes(struct.pack("<q", 0))
        with self._clock.open("r+b") as file:
            file.write(struct.pack("<q", ahead_ms))

    def start(self) -> None:
        """Start it."""
        with self._log.open("ab") as log:
            command = [sys.executable, *self._command(self.life)]
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, cwd=ROOT)
        self.life += 1
        self.wanted = True

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return None if self._process is None else self._process.poll()

    def tree(self) -> list[psutil.Process]:
        """It and its children."""
        if self._process is None or self._process.poll() is not None:
            return []
        with suppress(psutil.NoSuchProcess):
            own = psutil.Process(self._process.pid)
            return [own, *own.children(recursive=True)]
        return []

    def memory(self) -> int:
        """Bytes of it and its children that are in memory."""
        total = 0
        for one in self.tree():
            with suppress(psutil.NoSuchProcess):
                total += one.memory_info().rss
        return total

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and its children."""
        for one in self.tree():
            with suppress(psutil.NoSuchProcess):
                one.send_signal(number)

    def kill(self) -> None:
        """End it and its children as a power failure would."""
        self.wanted = False
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(30)

    def kill_child(self, number: int) -> bool:
        """End one of its worker processes; tells whether there is one."""
        workers = [one for one in self.tree()[1:] if _is_worker(one)]
        if not workers:
            return False
        with suppress(psutil.NoSuchProcess):
            workers[number % len(workers)].kill()
        return True

    def log(self) -> str:
        """The end of what it printed."""
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "multiprocessing.spawn" in " ".join(process.cmdline())
    except psutil.Error:
        return False
