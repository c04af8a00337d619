"""Processes that tests start, watch and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.tree import ROOT


class Process:
    """A program with all its children in a group of their own; ended with the block."""

    def __init__(self, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        given = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **(environment or {})}
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                [str(part) for part in command], stdout=output, stderr=output, env=given, start_new_session=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def wait(self, limit: float) -> int:
        """The exit code, once it ends."""
        return self._popen.wait(limit)

    def kill(self) -> None:
        """SIGKILL to the whole group, at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait(30)


def python(script: Path, *arguments: str | Path) -> list[str | Path]:
    """The command that runs a script with this very Python."""
    return [sys.executable, script, *arguments]
