"""Functions of one database, changed to see whether a check notices."""

from __future__ import annotations

from pathlib import Path

import psycopg

import queen.sql
from tests.mutants.defects import all_defects

FUNCTIONS = Path(queen.sql.__file__).parent / "functions"


def plant(dsn: str, name: str) -> None:
    """Put a defect of the list into this database."""
    texts: dict[str, str] = {}
    for change in all_defects()[name].changes:
        path = FUNCTIONS / Path(change.file).name
        texts[change.file] = change.apply(texts.get(change.file) or path.read_text(encoding="utf-8"))
    _replace(dsn, *texts.values())


def alter(dsn: str, function: str, old: str, new: str) -> None:
    """Replace text in a function of this database; the text must be there."""
    text = (FUNCTIONS / f"{function}.sql").read_text(encoding="utf-8")
    assert old in text, f"{function}.sql has changed: it does not contain {old!r}"
    _replace(dsn, text.replace(old, new))


def _replace(dsn: str, *texts: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for text in texts:
            connection.execute(text.encode())
