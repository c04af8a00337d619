"""A synchronous standby that takes over: what was answered as stored is there, by the promise of PostgreSQL."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit, urlunsplit

import psycopg

from queen.db.account import Account
from queen.db.embedded import EmbeddedServer

LIMIT = 60
NAME = "heir"


class Standby:
    """A copy of a server that follows it."""

    def __init__(self, server: EmbeddedServer, data: Path, port: int) -> None:
        self._server = server
        self._data = data
        self._port = port
        self._account = Account.choose()
        self.promoted = False

    @classmethod
    def of(cls, server: EmbeddedServer, data: Path, port: int) -> Self:
        """Copy a running server, follow it, and let its commits wait for the copy from now on."""
        standby = cls(server, data, port)
        standby._account.own_directory(data)
        standby._account = standby._account.reaching(data, server.bin_dir)
        standby._run(
            "pg_basebackup", "-D", str(data), "-d", server.tcp_dsn("postgres"), "-R", "-X", "stream", "-c", "fast"
        )
        primary = server.tcp_dsn("postgres")
        with (data / "postgresql.auto.conf").open("a") as file:
            file.write(f"primary_conninfo = '{primary}?application_name={NAME}'\n")
        (data / "queen.conf").write_text(
            (data / "queen.conf").read_text() + f"port = '{port}'\nunix_socket_directories = '{data}'\n"
        )
        standby._control("start", "-w", "-l", str(data / "standby.log"))
        with psycopg.connect(primary, autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = 'heir'")
            connection.execute("select pg_reload_conf()")
        return standby

    @property
    def dsn(self) -> str:
        """Its address."""
        parts = urlsplit(self._server.tcp_dsn())
        return urlunsplit(parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{self._port}"))

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    def promote(self) -> None:
        """Take over from a primary that is gone; from now on it waits for nobody."""
        self._control("promote", "-w", "-t", str(LIMIT))
        self.promoted = True
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("alter system reset synchronous_standby_names")
            connection.execute("select pg_reload_conf()")

    def stop(self) -> None:
        """End it."""
        self._control("stop", "-m", "immediate")

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-s", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PG")}
        done = self._account.run([str(self._server.bin_dir / program), *arguments], environment)
        if done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, program, done.stdout, done.stderr)
