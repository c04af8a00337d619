"""A lake whose database failed over: kept for the server that took over, if everything in it came there too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow.compute as pc

from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.lake.lake import Lake
from queen.spark.lake.tables import LAKE_TABLES, MESSAGES, TIMES
from queen.spark.takeover import arrived, commits_lost, preceded

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
WINDOW: Final = timedelta(hours=1)
"""How far back clocks of two servers may differ without rows of the second being taken for those of the first."""
NAMED: Final = 5
COUNTED: Final = {"workflow_history": ["instance", "execution_id"]}
"""What the database counts of a table, where that is not its rows."""


@dataclass(frozen=True)
class Adopted:
    """A lake that goes on with another server."""

    before: str
    now: str
    pos: int


def adopt(lake: Lake, url: str) -> Adopted:
    """Let a lake go on with the server at hand, or refuse and name what that one lacks."""
    database = Database(url)
    try:
        here = str(database.row("where_we_are")["database"])
        before = lake.identity.database
        if before == here:
            return Adopted(before, here, reached_pos(lake))
        if not preceded(before, here):
            lake.require_database(here)
        pos = reached_pos(lake)
        require_nothing_lost(lake, database, pos)
        moved = lake.adopt(here)
        if reached_pos(moved) != pos:
            # The server before is still at work, and its archive committed once more.
            try:
                require_nothing_lost(moved, database, reached_pos(moved), before)
            except SparkError:
                moved.adopt(before)
                raise
        return Adopted(before, here, pos)
    finally:
        database.close()


def reached_pos(lake: Lake) -> int:
    """Up to where the lake holds messages."""
    reach = lake.reach(MESSAGES)
    return 0 if reach is None or reach.pos is None else reach.pos


def require_nothing_lost(lake: Lake, database: Database, pos: int, before: str | None = None) -> None:
    """Refuse a server that lacks messages of the lake, or has others in their place; or whose clock is behind."""
    known = arrived(database, before or lake.identity.database)
    if pos > known:
        ours, theirs = held(lake, known), {(row["pos"], row["id"]) for row in between(database, known, pos)}
        lost = [row for row in ours if (row["pos"], row["id"]) not in theirs]
        others = len(theirs) - (len(ours) - len(lost))
        if lost or others:
            raise commits_lost(f"the lake at {lake.place.address}", known, pos, told(lost, others))
    for table, until in times(lake):
        require_settled(lake, database, table, until)


def held(lake: Lake, low: int) -> list[dict[str, Any]]:
    """The messages of the lake from a position on."""
    log = lake.log(MESSAGES)
    columns = ["pos", "id", "queue", "partition", "seq"]
    if log is None:
        return []
    rows: list[dict[str, Any]] = (
        log.to_pyarrow_dataset().to_table(columns=columns, filter=pc.field("pos") >= low).to_pylist()
    )
    return sorted(rows, key=lambda row: row["pos"])


def between(database: Database, low: int, high: int) -> list[dict[str, Any]]:
    """The messages of the database in a range of positions."""
    found: list[dict[str, Any]] = database.table("lake/rows_between", **{"from": low, "to": high}).to_pylist()
    return found


def told(lost: list[dict[str, Any]], others: int) -> str:
    """What differs, for people."""
    named = ", ".join(f"{row['queue']}/{row['partition']} seq {row['seq']}" for row in lost[:NAMED])
    more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
    kept = f"; the lake keeps {len(lost)} messages that are gone here: {named}{more}" if lost else ""
    taken = f"; {others} messages here have positions that the lake is past" if others else ""
    return f"{kept}{taken}; begin a new lake, and play what this one keeps again with the pipeline replay"


def times(lake: Lake) -> Iterator[tuple[str, datetime]]:
    """The tables that are archived by time, and up to when."""
    for table in LAKE_TABLES:
        reach = lake.reach(table) if table != MESSAGES else None
        if reach is not None and reach.until is not None:
            yield table, EPOCH + timedelta(microseconds=reach.until)


def require_settled(lake: Lake, database: Database, table: str, until: datetime) -> None:
    """Refuse a server that has stamped rows with times the lake is past: they would never be archived."""
    now = database.row("lake/settled")["until"]
    if now < until:
        raise SparkError(
            "FOREIGN_LAKE",
            f"the lake holds {table} up to {until.isoformat()}, but the clock of this server says {now.isoformat()}: "
            "set it, or adopt the lake when that time has passed",
        )
    since = until - WINDOW
    ask = {"since": since.isoformat(), "until": until.isoformat(), "rows": 1 << 40}
    there = database.row(f"lake/reach_{table}", **ask)["n"]
    log = lake.log(table)
    here = 0
    if log is not None:
        time = pc.field(TIMES[table])
        chosen = log.to_pyarrow_dataset().to_table(
            columns=COUNTED.get(table, [TIMES[table]]), filter=(time >= since) & (time < until)
        )
        here = chosen.group_by(COUNTED[table]).aggregate([]).num_rows if table in COUNTED else chosen.num_rows
    if there > here:
        raise SparkError(
            "COMMITS_LOST",
            f"this server has {there} rows of {table} between {since.isoformat()} and {until.isoformat()}, but the "
            f"lake, which is past that time, has {here}: its clock was behind when it took over; begin a new lake",
            {"since": since.isoformat(), "until": until.isoformat()},
        )
