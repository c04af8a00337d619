"""The files of the project, for tests that read them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "queen"
FOLDERS = ("src", "tests", "scripts", "docs", "bench", "torture", "examples", ".ci")
GENERATED = {"_sync"}


def source_files(suffix: str) -> list[Path]:
    """The files of the package that people write."""
    return sorted(path for path in SOURCE.rglob(f"*{suffix}") if not GENERATED & set(path.parts))


def project_files() -> Iterator[Path]:
    """Every file that belongs to the project, as opposed to what tools leave lying around."""
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.name not in (".coverage", ".git"))
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a Python file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    """How a test names a file."""
    return str(path.relative_to(ROOT))
