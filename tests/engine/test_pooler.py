"""Behind pgbouncer in transaction mode, with LISTEN off: everything works, nothing depends on a session."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from queen.config import Settings
from queen.db.pool import Database, PoolOptions
from queen.engine import Engine
from queen.engine.services.jobs import Jobs
from queen.errors import LeaseLost, PartitionBusy
from queen.model import Ack, NewMessage, PopRequest
from tests.support.wait import eventually, wait_for
from tests.support.work import acks, connect, message, numbers, pop, push

CONFIG = """
[databases]
* = host={host} port={port} user={user}{password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
logfile = {directory}/pgbouncer.log
pidfile = {directory}/pgbouncer.pid
"""


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def pooled(database: str, scratch: Path) -> Iterator[str]:
    """The address of the test's database through a pooler."""
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    if not Path(program).exists():
        assert not os.environ.get("CI"), "pgbouncer must be there in CI"
        pytest.skip("pgbouncer is not installed")
    where = urlsplit(database)
    port = free_port()
    config = scratch / "pgbouncer.ini"
    query = {name: values[0] for name, values in parse_qs(where.query).items()}
    host = where.hostname or query["host"]
    config.write_text(
        CONFIG.format(
            host=host,
            port=where.port or query.get("port", 5432),
            user=where.username or "queen",
            password=f" password={where.password}" if where.password else "",
            listen=port,
            directory=scratch,
        ),
        encoding="utf-8",
    )
    scratch.chmod(0o777)
    config.chmod(0o644)
    command = [program, str(config)]
    if os.getuid() == 0:  # it refuses to run as root, and the server's socket is for the server's user only
        owner = Path(host).stat().st_uid if host.startswith("/") else "nobody"
        command = ["setpriv", f"--reuid={owner}", "--clear-groups", *command]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: answers(port))
        yield f"postgresql://queen@127.0.0.1:{port}{where.path}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
async def engine(pooled: str) -> AsyncIterator[Engine]:
    options = PoolOptions(size=8, pooler="transaction", lock_timeout=0.5)
    async with Engine(Database(pooled, options), listen_url=None, poll=0.1) as opened:
        yield opened


async def test_the_whole_way_of_a_message(engine: Engine) -> None:
    await push(engine, 1, 2, 3)
    messages = await pop(engine, 2)
    assert numbers(messages) == [1, 2]
    await engine.renew([messages[0].lease_id] if messages[0].lease_id else [], 60)
    await engine.ack_messages(messages)
    rest = await pop(engine)
    assert [one.verdict for one in await engine.ack(acks(rest, "failed", "boom"))] == ["acked"]
    again = await pop(engine)
    assert numbers(again) == [3]
    await engine.transaction([NewMessage(queue="out", payload="1")], acks(again))
    assert len(await pop(engine, queue="out")) == 1


async def test_many_callers_share_three_server_connections(engine: Engine) -> None:
    await asyncio.gather(*(push(engine, n, partition=f"p{n % 7}", transaction_id=f"t{n}") for n in range(300)))
    seen: list[int] = []
    while messages := await pop(engine, 50, partitions=3):
        seen += numbers(messages)
        await engine.ack_messages(messages)
    assert sorted(seen) == list(range(300))


async def test_a_waiting_pop_finds_work_by_polling(engine: Engine) -> None:
    waiting = asyncio.create_task(engine.pop(PopRequest(queue="q", group="g", wait=20)))
    await eventually(lambda: engine.parked)
    await push(engine, 1)
    assert numbers(await waiting) == [1]


async def test_time_limits_hold_although_no_session_keeps_them(engine: Engine, database: str) -> None:
    await push(engine, 1)
    async with connect(database) as holder:
        await holder.execute("begin; select from queen.partitions for update")
        with pytest.raises(PartitionBusy):
            await engine.push([message(n) for n in range(100)])
        await holder.execute("rollback")


async def test_a_lost_lease_is_refused(engine: Engine) -> None:
    await push(engine, 1)
    [first] = await pop(engine)
    assert first.lease_id is not None
    await engine.release([first.lease_id])
    ack = Ack(partition_id=first.partition_id, transaction_id=first.transaction_id, lease_id=first.lease_id)
    assert [one.verdict for one in await engine.ack([ack])] == ["lost"]
    with pytest.raises(LeaseLost):
        await engine.transaction([], [], leases=[first.lease_id])


async def test_services_run(engine: Engine) -> None:
    await push(engine, 1)
    jobs = Jobs(engine, Settings())
    assert await jobs.stats() == {"queues": 1}
    assert await jobs.retention() == {"removed": 0, "finished": True}
    assert await engine.horizon() == 2
