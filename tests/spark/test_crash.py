"""Positions survive a crash of the database, and are refused on another one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.spark.errors import SparkError
from queen.spark.offsets import Position
from tests.spark.support.followers import ByHorizon
from tests.spark.support.queues import Queues, push

# Nothing reaches the disk but what somebody insists on.
LAZY = {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB", "autovacuum": "off", "bgwriter_lru_maxpages": "0"}


@pytest.fixture
def server(scratch: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(scratch / "server", settings=LAZY) as found:
        asyncio.run(apply(found.dsn()))
        yield found


async def apply(url: str) -> None:
    async with migrate.connect(url) as connection:
        await migrate.up(connection)


def abort_pushes(queues: Queues, count: int) -> None:
    with queues.connect() as connection:
        for number in range(count):
            push(connection, "orders", "aborted", number)
        connection.rollback()


@pytest.mark.chaos
def test_no_message_falls_below_a_position_handed_out_before_a_crash(server: EmbeddedServer) -> None:
    with Queues(server.dsn()) as queues, ByHorizon(queues, "orders", 100, first="a") as follower:
        follower.poll()
        abort_pushes(queues, 100)
        bare = queues.value("select pg_sequence_last_value('queen.message_pos') + 1")
    crash(server)
    with Queues(server.dsn()) as queues:
        queues.push("orders", "a", 2)
        # Without the durable horizon this position would have been used, and the message missed.
        assert queues.value("select max(pos) from queen.messages") < bare
        abort_pushes(queues, 100)
        with follower.on(queues):
            follower.poll()
        handed_out = follower.offset["pos"]
    crash(server)
    with Queues(server.dsn()) as queues, follower.on(queues):
        queues.push("orders", "a", 3)
        assert queues.value("select max(pos) from queen.messages") >= handed_out
        follower.poll()
        assert follower.problems() == []
        assert follower.seen == [("a", 1), ("a", 2), ("a", 3)]


def crash(server: EmbeddedServer) -> None:
    server.kill()
    server.restart()


@pytest.mark.chaos
def test_a_database_that_took_over_is_refused(server: EmbeddedServer, scratch: Path) -> None:
    with Queues(server.dsn()) as queues, ByHorizon(queues, "orders", 100, first="a") as follower:
        follower.poll()
    server.stop()
    copied = copy(scratch / "server", scratch / "copy")
    promote(server, copied / "postgres")
    with (
        EmbeddedServer.start(copied, settings=LAZY) as successor,
        Queues(successor.dsn()) as queues,
        ByHorizon(queues, "orders", 100) as moved,
    ):
        assert queues.value("select substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)") == "00000002"
        moved.offset = follower.offset
        with pytest.raises(SparkError, match="restored, failed over or replaced") as caught:
            moved.poll()
    assert caught.value.code == "FOREIGN_POSITION"
    assert "\n" not in str(caught.value)


def copy(source: Path, target: Path) -> Path:
    """The files of a server that is down, owned by the same user."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.pid", ".s.*"))
    owner, group = (source / "postgres").owner(), (source / "postgres").group()
    for path in [target, *target.rglob("*")]:
        shutil.chown(path, owner, group)
    return target


def promote(server: EmbeddedServer, data: Path) -> None:
    """Run the copy as a standby and let it take over, as its own user."""
    (data / "standby.signal").touch()
    owner = data.stat().st_uid if os.geteuid() == 0 else None
    control = [str(server.bin_dir / "pg_ctl"), "-D", str(data), "-w", "-s", "-l", str(data / "promotion.log")]
    place = f"-c unix_socket_directories={data} -c listen_addresses="
    for step in (["start", "-o", place], ["promote"], ["stop"]):
        subprocess.run([*control, *step], check=True, timeout=60, cwd="/", user=owner)


def test_a_position_ahead_of_the_database_is_refused() -> None:
    position = Position(100, "1:1:5", 0)
    position.require_valid(Position(100, "1:1:5", 7))
    with pytest.raises(SparkError, match="restored from an older state"):
        position.require_valid(Position(99, "1:1:5", 7))


def test_an_offset_of_something_else_is_refused() -> None:
    with pytest.raises(SparkError, match="this is not a position of a queue"):
        Position.from_offset(json.loads('{"orders": {"0": 5}}'))
