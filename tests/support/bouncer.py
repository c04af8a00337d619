"""A pgbouncer in transaction mode before a database."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg

from tests.support.ports import free_port
from tests.support.postgres import scratch_directory
from tests.support.programs import find_program
from tests.support.wait import wait_for

SETTINGS = """\
[databases]
* = host={host} port={port} user=queen
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 200
default_pool_size = 3
ignore_startup_parameters = extra_float_digits
logfile = {directory}/log
pidfile = {directory}/pid
"""


@contextmanager
def bouncer(url: str) -> Iterator[str]:
    """The address of a database behind a transaction-mode pooler with three connections."""
    program = find_program("pgbouncer")
    parts = urlsplit(url)
    place = {name: values[0] for name, values in parse_qs(parts.query).items()}
    listen = free_port()
    with scratch_directory() as directory:
        config = directory / "pgbouncer.ini"
        config.write_text(SETTINGS.format(**place, listen=listen, directory=directory))
        command = [program, str(config)]
        if os.getuid() == 0:  # it refuses to run as root, and the server's socket is for the server's user only
            owner = Path(place["host"]).stat().st_uid
            os.chown(directory, owner, -1)
            command = ["setpriv", f"--reuid={owner}", "--clear-groups", *command]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        address = f"postgresql://queen@127.0.0.1:{listen}{parts.path}"
        try:
            wait_for(lambda: process.poll() is not None or answers(address))
            assert process.poll() is None, "the pooler did not start"
            yield address
        finally:
            process.terminate()
            process.wait(20)


def answers(url: str) -> bool:
    """Whether somebody can connect there."""
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
