"""Write docs/reference/sql.md from the headers of the functions that roles may call. `--check` only compares."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FUNCTIONS = ROOT / "src" / "queen" / "sql" / "functions"
PAGE = ROOT / "docs" / "reference" / "sql.md"
ORDER = ["push", "push_many", "pop", "ack", "nack", "renew"]
HEAD = Path(__file__).with_suffix(".md")
DEFINITION = re.compile(r"create or replace function queen\.(\w+)(.*?)\nlanguage", re.DOTALL)


def section(name: str) -> str:
    text = (FUNCTIONS / f"{name}.sql").read_text(encoding="utf-8")
    found = DEFINITION.search(text)
    assert found is not None
    header = re.sub(r"\n--\s{2,}", " ", text[: text.index("\ncreate or replace")])
    promises, locks = header.removeprefix("-- Promises: ").split("\n-- Locks: ")
    signature = re.sub(r"\n\s+", "\n    ", f"queen.{found[1]}{found[2]}")
    return (
        f"\n### {name}\n\n```text\n{signature}\n```\n\n{promises[0].upper()}{promises[1:]}\n\nLocks: {locks.rstrip()}\n"
    )


def page() -> str:
    return HEAD.read_text() + "".join(map(section, ORDER))


def main() -> None:
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == page() else f"{PAGE.name} is out of date: run `make docs`")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
