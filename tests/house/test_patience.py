"""Tests say the same on a loaded machine as on an idle one, and today what they said yesterday."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.functions import Function, marks_of
from tests.support.tree import ROOT, name_of, parse

# Seconds: a shorter limit tells of the machine. Tests that compare times are marked, and run alone.
LEAST = 5
FREE = {"scale", "measure"}
DRAWN = {"random", "randrange", "randint", "choice", "choices", "shuffle", "sample", "uniform", "getrandbits"}
CLOCKS = ("time.monotonic()", "time.perf_counter()", "time.time()", "monotonic()")
WAITS = {"asyncio.timeout": 0, "asyncio.wait_for": 1, "eventually": 1, "wait_for": 1, "soon": 1}
# What cannot be run everywhere, and why.
SKIPPED = {
    "tests/sql/test_model.py": "runs a walk again that failed, when told which",
    "tests/db/test_embedded.py": "looks at what only root may do",
}
# Where nothing can be waited for: the sleep itself is what is looked at.
SLEPT = {
    "test_a_handler_slower_than_the_lease_runs_once": "longer than two leases",
    "test_what_was_looked_up_for_someone_who_has_gone_is_given_back": "the caller goes at every millisecond",
}


def files() -> list[Path]:
    return [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "house" not in path.parts]


def timed_functions() -> Iterator[tuple[str, Function]]:
    """Every function of the tests that does not compare times."""
    for path in files():
        for node in parse(path).body:
            if isinstance(node, Function) and not FREE & marks_of(f"{name_of(path)}::{node.name}"):
                yield f"{name_of(path)}::{node.name}", node


def number(node: ast.expr | None) -> float | None:
    """A number that is written out."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    return None


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """What a function does itself, not what functions inside it do."""
    rest: list[ast.AST] = list(function.body)
    while rest:
        node = rest.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            rest.extend(ast.iter_child_nodes(node))


def test_limits_are_generous() -> None:
    found = []
    for name, function in timed_functions():
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or ast.unparse(call.func) not in WAITS:
                continue
            place = WAITS[ast.unparse(call.func)]
            given = [word.value for word in call.keywords if word.arg in ("limit", "timeout")]
            limit = number(given[0] if given else call.args[place] if len(call.args) > place else None)
            if limit is not None and limit < LEAST:
                found.append(f"{name}:{call.lineno}: {ast.unparse(call)}")
    assert found == []


def test_no_clock_is_held_against_the_machine() -> None:
    def reads(node: ast.expr) -> bool:
        return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and ast.unparse(node.left) in CLOCKS

    found = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, function in timed_functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Compare) and isinstance(node.ops[-1], ast.Lt | ast.LtE)
        and any(reads(each) for each in (node.left, *node.comparators))
        and (number(node.comparators[-1]) or LEAST) < LEAST
    ]  # fmt: skip
    assert found == []


def test_nothing_is_slept_for() -> None:
    """Whoever sleeps and then looks that nothing happened, or that something did, tells of the machine."""
    found = [
        f"{name}:{node.lineno}"
        for name, function in timed_functions()
        if function.name.startswith("test_") and function.name not in SLEPT
        for node in own_nodes(function)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("asyncio.sleep", "time.sleep")
        and number(node.args[0]) != 0
    ]
    assert found == []


def test_chance_has_a_seed() -> None:
    found = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, function in timed_functions()
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and (
            (ast.unparse(node.func) in {f"random.{word}" for word in DRAWN})
            or (ast.unparse(node.func) in ("random.Random", "Random", "np.random.default_rng") and not node.args)
            or ast.unparse(node.func) in ("random.SystemRandom", "SystemRandom")
        )
    ]
    assert found == []


def test_nothing_is_skipped_for_want_of_a_tool() -> None:
    found = {
        name_of(path)
        for path in files()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in ("pytest.skip", "pytest.mark.skip", "pytest.mark.skipif", "pytest.importorskip")
    }
    assert found - SKIPPED.keys() == set()
