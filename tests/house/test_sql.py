from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tree import name_of, parse, source_files

STATEMENT = re.compile(
    r"""\s*(
        select\s+(.*\sfrom\s|\$\d|\d|[\w.]+\() | insert\s+into\s | update\s+\S+\s+set\s | delete\s+from\s
      | truncate\s+\S+$
      | (create|alter|drop)\s+(or\s+replace\s+)?(temp\w*\s+|unlogged\s+|unique\s+)?
        (table|index|function|procedure|view|schema|database|type|sequence|trigger|role|extension)\b
      | with\s+\w+\s+as\s*(materialized\s*)?\( | pragma\s+\w+ | explain\s.*\bselect\b | copy\s+\S+\s+(from|to)\s
      | set\s+(local|session)\s | (begin|commit|rollback)\s*; | savepoint\s+\w+\s*$ | (listen|notify)\s+\w+\s*$
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
KEYWORDS = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|CREATE|FUNCTION|BEGIN|RETURNING|VALUES|JOIN)\b")


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every string of a file except docstrings, with its line."""
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.lineno, node.value


@pytest.mark.parametrize(
    "text",
    [
        "select 1", "SELECT id FROM t", "\n  insert into t values (1)", "update t set a = 1", "delete from t",
        "create or replace function f()", "drop table if exists t", "with a as (select 1) select", "set local x = 1",
        "begin;", "pragma journal_mode", "listen queue",
    ],
)  # fmt: skip
def test_the_check_knows_a_statement(text: str) -> None:
    assert STATEMENT.match(text)


@pytest.mark.parametrize(
    "text",
    ["select a queue", "select at most 2", "commit", "update", "create a queue", "with care", "begin here", "dropped"],
)
def test_the_check_knows_plain_words(text: str) -> None:
    assert not STATEMENT.match(text)


def test_statements_live_in_sql_files_only() -> None:
    found = [
        f"{name_of(path)}:{line}: {text.strip()[:60]}"
        for path in source_files(".py")
        for line, text in texts(parse(path))
        if STATEMENT.match(text)
    ]
    assert found == []


def without_comments_and_strings(path: Path) -> str:
    text = re.sub(r"--.*", "", path.read_text(encoding="utf-8"))
    return re.sub(r"'[^']*'", "''", text)


def test_every_sql_file_says_what_it_promises() -> None:
    """Except the way back of a migration: that promises to undo what the way there did."""
    files = [path for path in source_files(".sql") if not path.name.endswith(".down.sql")]
    assert [name_of(path) for path in files if not path.read_text(encoding="utf-8").startswith("-- ")] == []


def test_keywords_are_lower_case() -> None:
    assert [name_of(p) for p in source_files(".sql") if KEYWORDS.search(without_comments_and_strings(p))] == []


def test_files_end_with_a_newline() -> None:
    assert [name_of(p) for p in source_files(".sql") if not p.read_text(encoding="utf-8").endswith("\n")] == []
