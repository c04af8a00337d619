"""The disk buffer by itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import pytest

from queen import errors
from queen.engine import KeyRing
from queen.ids import uuid7
from queen.model import NewMessage
from queen.server.buffer import Buffer
from queen.server.segment import SUFFIX


class Store:
    """Where messages end up; refuses what it is told to refuse."""

    def __init__(self) -> None:
        self.stored: list[NewMessage] = []
        self.refuse: dict[UUID, errors.QueenError] = {}

    async def __call__(self, items: Sequence[NewMessage]) -> None:
        for item in items:
            assert item.id is not None
            if item.id in self.refuse:
                raise self.refuse[item.id]
        self.stored += items

    @property
    def payloads(self) -> list[str]:
        return [item.payload for item in self.stored]


def message(payload: object, queue: str = "mail", partition: str = "p") -> NewMessage:
    return NewMessage(queue=queue, partition=partition, payload=str(payload), id=uuid7())


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def buffer(tmp_path: Path, store: Store) -> Buffer:
    return Buffer(tmp_path / "buffer", KeyRing(), store)


async def test_who_comes_while_it_is_drained_waits_for_that(tmp_path: Path) -> None:
    """A drain would never end if more were kept meanwhile than it stores."""
    going_on = asyncio.Event()

    async def store(_: Sequence[NewMessage]) -> None:
        await going_on.wait()

    buffer = Buffer(tmp_path / "buffer", KeyRing(), store)
    await buffer.append([message(1)])
    assert await buffer.behind([message(2)], limit=60), "nobody drains: no reason to wait"
    drain = asyncio.create_task(buffer.drain())
    assert await buffer.behind([message(2)], limit=0.05), "the drain takes too long"
    assert not await buffer.behind([message(2, partition="other")], limit=0)
    waiting = asyncio.create_task(buffer.behind([message(2)], limit=60))
    await asyncio.sleep(0)
    assert not waiting.done()
    going_on.set()
    assert not await asyncio.wait_for(waiting, 10)
    assert await drain == 1


async def test_a_drain_that_fails_keeps_nobody_waiting(buffer: Buffer, store: Store) -> None:
    first = message(1)
    await buffer.append([first])
    assert first.id is not None
    store.refuse[first.id] = errors.StoreUnavailable("gone again")
    drain = asyncio.create_task(buffer.drain())
    await asyncio.sleep(0)
    assert await asyncio.wait_for(buffer.behind([message(2)], limit=60), 10)
    with pytest.raises(errors.StoreUnavailable):
        await drain


async def test_records_are_stored_in_order_and_the_file_goes(buffer: Buffer, store: Store, tmp_path: Path) -> None:
    for number in range(5):
        await buffer.append([message(number), message(f"{number}.5")])
    assert buffer.pending == 10
    assert buffer.holds([message(0)])
    assert not buffer.holds([message(0, partition="other")])
    assert await buffer.drain() == 10
    assert store.payloads == [text for number in range(5) for text in (str(number), f"{number}.5")]
    assert (buffer.pending, buffer.stats.drained) == (0, 10)
    assert not buffer.holds([message(0)])
    assert list((tmp_path / "buffer").iterdir()) == []
    await buffer.append([message("again")])
    assert await buffer.drain() == 1


async def test_a_file_left_behind_is_adopted(buffer: Buffer, store: Store, tmp_path: Path) -> None:
    await buffer.append([message(1)])
    successor = Buffer(tmp_path / "buffer", KeyRing(), store)
    assert await successor.adopt() == 0, "its process is alive"
    await buffer.close()
    assert await successor.adopt() == 1
    await successor.append([message(2)])
    assert await successor.drain() == 2
    assert store.payloads == ["1", "2"]


async def test_a_torn_record_was_never_answered(buffer: Buffer, store: Store, tmp_path: Path) -> None:
    await buffer.append([message(1)])
    await buffer.close()
    (file,) = (tmp_path / "buffer").glob(f"*{SUFFIX}")
    whole = file.read_bytes()
    for torn in (whole[: len(whole) // 2], whole.replace(b"mail", b"mall"), b"\0" * 100):
        file.write_bytes(whole + torn)
        successor = Buffer(tmp_path / "buffer", KeyRing(), store)
        assert await successor.adopt() == 1
        await successor.close()
        assert file.read_bytes() == whole


async def test_a_drain_that_was_cut_off_goes_on_where_it_stopped(buffer: Buffer, store: Store, tmp_path: Path) -> None:
    items = [message(number) for number in range(1200)]
    for item in items:
        await buffer.append([item])
    assert items[700].id is not None
    store.refuse[items[700].id] = errors.StoreUnavailable("gone")
    with pytest.raises(errors.StoreUnavailable):
        await buffer.drain()
    assert len(store.stored) == 500
    assert buffer.pending == 700
    await buffer.close()
    store.refuse.clear()
    successor = Buffer(tmp_path / "buffer", KeyRing(), store)
    assert await successor.adopt() == 700
    await successor.drain()
    assert store.payloads == [str(number) for number in range(1200)]


async def test_what_cannot_be_stored_is_parked_and_the_rest_goes_on(
    buffer: Buffer, store: Store, tmp_path: Path
) -> None:
    items = [message(number) for number in range(5)]
    for item in items:
        await buffer.append([item])
    assert items[1].id is not None
    assert items[3].id is not None
    store.refuse = {
        items[1].id: errors.InvalidRequest("payload", "no good"),
        items[3].id: errors.QueueFull("full"),
    }
    assert await buffer.drain() == 5
    assert store.payloads == ["0", "2", "4"]
    assert buffer.stats.failed == 2
    reasons = sorted(path.read_text() for path in (tmp_path / "buffer" / "failed").glob("*.reason"))
    assert reasons == ["INVALID_PAYLOAD: no good", "QUEUE_FULL: full"]
    parked = next((tmp_path / "buffer" / "failed").glob(f"*{SUFFIX}"))
    await buffer.close()
    parked.rename(tmp_path / "buffer" / parked.name)
    store.refuse = {}
    successor = Buffer(tmp_path / "buffer", KeyRing(), store)
    assert await successor.adopt() == 1, "moved back, it is tried again"


async def test_a_busy_partition_keeps_everything_waiting(buffer: Buffer, store: Store) -> None:
    item = message(1)
    await buffer.append([item])
    assert item.id is not None
    store.refuse[item.id] = errors.PartitionBusy("busy")
    with pytest.raises(errors.PartitionBusy):
        await buffer.drain()
    assert buffer.pending == 1


async def test_with_a_key_nothing_is_readable_on_disk(store: Store, tmp_path: Path) -> None:
    keys = KeyRing(["ab" * 32])
    buffer = Buffer(tmp_path / "buffer", keys, store)
    await buffer.append([message('"a secret"')])
    await buffer.close()
    (file,) = (tmp_path / "buffer").glob(f"*{SUFFIX}")
    assert b"secret" not in file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0
    blind = Buffer(tmp_path / "buffer", KeyRing(), store)
    assert await blind.adopt() == 0
    assert not blind.stats.healthy
    successor = Buffer(tmp_path / "buffer", keys, store)
    assert await successor.adopt() == 1
    await successor.drain()
    assert store.payloads == ['"a secret"']


async def test_a_disk_that_cannot_be_written_is_told(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    buffer = Buffer(tmp_path / "file" / "buffer", KeyRing(), store)
    with pytest.raises(errors.StoreUnavailable, match="disk buffer"):
        await buffer.append([message(1)])
    assert (buffer.pending, buffer.stats.healthy) == (0, False)


async def test_many_writers_share_a_sync(buffer: Buffer, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    syncs: list[int] = []
    original = os.fdatasync

    def counted(descriptor: int) -> None:
        syncs.append(descriptor)
        original(descriptor)

    monkeypatch.setattr(os, "fdatasync", counted)
    await asyncio.gather(*(buffer.append([message(number)]) for number in range(200)))
    assert 1 <= len(syncs) < 20
    assert await buffer.drain() == 200
