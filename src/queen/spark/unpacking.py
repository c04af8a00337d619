"""Pages as they travel: each column all its values end to end, made into Arrow without looking at single values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

SEALED: Final = 1
FLAGS: Final = {"transaction_id": 2, "trace_id": 4, "parent_id": 8, "producer_sub": 16}
EPOCH: Final = 946_684_800_000_000
"""Microseconds from 1970 to 2000, where PostgreSQL counts from."""
HEX: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
DASHES: Final = (8, 13, 18, 23)
GROUPS: Final = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
TIME: Final = pa.timestamp("us", tz="UTC")
LONGS: Final = ("pos", "partition_id", "seq")
NAMED: Final = {"queue", "partition"}
SIZED: Final = ("transaction_id", "producer_sub", "payload")
TYPES: Final = dict.fromkeys(LONGS, pa.int64()) | {"sealed": pa.bool_(), "created_at": TIME}


class Names:
    """What the partitions seen so far are called: a page carries only their ids."""

    def __init__(self) -> None:
        self._known = {"id": pa.nulls(0, pa.int64())} | dict.fromkeys(NAMED, pa.nulls(0, pa.string()))

    def lacking(self, packed: pa.Table) -> list[int]:
        """The partitions of a page whose names are not known yet."""
        seen = pc.unique(pa.chunked_array([piece.lanes for piece in pieces(packed)], pa.int64()))
        lacking: list[int] = seen.filter(pc.invert(pc.is_in(seen, value_set=self._known["id"]))).to_pylist()
        return lacking

    def learn(self, found: pa.Table) -> None:
        """Keep the names of more partitions: id, queue, partition."""
        for kind, known in self._known.items():
            self._known[kind] = pa.concat_arrays([known, *found.column(kind).chunks])

    def of(self, lanes: pa.Array) -> dict[str, pa.Array]:
        """The name of each partition, and of its queue."""
        places = pc.index_in(lanes, value_set=self._known["id"])
        return {kind: self._known[kind].take(places) for kind in NAMED}


class Piece:
    """Some rows of a page, packed."""

    def __init__(self, batch: pa.RecordBatch, place: int) -> None:
        self._batch = batch
        self._place = place

    @cached_property
    def lanes(self) -> pa.Array:
        """The partition of each row."""
        return longs(self.buffer("partition_id"))

    def buffer(self, name: str) -> pa.Buffer:
        """The values of a column end to end."""
        return self._batch.column(name)[self._place].as_buffer() or pa.py_buffer(b"")

    def column(self, name: str) -> pa.Array:
        """A column as Arrow, but for the names."""
        if name == "sealed":
            return truths(self._flagged(SEALED))
        if name == "created_at":
            return longs(self.buffer(name), EPOCH).view(TIME)
        if name in LONGS:
            return self.lanes if name == "partition_id" else longs(self.buffer(name))
        if name == "transaction_id":
            return self._transaction_ids()
        return self._ids if name == "id" else self._values(name)

    @cached_property
    def _ids(self) -> pa.Array:
        return uuids(self.buffer("id"))

    def _transaction_ids(self) -> pa.Array:
        given = self._values("transaction_id")
        if given.null_count == len(given):
            return self._ids
        return pc.coalesce(given, self._ids) if given.null_count else given

    def _values(self, name: str) -> pa.Array:
        found = texts(self.buffer(f"{name}_sizes"), self.buffer(name)) if name in SIZED else uuids(self.buffer(name))
        return spread(found, self._flagged(FLAGS[name])) if name in FLAGS else found

    def _flagged(self, flag: int) -> npt.NDArray[np.bool_]:
        return np.frombuffer(self.buffer("flags"), ">i2") & flag > 0


def pieces(packed: pa.Table) -> Iterator[Piece]:
    """The pieces of a page."""
    for batch in packed.to_batches():
        for place in range(batch.num_rows):
            yield Piece(batch, place)


def unpack(packed: pa.Table, names: Names, columns: Sequence[str]) -> pa.Table:
    """The rows of a page, a batch for each piece: the columns asked for, `pos`, and whether the payload is sealed."""
    wanted = ["pos", "sealed", *columns]
    schema = pa.schema([(name, TYPES.get(name, pa.string())) for name in wanted])
    batches = []
    for piece in pieces(packed):
        named = names.of(piece.lanes) if NAMED & set(wanted) else {}
        arrays = [named[name] if name in named else piece.column(name) for name in wanted]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema=schema)


def longs(data: pa.Buffer, plus: int = 0) -> pa.Array:
    """Whole numbers of eight bytes."""
    found = np.frombuffer(data, ">i8").astype(np.int64)
    if plus:
        found += plus
    return pa.Array.from_buffers(pa.int64(), len(found), [None, pa.py_buffer(found)])


def truths(found: npt.NDArray[np.bool_]) -> pa.Array:
    """True and false."""
    return pa.Array.from_buffers(pa.bool_(), len(found), [None, bitmap(found)])


def bitmap(found: npt.NDArray[np.bool_]) -> pa.Buffer:
    """A bit for each, as Arrow packs them."""
    return pa.py_buffer(np.packbits(found, bitorder="little"))


def texts(sizes: pa.Buffer, data: pa.Buffer) -> pa.Array:
    """Texts by their sizes in bytes."""
    count = sizes.size // 4
    offsets: Any = np.zeros(count + 1, np.int32)
    np.cumsum(np.frombuffer(sizes, ">i4"), out=offsets[1:])
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), data)


def uuids(data: pa.Buffer) -> pa.Array:
    """UUIDs as texts."""
    count = data.size // 16
    digits = HEX[np.frombuffer(data, np.uint8)].view(np.uint8).reshape(count, 32)
    written: Any = np.empty((count, 36), np.uint8)
    written[:, DASHES] = ord("-")
    for dashes, (low, high) in enumerate(GROUPS):
        written[:, low + dashes : high + dashes] = digits[:, low:high]
    offsets = np.arange(0, 36 * (count + 1), 36, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(written))


def spread(values: pa.Array, present: npt.NDArray[np.bool_]) -> pa.Array:
    """The values in their places, and nulls in the others."""
    if len(values) == len(present):
        return values
    if not len(values):
        return pa.nulls(len(present), values.type)
    places = np.cumsum(present) - 1
    return values.take(pa.Array.from_buffers(pa.int64(), len(places), [bitmap(present), pa.py_buffer(places)]))
