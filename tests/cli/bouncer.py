"""A pgbouncer in transaction mode before a database."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg

from tests.support.postgres import scratch_directory
from tests.support.wait import wait_for

SETTINGS = """\
[databases]
queen = host={host} port={port} dbname={database} user=queen
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 50
default_pool_size = 5
ignore_startup_parameters = extra_float_digits
logfile = {directory}/log
pidfile = {directory}/pid
"""


@contextmanager
def bouncer(url: str) -> Iterator[str]:
    """The address of a database behind a transaction-mode pooler."""
    parts = urlsplit(url)
    place = {name: values[0] for name, values in parse_qs(parts.query).items()}
    with socket.socket() as free, scratch_directory() as directory:
        free.bind(("127.0.0.1", 0))
        listen = free.getsockname()[1]
        free.close()
        text = SETTINGS.format(**place, database=parts.path[1:], listen=listen, directory=directory)
        (directory / "pgbouncer.ini").write_text(text)
        command = ["pgbouncer", str(directory / "pgbouncer.ini")]
        if os.getuid() == 0:
            # The owner of the server's socket, which nobody else may use.
            owner = pwd.getpwuid(Path(place["host"]).stat().st_uid).pw_name
            os.chown(directory, pwd.getpwnam(owner).pw_uid, -1)
            command = [command[0], "-u", owner, *command[1:]]
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=quiet, stderr=quiet)
        address = f"postgresql://queen@127.0.0.1:{listen}/queen"
        try:
            wait_for(lambda: process.poll() is not None or answers(address))
            yield address
        finally:
            process.terminate()
            process.wait(20)


def answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
