from __future__ import annotations

import time
from uuid import UUID, uuid4

import pytest

from queen.ids import Kind, _Uuid7, from_wire, to_wire, uuid7, uuid7s
from tests.support.work import Sql

KINDS: tuple[Kind, ...] = ("queue", "partition", "dead-letter", "trace")


def test_ids_grow_and_carry_their_time() -> None:
    before = time.time_ns() // 1_000_000
    ids = [*uuid7s(5_000), *[uuid7() for _ in range(5_000)]]
    assert ids == sorted(ids)
    assert len(set(ids)) == 10_000
    assert {(i.version, i.variant) for i in ids} == {(7, "specified in RFC 4122")}
    assert before <= ids[0].int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_a_count_that_runs_out_goes_on_in_the_next_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_800_000_000_000_000_000)
    generator = _Uuid7()
    ids = generator.many(3)
    generator._next |= 0x3FFF_FFFF_FFFF_FFFF  # the last one of this millisecond
    generator._next -= 1
    ids += [*generator.many(1), *generator.many(4), *generator.many(1)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 9
    assert {(i.version, i.variant) for i in ids} == {(7, "specified in RFC 4122")}
    assert [i.int >> 80 for i in ids] == [1_800_000_000_000] * 4 + [1_800_000_000_001] * 5


async def test_ids_made_in_sql_are_of_the_same_kind(sql: Sql) -> None:
    rows = await sql.fetch(
        "select queen.uuid7() as id, queen.uuid7_time(queen.uuid7()) as at from generate_series(1, 200)"
    )
    ids = [UUID(str(row["id"])) for row in rows]
    assert {(i.version, i.variant) for i in ids} == {(7, "specified in RFC 4122")}
    assert len(set(ids)) == 200
    assert all(abs(row["at"].timestamp() - time.time()) < 60 for row in rows)
    assert await sql.fetchval("select queen.uuid7_time($1) is not null", uuid4())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [0, 1, 2**31, 2**61])
def test_numbers_come_back_from_the_wire(kind: Kind, number: int) -> None:
    text = to_wire(kind, number)
    assert UUID(text).version == 8
    assert from_wire(kind, text) == number
    assert from_wire(kind, text.upper()) == number
    assert [other for other in KINDS if from_wire(other, text) is not None] == [kind]


@pytest.mark.parametrize("text", ["", "1", "x" * 36, "0198c0de-0000-7000-8000-000000000001"])
def test_what_is_not_ours_is_none(text: str) -> None:
    assert from_wire("partition", text) is None
