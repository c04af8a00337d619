from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from queen.db import embedded
from queen.db.embedded import INSTALLS, EmbeddedServer, EmbeddedServerError
from tests.support.ports import free_port
from tests.support.wait import wait_for

HASTY = {"fsync": "off"}
USER_PROGRAM = """
import sys, time
from pathlib import Path
from queen.db.embedded import EmbeddedServer
server = EmbeddedServer.start(Path(sys.argv[1]), settings={"fsync": "off"})
print(server.pid, flush=True)
sys.stdin.readline()
"""


def value(dsn: str, statement: str) -> object:
    with psycopg.connect(dsn, autocommit=True, connect_timeout=10) as connection:
        cursor = connection.execute(statement.encode())
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def start_user(directory: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", USER_PROGRAM, str(directory)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("major", sorted(INSTALLS))
def test_data_survives_a_stop(scratch: Path, major: int) -> None:
    with EmbeddedServer.start(scratch, major=major, settings=HASTY) as server:
        assert str(value(server.dsn(), "show server_version")).startswith(f"{major}.")
        value(server.dsn(), "create table kept as select 7 as n")
    assert server.pid is None
    with EmbeddedServer.start(scratch, major=major, settings=HASTY) as server:
        assert value(server.dsn(), "select n from kept") == 7


def test_durability_is_on_and_memory_is_modest(scratch: Path) -> None:
    with EmbeddedServer.start(scratch) as server:
        assert int(str(value(server.dsn(), "show max_prepared_transactions"))) > 0
        shown = {
            name: value(server.dsn(), f"show {name}")
            for name in ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "listen_addresses")
        }
    assert shown == {
        "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
        "shared_buffers": "256MB", "listen_addresses": "",
    }  # fmt: skip


def test_a_kill_is_survived(scratch: Path) -> None:
    with EmbeddedServer.start(scratch) as server:
        value(server.dsn(), "create table kept as select generate_series(1, 1000) as n")
        before = server.pid
        server.kill()
        assert (server.pgdata / "postmaster.pid").exists()
        with pytest.raises(psycopg.OperationalError):
            value(server.dsn(), "select 1")
        server.restart()
        assert server.pid not in (None, before)
        assert value(server.dsn(), "select count(*) from kept") == 1000


def test_restart_ends_open_connections(scratch: Path) -> None:
    with (
        EmbeddedServer.start(scratch, settings=HASTY) as server,
        psycopg.connect(server.dsn(), autocommit=True) as connection,
    ):
        server.restart()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
        assert value(server.dsn(), "select 1") == 1


def test_a_lock_file_of_a_process_that_is_something_else_is_ignored(scratch: Path) -> None:
    with EmbeddedServer.start(scratch, settings=HASTY) as server:
        server.kill()
        stale = server.pgdata / "postmaster.pid"
        stale.write_text("\n".join([str(os.getpid()), *stale.read_text().splitlines()[1:]]) + "\n")
        assert server.pid is None
        server.restart()
        assert value(server.dsn(), "select 1") == 1


def test_a_port_takes_a_password(scratch: Path) -> None:
    port = free_port()
    with EmbeddedServer.start(scratch, port=port, settings=HASTY) as server:
        assert f"127.0.0.1:{port}" in server.dsn()
        assert value(server.tcp_dsn(), "select inet_server_port()") == port
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            value(f"postgresql://queen:wrong@127.0.0.1:{port}/queen", "select 1")
        assert (scratch / "postgres.password").stat().st_mode & 0o077 == 0


def test_no_port_no_tcp(scratch: Path) -> None:
    with (
        EmbeddedServer.start(scratch, settings=HASTY) as server,
        pytest.raises(EmbeddedServerError, match="start it with port="),
    ):
        server.tcp_dsn()


def test_a_port_in_use_is_told(scratch: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(EmbeddedServerError, match="Address already in use"):
            EmbeddedServer.start(scratch, port=taken.getsockname()[1], settings=HASTY)


def test_a_long_path_gets_a_short_socket(scratch: Path) -> None:
    directory = scratch / ("long" * 30)
    with EmbeddedServer.start(directory, settings=HASTY) as server:
        assert value(server.dsn(), "select 1") == 1
        assert str(scratch) not in server.dsn()


def test_a_path_with_odd_letters_works(scratch: Path) -> None:
    directory = scratch / "it's a 100% Übung & more"
    with EmbeddedServer.start(directory, settings=HASTY) as server:
        assert value(server.dsn(), "select 1") == 1


def test_two_handles_share_one_server(scratch: Path) -> None:
    first = EmbeddedServer.start(scratch, settings=HASTY)
    second = EmbeddedServer.start(scratch, settings=HASTY)
    assert first.pid == second.pid
    first.stop()
    first.stop()
    assert value(second.dsn(), "select 1") == 1
    second.stop()
    assert second.pid is None


def test_another_major_version_is_refused(scratch: Path) -> None:
    with (
        EmbeddedServer.start(scratch, major=18, settings=HASTY) as server,
        pytest.raises(EmbeddedServerError, match="was made by PostgreSQL 18, not 16"),
    ):
        EmbeddedServer.start(scratch, major=16)
    assert server.pid is None
    with pytest.raises(EmbeddedServerError, match=r"choose one of \[16, 18\]"):
        EmbeddedServer.start(scratch, major=9)


def test_attaching_with_another_port_is_refused(scratch: Path) -> None:
    with (
        EmbeddedServer.start(scratch, settings=HASTY),
        pytest.raises(EmbeddedServerError, match="without TCP port 6000"),
    ):
        EmbeddedServer.start(scratch, port=6000)


def test_processes_share_and_the_last_one_stops_it(scratch: Path) -> None:
    users = [start_user(scratch) for _ in range(3)]
    pids = {int(user.stdout.readline()) for user in users if user.stdout}
    assert len(pids) == 1
    server = psutil.Process(pids.pop())
    for user in users:
        assert alive(server)
        user.communicate("\n", timeout=30)
    assert not alive(server)


def test_a_killed_user_leaves_no_server_behind(scratch: Path) -> None:
    user = start_user(scratch)
    assert user.stdout is not None
    server = psutil.Process(int(user.stdout.readline()))
    user.send_signal(signal.SIGKILL)
    user.communicate(timeout=30)
    wait_for(lambda: not alive(server))
    assert not (scratch / "postgres" / "postmaster.pid").exists()


def test_a_server_that_cannot_start_says_why(scratch: Path) -> None:
    with pytest.raises(EmbeddedServerError, match='unrecognized configuration parameter "nonsense"'):
        EmbeddedServer.start(scratch, settings={"nonsense": "1"})
    with EmbeddedServer.start(scratch, settings=HASTY) as server:
        assert value(server.dsn(), "select 1") == 1


def alive(server: psutil.Process) -> bool:
    """Tell whether the server is there, not counting one that only waits to be reaped."""
    return server.is_running() and server.status() != psutil.STATUS_ZOMBIE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is refused by PostgreSQL")
def test_root_may_work_below_a_closed_directory(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = scratch / "closed"
    closed.mkdir(mode=0o700)
    (closed / "programs").symlink_to(embedded.binaries(18).parent)
    monkeypatch.setattr(embedded, "binaries", lambda major: closed / "programs" / "bin")
    with EmbeddedServer.start(closed / "data", settings=HASTY) as server:
        assert value(server.dsn(), "select 1") == 1
        assert server.pid is not None
        assert psutil.Process(server.pid).uids().effective != 0
        server.kill()
        server.restart()
        assert value(server.dsn(), "select 1") == 1
    assert closed.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_an_ordinary_user_can_run_it_too(scratch: Path) -> None:
    nobody = 65534
    home = scratch / "home"
    home.mkdir()
    os.chown(home, nobody, nobody)
    done = subprocess.run(
        [open_python(), "-c", USER_PROGRAM, str(home / "data")],
        env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path.endswith(("site-packages", "src")))},
        input="\n", capture_output=True, text=True, timeout=60, check=False, user=nobody, group=nobody, extra_groups=[],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (home / "data" / "postgres").stat().st_uid == nobody


def open_python() -> str:
    """A Python of our version that everybody may run; ours may live in a closed home directory."""
    version = f"python3.{sys.version_info.minor}"
    for path in (Path(sys.executable).resolve(), Path("/usr/bin") / version, Path("/usr/local/bin") / version):
        if path.exists() and all(place.stat().st_mode & 0o001 for place in (path, *path.parents)):
            return str(path)
    pytest.skip(f"no {version} that an ordinary user may run")
