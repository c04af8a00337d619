"""A streaming standby of an embedded server, made by pg_basebackup, which takes over when it is told to."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from queen.db.embedded import USER, EmbeddedServer
from tests.support.wait import wait_for

LIMIT = 100


class Standby:
    """Follows a primary in a directory of its own."""

    def __init__(self, primary: EmbeddedServer, folder: Path) -> None:
        self._bin = primary.bin_dir
        self._primary = primary
        self._socket = folder
        self.data = folder / "data"
        self._owner = primary.pgdata.stat().st_uid if os.geteuid() == 0 else None
        folder.mkdir(mode=0o700)
        shutil.chown(folder, primary.pgdata.owner(), primary.pgdata.group())
        copy: list[str | Path] = [
            self._bin / "pg_basebackup",
            "-d",
            primary.dsn("postgres"),
            "-D",
            self.data,
            "-R",
            "-X",
            "stream",
        ]
        self._run(*copy, "-c", "fast", "--no-sync")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(*self._control, "stop", "-m", "immediate", check=False)

    @property
    def url(self) -> str:
        """The address of the database on this server."""
        return f"postgresql://{USER}@/queen?host={self._socket}&port=5432"

    @property
    def _control(self) -> list[str | Path]:
        return [self._bin / "pg_ctl", "-D", self.data, "-w", "-s", "-t", str(LIMIT), "-l", self._socket / "log"]

    def start(self) -> None:
        """Run, and follow whoever it follows."""
        self._run(*self._control, "start", "-o", f"-c unix_socket_directories={self._socket} -c listen_addresses=")

    def stop(self) -> None:
        """Follow no longer."""
        self._run(*self._control, "stop", "-m", "fast")

    def promote(self) -> None:
        """Take over."""
        self._run(*self._control, "promote")

    def catch_up(self) -> None:
        """Wait until everything that the primary has committed is here."""
        with psycopg.connect(self._primary.dsn()) as primary, psycopg.connect(self.url, autocommit=True) as mine:
            (written,) = primary.execute("select pg_current_wal_flush_lsn()").fetchone() or (None,)
            arrived = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
            wait_for(lambda: (mine.execute(arrived, [written]).fetchone() or [False])[0], limit=LIMIT)

    def _run(self, *command: str | Path, check: bool = True) -> None:
        done = subprocess.run(
            [str(part) for part in command],
            check=False, timeout=LIMIT + 20, cwd="/", user=self._owner, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
