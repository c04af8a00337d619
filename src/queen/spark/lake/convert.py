"""A lake of the form before it was a Delta table, made one: its rows in new files, and a log that names them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from queen.spark.errors import SparkError
from queen.spark.lake.files import File, Reach
from queen.spark.lake.lake import OLD, Lake
from queen.spark.lake.places import Place
from queen.spark.lake.reading import batches_of
from queen.spark.lake.tables import LAKE_TABLES, MESSAGES
from queen.spark.lake.writing import Filer

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
COMMIT: Final = re.compile(r"(\d{12})\.json")
SNAPSHOT: Final = re.compile(r"(\d{12})\.snapshot\.json")
LEFT: Final = (OLD, "manifest", "data", "staging", "lock")


@dataclass
class Before:
    """What the manifest of an old lake says."""

    version: int = 0
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    reaches: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, table: str) -> list[dict[str, Any]]:
        """The files of a table, in the order of their rows."""
        mine = (file for file in self.files.values() if file["table"] == table)
        return sorted(mine, key=lambda file: (file["group"], file["date"], file.get("low", 0)))

    def after(self, commit: dict[str, Any]) -> None:
        """One more commit."""
        for path in commit.get("removed", ()):
            del self.files[path]
        self.files |= {file["path"]: file for file in commit.get("added", ())}
        if commit.get("reach") is not None:
            self.reaches[commit["table"]] = commit["reach"]
        self.version = commit["version"]


def convert(path: str | Path) -> Lake:
    """Make an old lake a Delta table, in its place. May be broken off and run again at any point.

    Every file is compared with the manifest first. What was there before is removed at the very end, when the new
    tables hold as many rows of every name and day.
    """
    place = Place.of(path)
    root = Path(place.address)
    if not place.local or not (root / OLD).is_file():
        raise SparkError("LAKE_NOT_FOUND", f"there is no lake of the earlier form at {place.address}")
    said = json.loads((root / OLD).read_bytes())
    before = folded(root / "manifest")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda old: require_whole(root, old), before.files.values()))
    removed = int(before.reaches.get(MESSAGES, {}).get("removed") or 0)
    lake = Lake.begin(place, said["database"], removed)
    for table in LAKE_TABLES:
        rewrite(lake, table, before)
    require_same(lake, before)
    for name in LEFT:
        gone = root / name
        shutil.rmtree(gone) if gone.is_dir() else gone.unlink(missing_ok=True)
    return lake


def folded(folder: Path) -> Before:
    """The newest state of a manifest."""
    names = [each.name for each in folder.iterdir()]
    snapshots = [int(match[1]) for name in names if (match := SNAPSHOT.fullmatch(name))]
    commits = sorted(int(match[1]) for name in names if (match := COMMIT.fullmatch(name)))
    state = Before()
    if snapshots:
        kept = json.loads((folder / f"{max(snapshots):012}.snapshot.json").read_bytes())
        state = Before(kept["version"], {file["path"]: file for file in kept["files"]}, dict(kept["reaches"]))
    for version in range(state.version + 1, max(commits, default=0) + 1):
        if version not in commits:
            raise SparkError("LAKE_DAMAGED", f"commit {version} of the lake is missing: restore it from a copy")
        state.after(json.loads((folder / f"{version:012}.json").read_bytes()))
    return state


def require_whole(root: Path, old: dict[str, Any]) -> None:
    """Refuse a file that is not what the manifest says."""
    source = root / old["path"]
    try:
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        digest = ""
    if digest != old["sha256"]:
        raise SparkError("LAKE_DAMAGED", f"{source} is missing or not what was written: restore it from a copy")


def rewrite(lake: Lake, table: str, before: Before) -> None:
    """The rows of a table into new files and its log, unless they are there already."""
    old = before.reaches.get(table)
    if old is None or lake.reach(table) is not None:
        return
    filer = Filer(lake.place.below(table), table)
    files: list[File] = []
    for each in before.of(table):
        for batch in batches_of(lake.place, table, each["path"]):
            files += filer.take(pa.Table.from_batches([batch]))
    files += filer.end()
    until = datetime.fromisoformat(old["until"]) if old.get("until") else EPOCH
    reach = (
        Reach(pos=old.get("pos")) if table == MESSAGES else Reach(until=(until - EPOCH) // timedelta(microseconds=1))
    )
    lake.append(table, files, None, reach)


def require_same(lake: Lake, before: Before) -> None:
    """Refuse to go on when the log does not have as many rows of each name and day as the manifest had."""
    then: Counter[tuple[str, str, str]] = Counter()
    now: Counter[tuple[str, str, str]] = Counter()
    for old in before.files.values():
        then[old["table"], old["group"], old["date"]] += old["rows"]
    state = lake.state()
    lake.require_whole(state.files)
    for file in state.files:
        now[file.table, file.group or "", file.date] += file.rows
    if then != now:
        raise SparkError("LAKE_DAMAGED", f"the log of {lake.place.address} does not name what the manifest did")
