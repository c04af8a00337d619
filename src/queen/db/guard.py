"""The watcher of an embedded server: stops it when its last user is gone.

Every process that uses the server holds a shared lock on one file. The watcher waits for the
exclusive lock, which it gets only when all of them have let go, even those that were killed.
It runs as `python guard.py LOCK_FILE PID_FILE LIMIT` and needs the standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from pathlib import Path


def running(pid: int) -> bool:
    """Tell whether this is a live postgres: not a zombie, not another program with a reused id."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    if not Path("/proc/self/stat").exists():
        return True
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
    except OSError:
        return False
    return name == "postgres" and rest.split()[0] not in "ZX"


def read_pid(pid_file: Path) -> int | None:
    """Read the process id in the first line of postmaster.pid."""
    try:
        return int(pid_file.read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None


def end(pid: int, sig: signal.Signals, limit: float) -> bool:
    """Send a signal and wait, at most `limit` seconds, until the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, sig)
    deadline = time.monotonic() + limit
    while running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def watch(lock_file: Path, pid_file: Path, limit: float) -> None:
    """Wait until nobody holds the lock, then stop the server: orderly first, at once after that."""
    with lock_file.open("r") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pid = read_pid(pid_file)
        if pid is not None and running(pid) and not end(pid, signal.SIGINT, limit):
            end(pid, signal.SIGQUIT, limit)


def main() -> None:
    """Leave the caller's process group and watch in the background."""
    lock_file, pid_file, limit = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    if os.fork() == 0:
        os.setsid()
        os.chdir("/")
        with contextlib.suppress(OSError):
            watch(lock_file, pid_file, limit)


if __name__ == "__main__":
    main()
