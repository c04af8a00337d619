"""What a task reads, page by page: every value as it is stored, in pages that fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from queen.spark.columns import MESSAGES, chosen
from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.options import SourceOptions, source_options
from queen.spark.planning import Lane, Planner, Slice
from queen.spark.reading import FIRST_PAGE, LARGEST_PAGE, PIECE_BYTES, Pace, read, split, tables
from tests.spark.support.queues import Queues

TRACE = "0190a1b2-0000-7000-8000-00000000abcd"
STORED = """
    select q.name, p.name, m.partition_id, m.seq, m.id::text, coalesce(m.transaction_id, m.id::text), m.trace_id::text,
           m.parent_id::text, m.payload::text, m.created_at, m.producer_sub
      from queen.messages m join queen.partitions p on p.id = m.partition_id join queen.queues q on q.id = p.queue_id
     where q.name = 'orders' order by m.pos
"""


def options(queues: Queues) -> SourceOptions:
    return source_options({"url": queues.url, "queue": "orders"})


def whole(queues: Queues, *, by_partition: bool = False) -> Slice:
    """All of the queue as one slice."""
    database = Database(queues.url)
    planner = Planner(options(queues), database)
    here, found = planner.here(), planner.queues()
    start = planner.start(found, here)
    lanes: Sequence[Lane] = planner.lanes(found) if by_partition else ()
    database.close()
    return Slice(found, start, here.pos, lanes)


def rows(queues: Queues, part: Slice, columns: str = "") -> list[tuple[Any, ...]]:
    schema = chosen(MESSAGES, columns.split(",") if columns else [])
    return [tuple(row.values()) for batch in read(options(queues), schema, part) for row in batch.to_pylist()]


def fill_with_everything(queues: Queues) -> None:
    """Messages with and without each of the values that may be missing, among those of another queue."""
    for number in range(40):
        given = {"transaction_id": f"t-ü{number}"} if number % 3 == 0 else {}
        traced = {"trace_id": TRACE[:-2] + f"{number:02x}"} if number % 4 == 0 else {}
        queues.push("orders", f"p{number % 3}", {"n": number, "text": '"ünï\u0001\\' * number}, **given, **traced)
        queues.push("other", "p0", number)
    queues.connection.execute(
        """update queen.messages
              set parent_id = case when pos % 5 = 0 then gen_random_uuid() end,
                  producer_sub = case when pos % 7 = 0 then 'sub-' || pos when pos % 7 = 1 then '' end"""
    )


@pytest.mark.parametrize("by_partition", [False, True])
def test_every_value_is_read_as_it_is_stored(queues: Queues, by_partition: bool) -> None:
    fill_with_everything(queues)
    assert rows(queues, whole(queues, by_partition=by_partition)) == queues.rows(STORED)


@pytest.mark.parametrize("name", MESSAGES.fieldNames())
def test_every_column_is_read_by_itself(queues: Queues, name: str) -> None:
    fill_with_everything(queues)
    place = MESSAGES.fieldNames().index(name)
    assert rows(queues, whole(queues), name) == [(row[place],) for row in queues.rows(STORED)]


def test_a_value_that_all_or_none_have_is_read(queues: Queues) -> None:
    for number in range(3):
        queues.push("orders", "a", number, transaction_id=f"t-{number}", trace_id=TRACE)
    assert rows(queues, whole(queues), "transaction_id,trace_id,parent_id") == [
        (f"t-{number}", TRACE, None) for number in range(3)
    ]
    queues.rows("select queen.clear_queue('orders')")
    queues.push("orders", "a", 1)
    ((transaction, id_, trace),) = rows(queues, whole(queues), "transaction_id,id,trace_id")
    assert transaction == id_
    assert trace is None


def test_several_pages_and_pieces_come_in_order(queues: Queues) -> None:
    queues.fill("orders", partitions=30, per_partition=100)
    for by_partition in (False, True):
        found = rows(queues, whole(queues, by_partition=by_partition), "partition_id,seq")
        assert sorted(found) == [(row[2], row[3]) for row in sorted(queues.rows(STORED), key=lambda row: row[2:4])]
        assert all(found.index((lane, seq)) > found.index((lane, seq - 1)) for lane, seq in found[::97] if seq > 1)


def table(count: int, width: int) -> pa.Table:
    return pa.table({"payload": pa.array(["x" * width] * count, pa.string())})


def test_pages_grow_and_shrink_with_the_size_of_rows() -> None:
    pace = Pace()
    assert pace.page == FIRST_PAGE
    for _ in range(5):
        pace.note(table(100, 200))
    assert pace.page == LARGEST_PAGE
    pace.note(table(10, PIECE_BYTES // 4))
    assert pace.page <= 64
    pace.note(table(10, 2 * PIECE_BYTES))
    assert pace.piece == 1
    pace.note(pa.table({"payload": pa.array([], pa.string())}))
    assert pace.page > 16


def test_ranges_are_split_by_rows() -> None:
    assert split([(1, 0, 5), (2, 3, 9)], 7) == ([(1, 0, 5), (2, 3, 5)], [(2, 5, 9)])
    assert split([(1, 0, 5), (2, 3, 9)], 5) == ([(1, 0, 5)], [(2, 3, 9)])
    assert split([(1, 0, 5)], 9) == ([(1, 0, 5)], [])


class Narrow(Database):
    """Refuses pages of more than a few positions, as PostgreSQL does when their text passes a gigabyte."""

    def __init__(self, url: str, most: int) -> None:
        super().__init__(url)
        self.most = most

    def page(self, name: str, check: str, ask: dict[str, Any]) -> tuple[pa.Table, list[dict[str, Any]]]:
        if ask["to"] - ask["from"] > self.most:
            raise SparkError("PAGE_TOO_LARGE", "the messages are too large to be read")
        return super().page(name, check, ask)


def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones(queues: Queues) -> None:
    queues.fill("orders", partitions=3, per_partition=20)
    part = whole(queues)
    ask = {"columns": ["seq"], "queues": part.queues, "removed": part.position.removed}
    with pytest.raises(SparkError, match="too large to be read"):
        list(tables(Narrow(queues.url, 0), part, ask, "lost", fail=True))
    database = Narrow(queues.url, 5)
    found = [seq for page in tables(database, part, ask, "lost", fail=True) for seq in page.column("seq").to_pylist()]
    database.close()
    assert sorted(found) == sorted(list(range(1, 21)) * 3)


@pytest.mark.scale
@pytest.mark.timeout(900)
def test_messages_of_more_than_a_gigabyte_together_are_read(queues: Queues) -> None:
    queues.connection.execute(
        """select queen.push('orders', 'a', jsonb_build_object('n', n, 'text', repeat('x', 6000000)))
             from generate_series(1, 200) n"""
    )
    found = sum(batch.num_rows for batch in read(options(queues), chosen(MESSAGES, ["payload"]), whole(queues)))
    assert found == 200
