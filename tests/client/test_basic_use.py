"""What goes wrong in basic use is refused, in words that help."""

from __future__ import annotations

import asyncio
import copy
import logging
import math
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psycopg
import pytest
from msgspec import Struct
from pydantic import BaseModel

import queen
from queen.client.message import Delivered
from queen.client.payload import encode
from tests.server.running import run_broker
from tests.support.wait import eventually


@dataclass
class Measure:
    value: float | None


class Packed(Struct):
    values: list[float | None]


class Model(BaseModel):
    value: float | None


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (math.nan, ""),
        ({"a": [1.0, {"b": math.inf}]}, "at a.1.b"),
        (Measure(-math.inf), "at value"),
        (Packed([None, math.nan]), "at values.1"),
    ],
)
def test_a_number_that_json_has_no_word_for_is_refused(data: object, place: str) -> None:
    with pytest.raises(queen.InvalidRequest, match=f"is no JSON number.*{place}"):
        encode(data)


def test_none_is_still_null() -> None:
    assert encode({"a": None, "b": "null", "c": [None]}) == '{"a":null,"b":"null","c":[null]}'
    assert encode(Measure(None)) == '{"value":null}'
    assert encode(Model(value=None)) == '{"value":null}'


async def test_a_message_says_its_seq_and_has_its_client(q: queen.Client) -> None:
    pushed = [await q.push("orders", number) for number in range(3)]
    assert [one.seq for one in pushed] == [1, 2, 3]
    messages = await q.pop("orders", batch=3)
    assert [message.seq for message in messages] == [1, 2, 3]
    told: object = messages[0].client.push("mails", 1)
    if asyncio.iscoroutine(told):
        await told
    assert [message.data for message in await q.pop("mails")] == [1]


def test_a_misspelt_field_is_refused_and_not_stored_as_null(database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path) as broker:
        answer = httpx2.post(f"{broker.url}/api/v1/push", json={"items": [{"queue": "orders", "paylod": 1}]})
        assert answer.status_code == 400
        assert answer.json()["error"] == "items[0] has no payload but a field paylod: did you mean payload?"
        for items in ([{"queue": "orders"}], [{"queue": "orders", "payload": None, "colour": 1}]):
            assert httpx2.post(f"{broker.url}/api/v1/push", json={"items": items}).status_code == 201


def test_the_options_of_a_queue_are_explained_over_http(database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path) as broker:
        told = {one["name"]: one for one in httpx2.get(f"{broker.url}/api/v1/queue-options").json()["options"]}
    assert told["retry_delay"]["unit"] == "ms"
    assert told["max_queue_size"]["wire"] == "maxSize"
    assert not told["dead_letter_queue"]["consulted"]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("kind", ["direct", "http", "sync"])
def test_a_client_from_before_a_fork_says_so(kind: str, database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path) as broker:
        url = broker.url if kind == "http" else database
        if kind == "sync":
            with queen.connect_sync(url) as q:
                assert told_by_a_child(lambda: q.push("orders", 1)) == "forked"
                assert q.push("orders", 1).status == "queued"
        else:
            with asyncio.Runner() as runner:
                client = queen.connect(url)
                runner.run(client.open())
                runner.run(client.push("orders", 0))

                assert told_by_a_child(lambda: asyncio.new_event_loop().run_until_complete(client.push("o", 1))) == (
                    "forked"
                )
                runner.run(client.close())


def told_by_a_child(call: Callable[[], object]) -> str:
    """What a forked child meets; it ends without cleaning up what belongs to its parent."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        asyncio._set_running_loop(None)
        text = "nothing"
        try:
            call()
        except queen.InternalError as error:
            text = "forked" if "connect after the fork" in str(error) else str(error)
        except BaseException as error:  # noqa: BLE001
            text = repr(error)
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return told


async def test_a_crashed_embedded_server_is_started_again(scratch: Path) -> None:
    async with queen.connect(data_dir=scratch / "data") as q:
        await q.push("orders", 1)
        pid = int((scratch / "data" / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)

        async def answers() -> bool:
            try:
                return bool(await q.pop("orders", wait=0))
            except queen.QueenError:
                return False

        await eventually(answers, limit=60, pause=0.1)
        assert (await q.push("orders", 2)).status == "queued"


def same(message: Delivered[object]) -> None:
    for other in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert (other.data, other.seq, other.lease_id) == (message.data, message.seq, message.lease_id)
        assert (type(other), other.raw) == (type(message), message.raw)
    assert copy.copy(message).client is message.client
    with pytest.raises(RuntimeError, match="copied from another process"):
        _ = pickle.loads(pickle.dumps(message)).client


async def test_a_message_can_be_copied_and_sent_to_another_process(direct: queen.Client) -> None:
    await direct.push("orders", {"n": [1]}, partition="acme", transaction_id="o-1")
    (message,) = await direct.pop("orders")
    same(message)
    (acked,) = await direct.ack(pickle.loads(pickle.dumps(message)))
    assert acked.verdict == "acked"


def test_a_synchronous_message_too(database: str) -> None:
    with queen.connect_sync(database) as q:
        q.push("orders", 1)
        same(q.pop("orders")[0])


FAILING = """
import asyncio, sys
import queen

async def charge(message):
    raise ValueError("no such address")

async def main():
    async with queen.connect(sys.argv[1]) as q:
        await q.queues.configure("orders", retry_limit=1)
        await q.push("orders", 1)
        await q.consume("orders", charge, limit=2)

asyncio.run(main())
"""


def test_a_worker_that_fails_is_seen_on_standard_error_and_only_there(database: str) -> None:
    """With logging as Python has it, which is how most programs run for the first time."""
    done = subprocess.run(
        [sys.executable, "-c", FAILING, database], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == ""
    assert done.stderr.count("ValueError: no such address") == 2
    assert done.stderr.count("in charge") == 2
    assert "it is a dead letter now" in done.stderr


async def test_an_outage_is_told_now_and_then_and_passes(
    database: str, direct: queen.Client, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    name = database.partition("?")[0].rpartition("/")[2]
    seen: list[int] = []

    async def note(message: queen.Message[int]) -> None:
        seen.append(message.data)

    await direct.push("orders", 1)
    running = asyncio.create_task(direct.consume("orders", note, signals=False))
    await eventually(lambda: seen == [1])
    with psycopg.connect(database.replace(f"/{name}", "/postgres"), autocommit=True) as admin:
        with caplog.at_level(logging.INFO, "queen"):
            admin.execute(f"alter database {name} with allow_connections false".encode())
            admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
            with pytest.raises(queen.StoreUnavailable):
                await queen.Client(direct.transport, retry=queen.Retry(attempts=2)).push("orders", 2)
        admin.execute(f"alter database {name} with allow_connections true".encode())
    await direct.push("orders", 3)
    await eventually(lambda: seen == [1, 3])
    direct.stop()
    await running
    assert len([record for record in caplog.records if record.name.startswith("queen")]) <= 5
    assert capfd.readouterr().out == ""
