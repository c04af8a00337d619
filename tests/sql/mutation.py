"""Defects planted into the functions of one database, to see whether a check notices them."""

from __future__ import annotations

from pathlib import Path

import psycopg

import queen.sql

FUNCTIONS = Path(queen.sql.__file__).parent / "functions"


def plant(dsn: str, function: str, *changes: tuple[str, str]) -> None:
    """Replace text in a function of this database; the text must be there."""
    text = (FUNCTIONS / f"{function}.sql").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, f"{function}.sql has changed: it does not contain {old!r}"
        text = text.replace(old, new)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(text.encode())
