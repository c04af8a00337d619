"""The head of a Delta log: its version, what it is complete up to, what the table is; without the files it names.

delta-rs holds every file of a table in memory whenever it opens or commits: with 100 000 files that takes two seconds.
Whoever only appends needs none of them. So the head is read here, from the newest checkpoint and the commits after it,
and kept: later only new commits are read. In a directory a commit that only appends is written here as well, as the
protocol says: the next number, if nobody has taken it. Buckets are left to delta-rs, which knows conditional puts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any, Final
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from queen.spark.lake.durably import room_for, sync_directory
from queen.spark.lake.files import File, now_ms
from queen.spark.lake.places import Place
from queen.spark.lake.tables import GROUPS, divided_by

LOG: Final = "_delta_log"
EVERY: Final = 50
"""So many commits after one checkpoint another is made, aside."""
SKIPPED: Final = (b'{"add"', b'{"remove"')
KNOWN_FEATURES: Final = frozenset({"timestampNtz", "appendOnly", "invariants"})
CONFLICTS: Final = ("metaData", "protocol")


@dataclass(frozen=True)
class Head:
    """What a log says besides files, as of a version."""

    version: int = -1
    transactions: Mapping[str, int] = field(default_factory=dict)
    id: str = ""
    configuration: Mapping[str, str] = field(default_factory=dict)
    plain: bool = False
    """Whether we know everything that is asked of writers."""
    rows: int = 0
    bytes: int = 0
    """Of the commits that were read: by these one can tell how large a row is."""

    def with_actions(self, actions: Sequence[Mapping[str, Any]]) -> Head:
        """The head after more actions."""
        head = self
        for action in actions:
            if said := action.get("txn"):
                head = replace(head, transactions={**head.transactions, said["appId"]: said["version"]})
            if said := action.get("metaData"):
                head = replace(head, id=said["id"], configuration=dict(said.get("configuration") or {}))
            if said := action.get("protocol"):
                head = replace(head, plain=is_plain(said))
            if said := (action.get("commitInfo") or {}).get("operationMetrics"):
                rows, size = int(said.get("numOutputRows") or 0), int(said.get("numOutputBytes") or 0)
                head = replace(head, rows=head.rows + rows, bytes=head.bytes + size)
        return head


class Heads:
    """The heads of the logs of a lake, each brought up to date by what is new."""

    def __init__(self) -> None:
        self._known: dict[str, Head] = {}

    def of(self, place: Place) -> Head | None:
        """The head of a log; None when there is no table."""
        known = self._known.get(place.address)
        head = known or checkpointed(place) or Head()
        while (actions := commit_of(place, head.version + 1)) is not None:
            head = replace(head.with_actions(actions), version=head.version + 1)
        if known is None and newest(place) != head.version:
            # A gap, or a checkpoint that nothing points to: delta-rs knows what to make of it.
            head = whole(place)
        if head.version < 0:
            return None
        self._known[place.address] = head
        return head

    def append(self, place: Place, table: str, files: Sequence[File], application: str, version: int) -> bool:
        """Commit files and how far an application is; False when it, or the table itself, has changed meanwhile."""
        head = self._known[place.address]
        actions = appended(table, files, application, version)
        body = b"\n".join(msgspec.json.encode(action) for action in actions)
        while not put_new(place, head.version + 1, body):
            meanwhile = commit_of(place, head.version + 1) or []
            if any(name in action for action in meanwhile for name in CONFLICTS) or any(
                (action.get("txn") or {}).get("appId") == application for action in meanwhile
            ):
                return False
            head = replace(head.with_actions(meanwhile), version=head.version + 1)
        self._known[place.address] = head = replace(head.with_actions(actions), version=head.version + 1)
        if head.version % EVERY == 0:
            # Not a daemon: the program waits for it at its end.
            Thread(target=checkpoint, args=[place]).start()
        return True


def is_plain(protocol: Mapping[str, Any]) -> bool:
    """Whether a protocol asks nothing of writers that we do not do."""
    if protocol.get("minWriterVersion", 0) <= 2:
        return True
    return protocol["minWriterVersion"] == 7 and KNOWN_FEATURES.issuperset(protocol.get("writerFeatures") or ())


def commit_name(version: int) -> str:
    """The file of a commit."""
    return f"{LOG}/{version:020d}.json"


def commit_of(place: Place, version: int) -> list[dict[str, Any]] | None:
    """The actions of a commit besides files; None when it is not there."""
    try:
        with place.get(commit_name(version)) as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None
    return [msgspec.json.decode(line) for line in lines if line.strip() and not line.startswith(SKIPPED)]


def newest(place: Place) -> int:
    """The number of the newest commit there is; -1 when there is none."""
    names = (name.removesuffix(".json") for name in place.below(LOG).names() if name.endswith(".json"))
    return max((int(name) for name in names if name.isdigit()), default=-1)


def checkpointed(place: Place) -> Head | None:
    """The head as of the newest checkpoint; None when there is none, or it has a form that only others read."""
    try:
        with place.get(f"{LOG}/_last_checkpoint") as file:
            said = msgspec.json.decode(file.read())
        if said.get("parts") or said.get("v2Checkpoint"):
            return whole(place)
        with place.get(f"{LOG}/{said['version']:020d}.checkpoint.parquet") as file:
            rows = pq.read_table(file, columns=["txn", "metaData", "protocol"])
    except FileNotFoundError:
        return None
    except (KeyError, pa.ArrowInvalid):
        return whole(place)
    actions = [
        {name: as_json(value)} for name in rows.column_names for value in rows.column(name).drop_null().to_pylist()
    ]
    return replace(Head().with_actions(actions), version=int(said["version"]))


def as_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """An action as a commit has it: maps are lists of pairs in Parquet."""
    return {name: dict(each) if name == "configuration" else each for name, each in value.items()}


def whole(place: Place) -> Head:
    """The head as delta-rs reads it."""
    log = DeltaTable(place.address, storage_options=place.storage)
    metadata, applications = log.metadata(), ("queen.archive", "queen.compact")
    known = {name: found for name in applications if (found := log.transaction_version(name)) is not None}
    return Head(log.version(), known, str(metadata.id), dict(metadata.configuration))


def appended(table: str, files: Sequence[File], application: str, version: int) -> list[dict[str, Any]]:
    """The actions of a commit that only appends."""
    metrics = {
        "numFiles": str(len(files)),
        "numOutputRows": str(sum(file.rows for file in files)),
        "numOutputBytes": str(sum(file.bytes for file in files)),
    }
    parameters = {"mode": "Append", "partitionBy": msgspec.json.encode(divided_by(table)).decode()}
    told = {
        "timestamp": now_ms(), "operation": "WRITE", "operationParameters": parameters, "operationMetrics": metrics,
        "isBlindAppend": True, "engineInfo": "queen",
    }  # fmt: skip
    noted = {"appId": application, "version": version, "lastUpdated": now_ms()}
    return [{"commitInfo": told}, {"txn": noted}, *({"add": add_of(file)} for file in files)]


def add_of(file: File) -> dict[str, Any]:
    """A file that counts from now on, as the log has it."""
    return {
        "path": file.path, "partitionValues": {GROUPS[file.table]: file.group, "date": file.date}, "size": file.bytes,
        "modificationTime": now_ms(), "dataChange": True, "stats": file.stats,
    }  # fmt: skip


def put_new(place: Place, version: int, body: bytes) -> bool:
    """Write a commit, whole and for good, unless its number is taken."""
    final = Path(place.path(commit_name(version)))
    draft = Path(place.path(f".commit-{uuid4().hex}"))
    with room_for(final):
        try:
            with draft.open("xb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, final)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
    sync_directory(final.parent)
    return True


def checkpoint(place: Place) -> None:
    """Let whoever opens the log from now on begin here."""
    DeltaTable(place.address, storage_options=place.storage).create_checkpoint()
