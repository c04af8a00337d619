"""Transfer: how far the move from an earlier schema is, and what its last comparison found."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec

from queen.dashboard.frame import Visit, page
from queen.server.wire import Wire

SHOWN: Final = 200


class Found(Wire, kw_only=True):
    """What the last verify said: what was compared, and what differs."""

    passed: bool
    made_at: datetime
    engine: str
    compared: dict[str, int]
    differences: list[dict[str, Any]]
    more: int


class Transfer(Wire, kw_only=True):
    """A move from an earlier schema; nothing of it is there when none was begun here."""

    version: str | None = None
    phase: str | None = None
    begun_at: datetime | None = None
    copied_at: datetime | None = None
    cut_at: datetime | None = None
    returned_at: datetime | None = None
    pause_ms: float | None = None
    report: Found | None = None


@page("transfer.html", "Transfer", wide=True)
async def transfer(visit: Visit) -> Transfer:
    """How far the move from an earlier schema is."""
    if not (await visit.looker.fetch("has_transfer"))[0]["there"]:
        return Transfer()
    rows = await visit.looker.fetch("transfer")
    if not rows:
        return Transfer()
    row = rows[0]
    return Transfer(
        version=row["version"],
        phase=row["phase"],
        begun_at=row["begun_at"],
        copied_at=row["copied_at"],
        cut_at=row["cut_at"],
        returned_at=row["returned_at"],
        pause_ms=row["pause_ms"],
        report=_found(row["passed"], row["made_at"], row["report"]) if row["report"] else None,
    )


def _found(passed: bool, made_at: datetime, text: str) -> Found:  # noqa: FBT001
    told = msgspec.json.decode(text)
    differences = told.get("differences", [])
    return Found(
        passed=passed,
        made_at=made_at,
        engine=told.get("engine", "sql"),
        compared=told.get("compared", {}),
        differences=differences[:SHOWN],
        more=max(len(differences) - SHOWN, 0),
    )
