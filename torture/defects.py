"""Defects to plant, each of a kind that queues are known for: the checker must notice every one of them.

Those of SQL replace text in a function of the database; those of Python are put in place when a process starts
(`startup/sitecustomize.py`). Nothing in the product knows of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg

import queen.sql

FUNCTIONS = Path(queen.sql.__file__).parent / "functions"
Change = tuple[str, str, str]

HEADS = "    if cardinality(p_ids) = 1 then\n"
UNLOCKED_HEADS = """
    select array_agg(nextval('torture.offsets') * 1000), array_agg(p.last_created_at), array_agg(p.place),
           count(*) < cardinality(p_ids) into bases, times, places, missing
      from (select x.last_created_at, x.ctid as place
              from queen.partitions x join unnest(p_ids) with ordinality u(id, n) on u.id = x.id order by u.n) p;
    perform pg_sleep(random() * 0.01);
    return;
"""
KEPT = "case when d.reached = d.cursor and not p_back then pc.retry_count else 0 end"

IN_DATABASE: dict[str, list[Change]] = {
    # Positions from a sequence, drawn before the partition is locked: they are not in the order of commits.
    "offset from a sequence": [
        ("lock_known_lanes", "if q.special or", "if true or"),
        ("lock_heads", HEADS, UNLOCKED_HEADS + HEADS),
        ("store_messages", "next_seq = p.next_seq + c.n,", "next_seq = greatest(p.next_seq, p_bases[c.lane] + c.n),"),
        ("store_messages", "where p.ctid = p_places[c.lane]", "where p.id = p_ids[c.lane]"),
    ],
    # A lease that was given on still counts.
    "unfenced ack": [
        ("move_cursors", "and (p_lease is null or c.lease_id = u.lease) limit 1", "limit 1"),
        ("ack_lane", "when x.lease is not null and x.lease is distinct from c.lease_id then 'lost'", ""),
    ],
    # Drained or not is decided without looking again under the partition's lock.
    "lost wake-up": [("move_cursors", "when s.next_seq is null then\n", "when false then\n")],
    # The next message begins with the retries of the one before.
    "inherited retry": [("move_cursors", f"coalesce(p_retries, {KEPT})", "coalesce(p_retries, pc.retry_count)")],
}
IN_PROCESS = ("non-atomic ack", "buffer reordered")
DEFECTS = (*IN_DATABASE, *IN_PROCESS)


def plant_in_database(dsn: str, defect: str) -> None:
    """Replace text in functions of this database; the text must be there."""
    texts: dict[str, str] = {}
    for function, old, new in IN_DATABASE.get(defect, []):
        text = texts.get(function) or (FUNCTIONS / f"{function}.sql").read_text(encoding="utf-8")
        if old not in text:
            raise LookupError(f"{function}.sql has changed: it does not contain {old!r}")
        texts[function] = text.replace(old, new)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create sequence torture.offsets")
        for text in texts.values():
            connection.execute(text.encode())


def plant_in_process(defect: str) -> None:
    """Change a class of this process."""
    if defect == "non-atomic ack":
        _split_transactions()
    elif defect == "buffer reordered":
        _turn_the_buffer_round()


def _split_transactions() -> None:
    """The pushes of a transaction commit before its acknowledgements."""
    from queen.engine.transaction import Committed, Transactor

    whole = Transactor.transaction

    async def split(self: Transactor, pushes: Any, acks: Any, **options: Any) -> Committed:
        first = await whole(self, pushes, [], unique=options.get("unique", False))
        second = await whole(self, [], acks, **{**options, "unique": False})
        return Committed(first.pushed, second.acked)

    Transactor.transaction = split  # type: ignore[method-assign]


def _turn_the_buffer_round() -> None:
    """What waits on disk is stored last first."""
    from queen.server.buffer.drain import Drain

    read = Drain._read

    def turned(self: Drain, *arguments: Any) -> Any:
        return read(self, *arguments)[::-1]

    Drain._read = turned  # type: ignore[method-assign, assignment]
