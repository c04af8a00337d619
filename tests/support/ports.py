"""Ports of this machine."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

# Below those that the system gives to outgoing connections, so that none of these takes one in between.
FIRST, LAST = 20_000, 32_000
CLAIMS = Path(tempfile.gettempdir()) / "queen-test-ports"
_HELD: list[int] = []


def free_port() -> int:
    """A port nobody listens on, and that no other test of this machine gets while this process lives."""
    CLAIMS.mkdir(exist_ok=True)
    with suppress(PermissionError):
        CLAIMS.chmod(0o777)
    for port in _in_turn():
        claim = os.open(CLAIMS / str(port), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            os.close(claim)
            continue
        _HELD.append(claim)
        return port
    raise AssertionError("no port is free")


def _in_turn() -> Iterator[int]:
    """All ports, from a place that differs from process to process on."""
    count = LAST - FIRST
    start = os.getpid() * 97 % count
    return (FIRST + (start + step) % count for step in range(count))
