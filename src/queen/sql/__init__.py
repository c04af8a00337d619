"""Every statement Queen ever runs, as files: `migrations/`, `functions/` and `queries/`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def query(name: str) -> str:
    """The text of `queries/<name>.sql`; `name` may contain a folder: `query("stats/minute")`."""
    return files(__name__).joinpath("queries", f"{name}.sql").read_text(encoding="utf-8")
