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


# Who may write which columns of a group's row in a partition, besides the insert of a new one. The cursor and the end
# of a lease are queen.move_cursors' alone; pop begins a lease and counts the delivery; a push only wakes.
LEASE = {
    "lease_id",
    "lease_expires_at",
    "lease_acquired_at",
    "batch_from",
    "batch_to",
    "counted_to",
    "ready_at",
    "idle_ms",
}
WRITERS = {
    "pop_lanes": LEASE | {"total_messages_delivered"},
    "pop_further": LEASE | {"total_messages_delivered", "delivery_count"},
    "cut_batches": {"batch_to", "counted_to", "total_messages_delivered"},
    "end_emptied": {"batch_to"},
    "renew_leases": {"lease_expires_at", "ready_at"},
    "store_messages": {"ready_at", "idle_ms"},
    "raise_heads": {"ready_at", "idle_ms"},
    "configure": {"ready_at", "evict_at"},
    "seek": {"evict_at"},
    "evict_queue": {"evict_at"},
    "expect_eviction": {"evict_at"},
    # A transfer writes the rows of a copy that nobody works on yet: there is no cursor to move, no lease to end, nobody
    # to wake. Back, it writes the table that an earlier schema has under this name.
    "store_states": LEASE
    | {"last_consumed_seq", "last_consumed_at", "total_messages_consumed", "total_batches_consumed"}
    | {"total_messages_delivered", "retry_count", "evict_at"},
    "back_states": LEASE
    | {"last_consumed_id", "last_consumed_created_at", "last_consumed_at", "total_messages_consumed"}
    | {"total_batches_consumed", "message_batch", "batch_size", "acked_count", "worker_id", "batch_retry_count"},
}
UPDATE = re.compile(
    r"(?:update\s+(?:queen\.)?partition_consumers\b|insert\s+into\s+(?:queen\.)?partition_consumers\b[^;]*?\bdo\s+update\b)"
    r".*?\bset\b(.*?)(?:\bfrom\b|\bwhere\b|\breturning\b|;|$)",
    re.DOTALL,
)


def columns_written(text: str) -> set[str]:
    """The columns of partition_consumers that the updates of a text assign."""
    found: set[str] = set()
    for flat in UPDATE.findall(text):
        nested = flat
        while (bare := re.sub(r"\([^()]*\)", "", nested)) != nested:
            nested = bare
        found |= set(re.findall(r"(?:^|,)\s*(\w+)\s*=", re.sub(r"\bcase\b.*?\bend\b", "", nested, flags=re.DOTALL)))
    return found


def test_one_function_moves_a_cursor() -> None:
    """R15, by the text of every statement. What is made up (demo, generator) has no past."""
    written: dict[str, set[str]] = {}
    for path in source_files(".sql"):
        if not {"migrations", "demo", "generator"} & set(path.parts):
            columns = columns_written(without_comments_and_strings(path))
            written[path.stem] = written.get(path.stem, set()) | columns
    for name in ("move_cursors", "store_states"):
        assert "last_consumed_seq" in written[name], "the check reads no assignments any more"
    wrong = {name: found - WRITERS.get(name, set()) for name, found in written.items() if name != "move_cursors"}
    assert {name: found for name, found in wrong.items() if found} == {}


def test_the_check_knows_an_assignment() -> None:
    text = (
        "update queen.partition_consumers pc\n set a = case when x then y = 1 end, b = f(c = 1), d = 2 from t where e"
    )
    assert columns_written(text) == {"a", "b", "d"}
