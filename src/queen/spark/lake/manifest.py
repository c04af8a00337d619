"""Which files of a lake count: a row of numbered commits, each a file that appears whole or not at all.

A commit adds files and takes files away, and says up to where its table is complete. Whoever reads folds
them in order; a snapshot now and then keeps that short. Two writers cannot both write the same number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import msgspec

from queen.spark.errors import SparkError
from queen.spark.lake.durably import sync_directory, write_new

T = TypeVar("T")
SNAPSHOT_EVERY: Final = 64
COMMIT: Final = re.compile(r"(\d{12})\.json")
SNAPSHOT: Final = re.compile(r"(\d{12})\.snapshot\.json")


class File(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Parquet file: where it is below the lake, what is in it, and how to tell that it is whole."""

    path: str
    table: str
    group: str
    date: str
    rows: int
    bytes: int
    sha256: str
    low: int = 0
    high: int = 0
    sealed: int = 0


class Reach(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Up to where a table is complete: every `pos` below, or every time before."""

    pos: int | None = None
    removed: int | None = None
    until: str | None = None


class Commit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a lake."""

    version: int
    kind: str
    table: str
    run: str = ""
    since: Reach | None = None
    reach: Reach | None = None
    added: list[File] = []
    removed: list[str] = []
    rows: int = 0


@dataclass(frozen=True)
class State:
    """A lake as of one commit."""

    version: int = 0
    files: Mapping[str, File] = field(default_factory=dict)
    reaches: Mapping[str, Reach] = field(default_factory=dict)

    def after(self, commit: Commit) -> Self:
        """The state with one more commit."""
        gone = set(commit.removed)
        files = {path: file for path, file in self.files.items() if path not in gone}
        files.update((file.path, file) for file in commit.added)
        reaches = self.reaches if commit.reach is None else {**self.reaches, commit.table: commit.reach}
        return replace(self, version=commit.version, files=files, reaches=reaches)

    def of(self, table: str) -> list[File]:
        """The files of a table, in the order they came."""
        return [file for file in self.files.values() if file.table == table]


class Manifest:
    """The commits of one lake."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def state(self) -> State:
        """What counts now."""
        listed = self._listed()
        try:
            return self._fold(*listed)
        except SparkError:
            # Pruned while we read? Then a newer snapshot stands for what is gone.
            if self._listed() == listed:
                raise
            return self._fold(*self._listed())

    def _fold(self, commits: list[int], snapshots: list[int]) -> State:
        state = State()
        if snapshots:
            state = self._snapshot(max(snapshots))
        for version in range(state.version + 1, max(commits, default=0) + 1):
            state = state.after(self._commit(version))
        return state

    def commit(self, state: State, commit: Commit) -> State:
        """Write the next commit; refuses when somebody else has written one meanwhile."""
        commit = msgspec.structs.replace(commit, version=state.version + 1)
        if not write_new(self._folder / f"{commit.version:012}.json", msgspec.json.encode(commit)):
            raise SparkError(
                "LAKE_BUSY", f"another run has written commit {commit.version} to the lake: let it end, then run again"
            )
        after = state.after(commit)
        if after.version % SNAPSHOT_EVERY == 0:
            self.write_snapshot(after)
        return after

    def write_snapshot(self, state: State) -> None:
        """Keep a state, so that readers need not fold what is before it."""
        kept = {"version": state.version, "files": list(state.files.values()), "reaches": state.reaches}
        write_new(self._folder / f"{state.version:012}.snapshot.json", msgspec.json.encode(kept))

    def prune(self, state: State) -> int:
        """Remove the commits and snapshots that a snapshot of this state stands for; returns how many."""
        self.write_snapshot(state)
        commits, snapshots = self._listed()
        gone = [self._folder / f"{version:012}.json" for version in commits if version <= state.version]
        gone += [self._folder / f"{version:012}.snapshot.json" for version in snapshots if version < state.version]
        for path in gone:
            path.unlink(missing_ok=True)
        sync_directory(self._folder)
        return len(gone)

    def history(self) -> Iterator[Commit]:
        """The commits that are still there, oldest first."""
        for version in sorted(self._listed()[0]):
            yield self._commit(version)

    def _listed(self) -> tuple[list[int], list[int]]:
        try:
            names = os.listdir(self._folder)  # noqa: PTH208 - a plain list of names is what we need
        except OSError as error:
            raise SparkError("LAKE_NOT_FOUND", f"the manifest of the lake cannot be read: {error}") from error
        return sorted(numbers(COMMIT, names)), sorted(numbers(SNAPSHOT, names))

    def _commit(self, version: int) -> Commit:
        return self._parsed(f"{version:012}.json", Commit)

    def _snapshot(self, version: int) -> State:
        kept = self._parsed(f"{version:012}.snapshot.json", dict[str, Any])
        files = msgspec.convert(kept["files"], list[File])
        reaches = msgspec.convert(kept["reaches"], dict[str, Reach])
        return State(kept["version"], {file.path: file for file in files}, reaches)

    def _parsed(self, name: str, kind: type[T]) -> T:
        try:
            return msgspec.json.decode((self._folder / name).read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError) as error:
            raise SparkError(
                "LAKE_DAMAGED",
                f"{self._folder / name} is missing or not whole ({error}): the lake was changed by something else; "
                "restore the file from a copy",
            ) from error


def numbers(pattern: re.Pattern[str], names: Iterable[str]) -> list[int]:
    """The numbers of the names that fit."""
    return [int(match[1]) for name in names if (match := pattern.fullmatch(name))]
