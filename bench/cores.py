"""Who used how much of the machine while something ran."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

import psutil


class Cores:
    """Processor time of groups of processes, each with its descendants, from now on."""

    def __init__(self, groups: Mapping[str, Iterable[int]]) -> None:
        self._groups = {name: [psutil.Process(pid) for pid in pids] for name, pids in groups.items()}
        self._own = psutil.Process()
        self._began, self._before = time.perf_counter(), self._spent()

    def _spent(self) -> dict[str, float]:
        spent = {name: sum(map(_with_children, processes)) for name, processes in self._groups.items()}
        return {**spent, "load": seconds_of(self._own)}

    def used(self) -> dict[str, float]:
        """How many cores each group used on average; `load` is this process."""
        wall, now = time.perf_counter() - self._began, self._spent()
        return {name: round((now[name] - before) / wall, 2) for name, before in self._before.items()}


def _with_children(process: psutil.Process) -> float:
    """Of the process, of its living descendants, and of the children that ended."""
    ended = process.cpu_times()
    living = sum(map(seconds_of, [process, *process.children(recursive=True)]))
    return living + float(ended.children_user + ended.children_system)


def seconds_of(process: psutil.Process) -> float:
    """Of one process; nothing when it is gone."""
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0
