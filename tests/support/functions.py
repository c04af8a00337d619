"""The functions of the tests, for tests that look at them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.tree import ROOT, parse

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of(file: str) -> Iterator[Function]:
    """The functions at the top of a file of tests."""
    yield from (node for node in parse(ROOT / file).body if isinstance(node, Function))


def has_test(name: str) -> bool:
    """Tell whether there is a test of a name such as `tests/sql/test_api.py::test_a_lease_is_renewed[some case]`."""
    file, _, function = name.partition("::")
    if not (ROOT / file).is_file():
        return False
    wanted = function.partition("[")[0]
    return wanted.startswith("test_") and any(node.name == wanted for node in functions_of(file))


def marks_of(name: str) -> set[str]:
    """The marks of a test, those of its file among them."""
    file, _, function = name.partition("::")
    found = [node for node in functions_of(file) if node.name == function.partition("[")[0]]
    own: list[ast.expr] = [decorator for node in found for decorator in node.decorator_list]
    own += [
        node.value
        for node in parse(ROOT / file).body
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "pytestmark" for target in node.targets)
    ]
    texts = [ast.unparse(each) for each in own]
    return {text.removeprefix("pytest.mark.").partition("(")[0] for text in texts if text.startswith("pytest.mark.")}
