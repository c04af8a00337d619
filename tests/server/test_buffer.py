"""The disk buffer by itself."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from queen import errors
from queen.engine import KeyRing
from queen.ids import uuid7
from queen.model import NewMessage
from queen.server.buffer import Buffer, BufferFull
from queen.server.buffer.aside import Aside
from queen.server.buffer.log import SUFFIX


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
    going_on, begun = asyncio.Event(), asyncio.Event()

    async def store(_: Sequence[NewMessage]) -> None:
        begun.set()
        await going_on.wait()

    buffer = Buffer(tmp_path / "buffer", KeyRing(), store)
    await buffer.append([message(1)])
    assert await buffer.behind([message(2)], limit=60), "nobody drains: no reason to wait"
    drain = asyncio.create_task(buffer.drain())
    await begun.wait()
    assert await buffer.behind([message(2)], limit=0.05), "the drain takes too long"
    assert not await buffer.behind([message(2, partition="other")], limit=0)
    waiting = asyncio.create_task(buffer.behind([message(2)], limit=60))
    await asyncio.sleep(0)
    assert not waiting.done()
    going_on.set()
    assert not await asyncio.wait_for(waiting, 10)
    assert await drain == 1


async def test_a_drain_that_fails_keeps_nobody_waiting(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def store(_: Sequence[NewMessage]) -> None:
        begun.set()
        raise errors.StoreUnavailable("gone again")

    async def unreachable() -> bool:
        return False

    buffer = Buffer(tmp_path / "buffer", KeyRing(), store, reachable=unreachable)
    await buffer.append([message(1)])
    drain = asyncio.create_task(buffer.drain())
    await begun.wait()
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
    assert (buffer.pending, buffer.stats.drained, buffer.stats.size, buffer.stats.age) == (0, 10, 0, 0)
    assert not buffer.holds([message(0)])
    assert list((tmp_path / "buffer").glob(f"*{SUFFIX}")) == []
    await buffer.append([message("again")])
    assert await buffer.drain() == 1


async def test_workers_share_one_order_and_know_what_waits(store: Store, tmp_path: Path) -> None:
    workers = [Buffer(tmp_path / "buffer", KeyRing(), store) for _ in range(3)]
    for number in range(30):
        await workers[number % 3].append([message(number)])
    assert [worker.pending for worker in workers] == [30] * 3
    assert all(worker.holds([message(0)]) for worker in workers)
    assert [await worker.lead() for worker in workers] == [True, False, False]
    assert await workers[0].drain() == 30
    assert store.payloads == [str(number) for number in range(30)]
    assert not any(worker.holds([message(0)]) for worker in workers)
    assert {(worker.stats.pending, worker.stats.drained) for worker in workers} == {(0, 30)}
    await workers[0].close()
    assert [await worker.lead() for worker in workers[1:]] == [True, False], "another takes over"


async def test_what_an_ended_process_left_behind_is_stored(buffer: Buffer, store: Store, tmp_path: Path) -> None:
    await buffer.append([message(1)])
    await buffer.close()
    successor = Buffer(tmp_path / "buffer", KeyRing(), store)
    assert successor.pending == 1
    await successor.append([message(2)])
    assert await successor.drain() == 2
    assert store.payloads == ["1", "2"]


@pytest.mark.parametrize("damage", ["gone", "garbage", "short"])
async def test_a_lost_or_damaged_state_is_made_anew(buffer: Buffer, store: Store, tmp_path: Path, damage: str) -> None:
    for number in range(4):
        await buffer.append([message(number)])
    await buffer.close()
    state = tmp_path / "buffer" / "state"
    if damage == "gone":
        state.unlink()
    else:
        state.write_bytes(b"\xff" * (600_000 if damage == "garbage" else 10))
    successor = Buffer(tmp_path / "buffer", KeyRing(), store)
    await successor.open()
    assert (successor.pending, successor.holds([message(0)])) == (4, True)
    assert not successor.holds([message(0, partition="other")])
    assert 0 < successor.stats.age < 60
    await successor.append([message(4)])
    assert await successor.drain() == 5
    assert store.payloads == ["0", "1", "2", "3", "4"]


async def test_a_drain_that_was_cut_off_goes_on_where_it_stopped(store: Store, tmp_path: Path) -> None:
    async def unreachable() -> bool:
        return False

    buffer = Buffer(tmp_path / "buffer", KeyRing(), store, reachable=unreachable)
    items = [message(number) for number in range(1200)]
    await asyncio.gather(*(buffer.append([item]) for item in items))
    assert items[700].id is not None
    store.refuse[items[700].id] = errors.StoreUnavailable("gone")
    with pytest.raises(errors.StoreUnavailable):
        await buffer.drain()
    assert len(store.stored) == 500
    assert buffer.pending == 700
    await buffer.close()
    store.refuse.clear()
    successor = Buffer(tmp_path / "buffer", KeyRing(), store)
    assert successor.pending == 700
    await successor.drain()
    assert store.payloads == [str(number) for number in range(1200)]


async def test_what_cannot_be_stored_is_set_aside_and_the_rest_goes_on(
    buffer: Buffer, store: Store, tmp_path: Path
) -> None:
    items = [message(number) for number in range(5)]
    for item in items:
        await buffer.append([item])
    store.refuse = {
        items[1].id or uuid7(): errors.InvalidRequest("payload", "no good"),
        items[3].id or uuid7(): errors.QueueFull("full"),
    }
    assert await buffer.drain() == 5
    assert store.payloads == ["0", "2", "4"]
    assert (buffer.stats.failed, buffer.pending) == (2, 0)
    found = list(Aside(tmp_path / "buffer").entries())
    assert [entry.reason for entry in found] == ["INVALID_PAYLOAD: no good", "QUEUE_FULL: full"]
    assert [(entry.kind, entry.queues, entry.messages) for entry in found] == [("refused", ["mail"], 1)] * 2


@pytest.mark.parametrize(
    "trouble", [errors.PartitionBusy("busy"), errors.StoreUnavailable("slow"), errors.InternalError("odd")]
)
async def test_a_partition_that_cannot_be_stored_now_keeps_only_itself_waiting(
    buffer: Buffer, store: Store, tmp_path: Path, trouble: errors.QueenError
) -> None:
    items = [message(number, partition="abc"[number % 3]) for number in range(12)]
    both = [message("12", partition="b"), message("13", partition="c")]
    for item in items:
        await buffer.append([item])
    await buffer.append(both)
    await buffer.append([message("14", partition="c")])
    assert items[4].id is not None
    store.refuse[items[4].id] = trouble
    assert await buffer.drain() == 9, "all of a, the first of b, and c up to the push it shares with b"
    assert [payload for payload in store.payloads if int(payload) % 3 == 1] == ["1"]
    assert buffer.pending == 6
    assert not buffer.holds([message(0, partition="a")])
    assert buffer.holds([message(0, partition="b")])
    assert buffer.holds([message(0, partition="c")])
    store.refuse.clear()
    successor = Buffer(tmp_path / "buffer", KeyRing(), store)
    assert await successor.drain() == 6
    for name in "abc":
        numbers = [int(item.payload) for item in store.stored if item.partition == name]
        assert numbers == sorted(numbers)
    assert sorted(map(int, store.payloads)) == list(range(15))


async def test_with_a_key_nothing_is_readable_on_disk(store: Store, tmp_path: Path) -> None:
    keys = KeyRing(["ab" * 32])
    buffer = Buffer(tmp_path / "buffer", keys, store)
    await buffer.append([message('"a secret"')])
    await buffer.close()
    (file,) = (tmp_path / "buffer").glob(f"*{SUFFIX}")
    assert b"secret" not in file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0
    blind = Buffer(tmp_path / "buffer", KeyRing(), store)
    assert await blind.drain() == 0
    assert (blind.stats.healthy, blind.pending) == (False, 1)
    successor = Buffer(tmp_path / "buffer", keys, store)
    assert await successor.drain() == 1
    assert store.payloads == ['"a secret"']


async def test_a_disk_that_cannot_be_written_is_told(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    buffer = Buffer(tmp_path / "file" / "buffer", KeyRing(), store)
    with pytest.raises(errors.StoreUnavailable, match="disk buffer"):
        await buffer.append([message(1)])
    assert (buffer.pending, buffer.stats.healthy) == (0, False)


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file of this process can grow beyond a megabyte; the write that tries gets EFBIG, as ENOSPC on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("full_disk")
async def test_a_full_disk_leaves_nothing_half_written(buffer: Buffer, store: Store) -> None:
    accepted = []
    for number in range(20):
        text = f'"{number}{"x" * 100_000}"'
        try:
            await buffer.append([message(text)])
            accepted.append(text)
        except errors.StoreUnavailable as error:
            assert isinstance(error.__cause__, OSError)  # noqa: PT017
            assert error.__cause__.errno == errno.EFBIG  # noqa: PT017
            break
    assert 5 < len(accepted) < 15
    assert (buffer.pending, buffer.stats.healthy) == (len(accepted), False)
    assert await buffer.drain() == len(accepted)
    assert store.payloads == accepted
    await buffer.append([message("again")])
    assert buffer.stats.healthy
    assert buffer.stats.cut == buffer.stats.damaged == 0


async def keep_on(buffer: Buffer) -> None:
    while True:
        await buffer.append([message(1)])


async def test_it_takes_no_more_than_its_limits(store: Store, tmp_path: Path) -> None:
    buffer = Buffer(tmp_path / "buffer", KeyRing(), store, limit=2000)
    with pytest.raises(BufferFull, match="of 2000 bytes"):
        await asyncio.wait_for(keep_on(buffer), 60)
    assert 0 < buffer.stats.size <= 2000
    await buffer.drain()
    await buffer.append([message("room again")])
    old = Buffer(tmp_path / "buffer", KeyRing(), store, age_limit=0.0)
    with pytest.raises(BufferFull, match="has waited"):
        await old.append([message(2)])


async def test_memory_does_not_grow_with_the_buffer(store: Store, tmp_path: Path) -> None:
    """What waits is read in pieces: no read asks for more than a few megabytes."""
    buffer = Buffer(tmp_path / "buffer", KeyRing(), store)
    text = f'"{"x" * 500_000}"'
    for _ in range(100):
        await buffer.append([message(text)])
    assert len(list((tmp_path / "buffer").glob(f"*{SUFFIX}"))) >= 3
    largest = 0

    async def keep(items: Sequence[NewMessage]) -> None:
        nonlocal largest
        largest = max(largest, sum(len(item.payload) for item in items))

    reader = Buffer(tmp_path / "buffer", KeyRing(), keep)
    assert await reader.drain() == 100
    assert largest <= 4 * 2**20


async def test_a_silent_drain_is_told(buffer: Buffer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await buffer.lead()
    assert (buffer.stats.healthy, buffer.stats.silent < 60) == (True, True)
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    assert (buffer.stats.healthy, buffer.stats.silent > 3000) == (False, True)
    assert await buffer.lead()
    assert (buffer.stats.healthy, buffer.stats.silent < 60) == (True, True)


async def test_many_writers_share_a_sync(buffer: Buffer, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    original = os.fdatasync

    def counted(descriptor: int) -> None:
        syncs.append(descriptor)
        original(descriptor)

    monkeypatch.setattr(os, "fdatasync", counted)
    await asyncio.gather(*(buffer.append([message(number)]) for number in range(200)))
    assert 1 <= len(syncs) < 20
    assert await buffer.drain() == 200


async def test_a_push_is_on_disk_before_it_is_answered(
    buffer: Buffer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: dict[int, int] = {}
    original = os.fdatasync

    def noted(descriptor: int) -> None:
        found = os.fstat(descriptor)
        original(descriptor)
        synced[found.st_ino] = found.st_size

    monkeypatch.setattr(os, "fdatasync", noted)
    for number in range(3):
        await buffer.append([message(number)])
        (path,) = (tmp_path / "buffer").glob(f"*{SUFFIX}")
        assert synced.get(path.stat().st_ino) == path.stat().st_size
