"""The lake as Delta tables: a log beside the very same files, for readers that know Delta. Nothing is copied."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from queen.spark.errors import SparkError
from queen.spark.lake.directory import Lake
from queen.spark.lake.manifest import File, State
from queen.spark.lake.tables import LAKE_TABLES, arrow_schema

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction, RemoveAction


def require_delta() -> None:
    """Refuse early when the package is not there."""
    if find_spec("deltalake") is None:
        raise SparkError("INVALID_OPTION", "Delta needs one more package: pip install 'queen-pg[delta]'")


def write_delta(lake: Lake, state: State) -> int:
    """Let the Delta log of every table name exactly the files that count; returns how many tables changed.

    A log that is behind, whatever the reason, is brought up to the commit by comparing; the commit's
    number is kept in it as the version of an application transaction.
    """
    return sum(bring_up(lake, table, state) for table in LAKE_TABLES if state.of(table))


def bring_up(lake: Lake, table: str, state: State) -> bool:
    """One table; False when its log is current."""
    from deltalake import DeltaTable, Schema  # noqa: PLC0415 - an extra package, needed only here
    from deltalake.transaction import CommitProperties, Transaction, create_table_with_add_actions  # noqa: PLC0415

    root = lake.path / "data" / table
    wanted = {str(Path(file.path).relative_to(f"data/{table}")): file for file in state.of(table)}
    schema = Schema.from_arrow(arrow_schema(table))
    noted = CommitProperties(app_transactions=[Transaction(lake.identity.id, state.version)])
    if not DeltaTable.is_deltatable(str(root)):
        made = [added(path, file) for path, file in wanted.items()]
        create_table_with_add_actions(str(root), schema, made, commit_properties=noted)
        return True
    log = DeltaTable(str(root))
    present = paths_of(log, root)
    actions: list[AddAction | RemoveAction] = [
        added(path, file) for path, file in wanted.items() if path not in present
    ]
    actions += [removed(path) for path in present if path not in wanted]
    if actions:
        log.create_write_transaction(actions, "append", schema, commit_properties=noted)
    return bool(actions)


def paths_of(log: DeltaTable, root: Path) -> Mapping[str, None]:
    """The files a log names, as paths below the table."""
    return {str(Path(uri.removeprefix("file://")).relative_to(root)): None for uri in log.file_uris()}


def added(path: str, file: File) -> AddAction:
    """A file that counts from now on."""
    from deltalake.transaction import AddAction  # noqa: PLC0415 - an extra package, needed only here

    stats = msgspec.json.encode({"numRecords": file.rows}).decode()
    return AddAction(path, file.bytes, {}, now_ms(), True, stats)


def removed(path: str) -> RemoveAction:
    """A file that no longer counts."""
    from deltalake.transaction import RemoveAction  # noqa: PLC0415 - an extra package, needed only here

    return RemoveAction(path, data_change=True, deletion_timestamp=now_ms())


def now_ms() -> int:
    """The time in milliseconds."""
    return time.time_ns() // 1_000_000
