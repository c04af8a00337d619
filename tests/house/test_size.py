from __future__ import annotations

import ast
import io
import tokenize

from tests.support.tree import ROOT, name_of, parse, source_files

FILE_LINES = 450
FUNCTION_LINES = 50
COMMENT_SHARE = 0.05


def test_files_stay_short() -> None:
    lengths = {
        name_of(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in [*source_files(".py"), *source_files(".sql")]
    }
    assert {name: lines for name, lines in lengths.items() if lines > FILE_LINES} == {}


def test_functions_stay_short() -> None:
    lengths = {
        f"{name_of(path)}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in source_files(".py")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES} == {}


def test_comments_stay_rare() -> None:
    comments = lines = 0
    for path in source_files(".py"):
        text = path.read_text(encoding="utf-8")
        lines += len(text.splitlines())
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments += sum(token.type == tokenize.COMMENT for token in tokens)
    assert comments / lines <= COMMENT_SHARE


def test_the_test_set_up_stays_short() -> None:
    assert len((ROOT / "tests" / "conftest.py").read_text().splitlines()) <= 60
