"""The audit log: who changed what by hand, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from queen.db.pool import Database
from queen.sql import query


class Noted(Struct, frozen=True, kw_only=True):
    """One act: what was done, to which queue, and to what of it: a group, a partition, a message."""

    act: str
    text: str
    queue: str | None = None
    target: str | None = None
    detail: Mapping[str, Any] = {}


async def note(database: Database, subject: str, noted: Noted) -> None:
    """Write an act into the audit log of the database."""
    detail = msgspec.json.encode(noted.detail).decode()
    await database.fetch(query("engine/note_act"), subject, noted.act, noted.queue, noted.target, noted.text, detail)
