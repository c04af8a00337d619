"""Damaged disks: two hundred buffers, each damaged in its own way; what can be read is stored, the rest is named."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from queen.engine import KeyRing
from queen.ids import uuid7
from queen.model import NewMessage
from queen.server.buffer import Buffer
from queen.server.buffer.aside import Aside, Entry
from queen.server.buffer.log import SUFFIX
from queen.server.buffer.record import Record, scan

Damage = Callable[[random.Random, bytearray], None]
MARK_AT = 4


def flip_a_bit(chance: random.Random, data: bytearray) -> None:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def flip_many_bits(chance: random.Random, data: bytearray) -> None:
    for _ in range(chance.randint(2, 12)):
        flip_a_bit(chance, data)


def zero_a_block(chance: random.Random, data: bytearray) -> None:
    at, length = chance.randrange(len(data)), chance.choice((16, 512, 4096))
    data[at : at + length] = bytes(len(data[at : at + length]))


def cut_the_end(chance: random.Random, data: bytearray) -> None:
    del data[chance.randrange(len(data)) :]


def lose_the_middle(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.randint(1, 3000)]


def swap_blocks(chance: random.Random, data: bytearray) -> None:
    size = chance.choice((64, 512, 1024))
    one, two = sorted(chance.sample(range(len(data) // size), 2))
    first, second = data[one * size : (one + 1) * size], data[two * size : (two + 1) * size]
    data[one * size : (one + 1) * size], data[two * size : (two + 1) * size] = second, first


def repeat_a_block(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data))
    data[at:at] = data[at : at + chance.randint(100, 2000)]


def put_garbage_in(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data))
    data[at:at] = chance.randbytes(chance.randint(1, 2000))


def imitate_a_head(chance: random.Random, data: bytearray) -> None:
    at = chance.randrange(len(data))
    data[at:at] = data[: chance.randint(5, 60)]


KINDS: Sequence[Damage] = (
    flip_a_bit,
    flip_many_bits,
    zero_a_block,
    cut_the_end,
    lose_the_middle,
    swap_blocks,
    repeat_a_block,
    put_garbage_in,
    imitate_a_head,
)


class Store:
    """Where messages end up; those that are there already are recognised, as the database does."""

    def __init__(self) -> None:
        self.stored: dict[str, NewMessage] = {}

    async def __call__(self, items: Sequence[NewMessage]) -> None:
        for item in items:
            self.stored.setdefault(str(item.id), item)


async def fill(directory: Path, chance: random.Random, store: Store) -> None:
    """Records of one to three messages in a handful of partitions."""
    buffer = Buffer(directory, KeyRing(), store)
    for number in range(chance.randint(8, 24)):
        items = [
            NewMessage(
                queue="mail",
                partition=chance.choice("abcd"),
                payload=f'"{number} {"x" * chance.choice((0, 10, 300, 3000))}"',
                id=uuid7(),
            )
            for _ in range(chance.randint(1, 3))
        ]
        await buffer.append(items)
    await buffer.close()


def segment_of(directory: Path) -> Path:
    """The newest file of records."""
    return max(directory.glob(f"*{SUFFIX}"))


def records(path: Path) -> list[tuple[Record, bytes]]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        data = path.read_bytes()
        return [(found, data[found.offset : found.end]) for found in scan(descriptor) if isinstance(found, Record)]
    finally:
        os.close(descriptor)


def named(entries: Sequence[Entry]) -> set[int]:
    """The seqs that are said to be lost."""
    return {seq for entry in entries for seq in (*entry.lost, *(() if entry.seq is None else (entry.seq,)))}


@pytest.mark.parametrize("seed", range(200))
async def test_only_damaged_records_are_lost_and_they_are_named(seed: int, tmp_path: Path) -> None:
    chance, store = random.Random(seed), Store()
    await fill(tmp_path, chance, store)
    path = segment_of(tmp_path)
    before = records(path)
    data = bytearray(path.read_bytes())
    damage = KINDS[seed % len(KINDS)]
    damage(chance, data)
    path.write_bytes(data)
    forgetful = chance.random() < 0.2
    if forgetful:
        (tmp_path / "state").write_bytes(chance.randbytes(600_000))

    buffer = Buffer(tmp_path, KeyRing(), store)
    await buffer.open()
    await buffer.append([NewMessage(queue="mail", partition="z", payload='"after"', id=uuid7())])
    await buffer.drain()

    kept = bytes(data)
    whole = {record.seq for record, text in before if text in kept or _but_for_its_mark(text) in kept}
    stored = {
        record.seq for record, text in before if all(str(item.id) in store.stored for item in _items(record, text))
    }
    assert whole <= stored, f"{damage.__name__}: {sorted(whole - stored)} were readable and are gone"
    entries = list(Aside(tmp_path).entries())
    lost = {record.seq for record, _ in before} - stored
    if forgetful:  # with the count gone, too, nobody knows of records after the last one that can be seen
        lost = {seq for seq in lost if seq < max(stored | named(entries), default=0)}
    assert lost <= named(entries), f"{damage.__name__}: {sorted(lost - named(entries))} are lost and not named"
    assert any(item.payload == '"after"' for item in store.stored.values())
    assert (buffer.pending, buffer.stats.size) == (0, 0)
    require_order(store, before)


def require_order(store: Store, before: Sequence[tuple[Record, bytes]]) -> None:
    """Within each partition what was stored came in the order it was accepted."""
    accepted = [str(item.id) for record, text in before for item in _items(record, text)]
    place = {name: number for number, name in enumerate(accepted)}
    for partition in "abcd":
        order = [place[name] for name, item in store.stored.items() if item.partition == partition and name in place]
        assert order == sorted(order)


def _items(record: Record, text: bytes) -> list[NewMessage]:
    return record.items(text[record.body_at - record.offset :], KeyRing())


def _but_for_its_mark(text: bytes) -> bytes:
    return text[MARK_AT + 1 :] if text else text


async def test_a_flipped_bit_costs_one_record_and_is_told(tmp_path: Path) -> None:
    """The case that used to cut the file at the damage: eight accepted messages gone, and healthy."""
    store = Store()
    buffer = Buffer(tmp_path, KeyRing(), store)
    for number in range(10):
        await buffer.append([NewMessage(queue="mail", payload=str(number), id=uuid7())])
    await buffer.close()
    path = segment_of(tmp_path)
    third = records(path)[2][0]
    data = bytearray(path.read_bytes())
    data[third.body_at + 5] ^= 4
    path.write_bytes(data)
    successor = Buffer(tmp_path, KeyRing(), store)
    assert await successor.drain() == 9
    assert [item.payload for item in store.stored.values()] == ["0", "1", "3", "4", "5", "6", "7", "8", "9"]
    (entry,) = Aside(tmp_path).entries()
    assert (entry.kind, entry.seq, entry.messages) == ("damaged", 3, 1)
    assert (successor.stats.healthy, successor.stats.damaged, successor.pending) == (False, 1, 0)


async def test_a_write_that_was_broken_off_is_no_damage(tmp_path: Path) -> None:
    store = Store()
    buffer = Buffer(tmp_path, KeyRing(), store)
    await buffer.append([NewMessage(queue="mail", payload="1", id=uuid7())])
    path = segment_of(tmp_path)
    whole = path.read_bytes()
    for torn in (whole[: len(whole) // 2], whole[:20], b"\0" * 100):
        path = segment_of(tmp_path)
        path.write_bytes(path.read_bytes() + torn)
        await buffer.append([NewMessage(queue="mail", payload="2", id=uuid7())])
    assert await buffer.drain() == 4
    assert (buffer.stats.cut, buffer.stats.damaged, buffer.stats.failed, buffer.stats.healthy) == (3, 0, 0, True)
