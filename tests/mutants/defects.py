"""The list of defects: read from the `.toml` files beside this one, one for each room of the project."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

LISTS = Path(__file__).parent
FIELDS = {"breaks", "file", "old", "new", "times", "also", "noticed_by", "slow"}


@dataclass(frozen=True)
class Change:
    """One text of one file, and what stands there instead; the file's path begins at `src/queen`."""

    file: str
    old: str
    new: str
    times: int = 1

    def apply(self, text: str) -> str:
        """The text with the defect in it; what is changed must be there, as often as the list says."""
        found = text.count(self.old)
        assert found == self.times, f"{self.file} has changed: it contains {self.old!r} {found} times, not {self.times}"
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Defect:
    """A defect somebody might make, what it breaks, and the tests that must notice."""

    name: str
    kind: str
    breaks: str
    changes: tuple[Change, ...]
    noticed_by: tuple[str, ...]
    slow: bool = False

    @property
    def in_the_schema(self) -> bool:
        """Whether a database has to be made anew to have it."""
        return any("/functions/" in change.file or "/migrations/" in change.file for change in self.changes)


@cache
def all_defects() -> dict[str, Defect]:
    """Every defect by its name."""
    found: dict[str, Defect] = {}
    for path in sorted(LISTS.glob("*.toml")):
        for name, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            assert name not in found, f"there are two defects called {name}"
            found[name] = _read(name, path.stem, entry)
    return found


def _read(name: str, kind: str, entry: dict[str, Any]) -> Defect:
    assert entry.keys() <= FIELDS, f"{name}: unknown {entry.keys() - FIELDS}"
    first = {field: entry[field] for field in ("file", "old", "new", "times") if field in entry}
    return Defect(
        name=name,
        kind=kind,
        breaks=entry["breaks"],
        changes=tuple(Change(**change) for change in [first, *entry.get("also", [])]),
        noticed_by=tuple(entry["noticed_by"]),
        slow=entry.get("slow", False),
    )
