"""What newer versions of Python no longer have is not used, so that the package can be imported there."""

from __future__ import annotations

import ast
import tomllib

import pytest

from tests.support.tree import ROOT, name_of, parse, source_files

# Removed in 3.12, 3.13 and 3.14.
GONE = {
    "asyncio": {"AbstractChildWatcher", "SafeChildWatcher", "ThreadedChildWatcher", "get_child_watcher"},
    "collections.abc": {"ByteString"},
    "datetime.datetime": {"utcnow", "utcfromtimestamp"},
    "importlib.abc": {"ResourceReader", "Traversable", "TraversableResources"},
    "pkgutil": {"find_loader", "get_loader", "ImpImporter"},
    "sqlite3": {"version", "version_info"},
    "typing": {"ByteString", "io", "re"},
    "urllib.parse": {"Quoter"},
}
NAMES = {name for names in GONE.values() for name in names}
MODULES = {"asynchat", "asyncore", "cgi", "crypt", "distutils", "imghdr", "imp", "pipes", "telnetlib", "uu"}


def used(tree: ast.Module) -> set[str]:
    """Modules imported, names imported from them, and attributes of names, all dotted."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            found.add(ast.unparse(node))
    return found


def gone(names: set[str]) -> set[str]:
    return {name for name in names if name.partition(".")[0] in MODULES} | {
        name for name in names if name.rpartition(".")[2] in GONE.get(name.rpartition(".")[0], ())
    }


def test_nothing_is_used_that_newer_versions_lack() -> None:
    for path in source_files(".py"):
        assert gone(used(parse(path))) == set(), name_of(path)


@pytest.mark.parametrize("code", ["from importlib.abc import Traversable", "import imp", "import typing\ntyping.re"])
def test_what_is_gone_is_noticed(code: str) -> None:
    assert gone(used(ast.parse(code)))


def test_the_versions_named_are_those_that_can_be_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: 3." in each]
    assert named[0] == project["requires-python"].removeprefix(">=")
    assert named == [f"3.{number}" for number in range(11, 11 + len(named))]
