from __future__ import annotations

import ast
import re

from tests.support.tree import SOURCE, name_of, parse, project_files, source_files

EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "handler", "handlers", "misc", "base2"}
EMPTY_CLASSES = re.compile(r"(Manager|Helper|Helpers|Util|Utils|Handler)$")
# Written in pieces so that this file does not find itself.
MACHINE_PATHS = re.compile(r"(?<![\w.~/-])/(" + "|".join(["root", "home", "work", "Users"]) + r")/\w")
REGISTRIES = re.compile(
    "|".join(["py" + r"pi\.", "python" + "hosted", "npm" + r"js\.", "(extra-)?index" + "-url", "proxy" + r"\.golang"])
)
TEXTS = {".py", ".sql", ".md", ".toml", ".txt", ".html", ".css", ".js", ".json", ".sh", ".yml", ".yaml", ".cfg", ""}


def test_modules_are_named_after_what_they_do() -> None:
    names = [path for path in [*source_files(".py"), *source_files(".sql")] if path.stem in EMPTY_NAMES]
    folders = [path.parent for path in source_files(".py") if path.parent.name in EMPTY_NAMES]
    assert [name_of(path) for path in [*names, *folders]] == []


def test_classes_are_named_after_what_they_are() -> None:
    found = [
        f"{name_of(path)}: {node.name}"
        for path in source_files(".py")
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ClassDef) and EMPTY_CLASSES.search(node.name)
    ]
    assert found == []


def test_nothing_knows_the_machine_it_was_written_on() -> None:
    found = [
        f"{name_of(path)}:{number}: {line.strip()[:80]}"
        for path in project_files()
        if path.suffix in TEXTS and "static" not in path.parts
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
        if MACHINE_PATHS.search(line) or REGISTRIES.search(line)
    ]
    assert found == []


def test_no_module_keeps_state() -> None:
    """Names in capitals are constants; anything else at module level must not be a container."""
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in source_files(".py")
        for node in parse(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Dict | ast.List | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
        and any(
            isinstance(target, ast.Name) and not target.id.strip("_").isupper() and target.id != "__all__"
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        )
    ]
    assert found == []


def test_only_storage_imports_a_driver() -> None:
    storage = ("db", "spark", "durable/providers", "transfer")
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in source_files(".py")
        if not path.relative_to(SOURCE).as_posix().startswith(storage)
        for node in runtime_imports(parse(path))
        if {module.partition(".")[0] for module in imported(node)} & {"asyncpg", "psycopg", "adbc_driver_postgresql"}
    ]
    assert found == []


def runtime_imports(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """All imports but those that only a type checker sees."""
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom) and id(n) not in for_types]


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
