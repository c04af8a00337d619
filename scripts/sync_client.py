"""Write the synchronous client, src/queen/client/_sync, from the asynchronous one. `--check` only compares.

The syntax tree of each public class is turned into a twin with the same signatures and docstrings whose
methods run the asynchronous ones on a portal: `await q.push(...)` there is `q.push(...)` here.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CLIENT = ROOT / "src" / "queen" / "client"
SYNC = CLIENT / "_sync"
# Module and the classes in it that have a twin.
TWINS = {
    "admin": ["Queues", "Groups", "DeadLetters"],
    "buffer": ["Buffer"],
    "client": ["Client"],
    "message": ["Message"],
    "stream": ["Stream"],
    "transaction": ["Transaction"],
}
CLASSES = {name: module for module, names in TWINS.items() for name in names}
RENAMED = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
}
# Called until a signal comes.
LONG = {"consume", "consume_batches", "run"}
# For the parts of the client, not for its users.
INTERNAL = {"pop_request", "push_prepared", "run_consumers"}
# What must be looked at in the caller's thread, before the portal's thread has it.
THREAD_BOUND = {"connection": "of_this_thread(connection)"}
HEADER = '"""{doc}"""\n\n# Written by scripts/sync_client.py from {source}; change that instead.\n\n'


class Annotations(ast.NodeTransformer):
    """`Awaitable[X]` becomes `X`."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "Awaitable":
            return node.slice
        return node


def is_public(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
        not node.name.startswith("_") or node.name in RENAMED or node.name == "__len__"
    )


def decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {decorator.id for decorator in node.decorator_list if isinstance(decorator, ast.Name)}


def twin_of(annotation: ast.expr | None) -> str | None:
    base = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return base.id if isinstance(base, ast.Name) and base.id in CLASSES and base.id != "Message" else None


def arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    given = [argument.arg for argument in node.args.args[1:]]
    given += [f"{argument.arg}={THREAD_BOUND.get(argument.arg, argument.arg)}" for argument in node.args.kwonlyargs]
    if node.args.kwarg:
        given.append(f"**{node.args.kwarg.arg}")
    return ", ".join(given)


def protocol(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str, call: str) -> str | None:
    """The statements of methods the language calls, and of those that end things."""
    closing = f"try:\n    self._portal.run({call})\nfinally:\n    self._portal.close()"
    known = {
        "__aenter__": f"self._portal.run({call})\nreturn self",
        "__aiter__": "self._portal.call(self._inner.__aiter__)\nreturn self",
        "__anext__": f"return self._portal.step({call})",
        "__len__": "return len(self._inner)",
        "stop": "self._portal.call(self._inner.stop)",
    }
    if owner == "Client":
        known |= {"__aexit__": closing, "close": closing}
    if owner == "Message":
        known |= {"trace": f"self._client.record_trace(self, {arguments(node)})"}
    return known.get(node.name)


def body(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> str:
    """The statements of a method of the twin."""
    if "property" in decorators(node):
        return f"return {twin_of(node.returns)}(self._portal, self._inner.{node.name})"
    call = f"self._inner.{node.name}({arguments(node)})"
    if known := protocol(node, owner, call):
        return known
    assert node.returns is not None
    if wrapped := twin_of(node.returns):
        make = f"lambda: {call}" if arguments(node) else f"self._inner.{node.name}"
        return f"return {wrapped}(self._portal, self._portal.call({make}))"
    if isinstance(node, ast.AsyncFunctionDef):
        long = node.name in LONG and owner == "Client"
        call = f"self._portal.run_until_signal({call}, self._inner.stop)" if long else f"self._portal.run({call})"
    if isinstance(node.returns, ast.Constant):
        return call
    return f"result: {ast.unparse(Annotations().visit(node.returns))} = {call}\nreturn result"


def method(node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> ast.FunctionDef:
    text = body(node, owner)
    doc = ast.get_docstring(node, clean=False)
    statements: list[ast.stmt] = [ast.Expr(ast.Constant(doc))] if doc else []
    statements += [ast.Expr(ast.Constant(...))] if "overload" in decorators(node) else ast.parse(text).body
    made = ast.parse(f"def {RENAMED.get(node.name, node.name)}(): ...").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.args, made.returns, made.body, made.decorator_list = node.args, node.returns, statements, node.decorator_list
    return ast.fix_missing_locations(_transformed(made))


def _transformed(made: ast.FunctionDef) -> ast.FunctionDef:
    changed = Annotations().visit(made)
    assert isinstance(changed, ast.FunctionDef)
    return changed


def init(owner: str) -> ast.stmt:
    text = "def __init__(self, portal: Portal, inner: Any) -> None:\n"
    text += "    self._portal = portal\n    self._inner = inner\n"
    if owner == "Client":
        text += "    inner.message_client = self\n"
    return ast.parse(text).body[0]


def property_of(owner: str) -> list[ast.stmt]:
    """What a twin shows of the numbers its original keeps."""
    shown = {"Buffer": ("sent", "int"), "Transaction": ("result", "Committed | None")}.get(owner)
    if shown is None:
        return []
    name, kind = shown
    doc = {"sent": "How many messages were sent.", "result": "What became of it, once committed."}[name]
    head = f'@property\ndef {name}(self) -> {kind}:\n    """{doc}"""\n'
    return ast.parse(f"{head}    value: {kind} = self._inner.{name}\n    return value").body


def twin(node: ast.ClassDef) -> ast.ClassDef:
    methods = [
        method(item, node.name)
        for item in node.body
        if is_public(item) and isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name not in INTERNAL
    ]
    doc = (ast.get_docstring(node, clean=False) or "").replace("`queen.connect`", "`queen.connect_sync`")
    start: list[ast.stmt] = [ast.Expr(ast.Constant(doc))]
    if node.name == "Message":
        start += ast.parse("__slots__ = ()").body
    else:
        start.append(init(node.name))
    node.body = [*start, *property_of(node.name), *methods]
    return node


def imports(tree: ast.Module) -> list[ast.stmt]:
    """All imports of the source, those of classes with a twin pointing to the twin."""
    found: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("queen.client."):
            for alias in node.names:
                module = f"queen.client._sync.{CLASSES[alias.name]}" if alias.name in CLASSES else node.module
                found.append(ast.ImportFrom(module, [alias], 0))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.append(node)
    return [
        *found,
        ast.ImportFrom("queen.client.connections", [ast.alias("of_this_thread")], 0),
        ast.ImportFrom("queen.client.message", [ast.alias("Delivered")], 0),
        ast.ImportFrom("queen.client.portal", [ast.alias("Portal")], 0),
        ast.ImportFrom("typing", [ast.alias("Any")], 0),
    ]


def module(name: str) -> str:
    tree = ast.parse((CLIENT / f"{name}.py").read_text(encoding="utf-8"))
    kept: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in TWINS[name]:
            kept.append(twin(node))
        elif isinstance(node, ast.Assign) and not ast.unparse(node).startswith("_"):
            kept.append(node)
    doc = f"The synchronous twin of `queen.client.{name}`."
    made = ast.fix_missing_locations(ast.Module([*imports(tree), *kept], []))
    return HEADER.format(doc=doc, source=f"src/queen/client/{name}.py") + ast.unparse(made) + "\n"


def connect() -> str:
    """The synchronous `connect`, with the same arguments."""
    tree = ast.parse((CLIENT / "connect.py").read_text(encoding="utf-8"))
    node = next(item for item in tree.body if isinstance(item, ast.FunctionDef) and item.name == "connect")
    passed = ", ".join(
        [argument.arg for argument in node.args.args]
        + [f"{a.arg}={a.arg}" for a in node.args.kwonlyargs if a.arg != "message_type"]
        + ["message_type=Message"]
    )
    keep = [place for place, argument in enumerate(node.args.kwonlyargs) if argument.arg != "message_type"]
    node.args.kwonlyargs = [node.args.kwonlyargs[place] for place in keep]
    node.args.kw_defaults = [node.args.kw_defaults[place] for place in keep]
    doc = (ast.get_docstring(node, clean=False) or "").replace("async with queen.connect(", "with queen.connect_sync(")
    lines = f"portal = Portal()\nreturn Client(portal, portal.call(lambda: _connect({passed})))"
    node.body = [ast.Expr(ast.Constant(doc.replace("await ", ""))), *ast.parse(lines).body]
    header = ["from queen.client.connect import connect as _connect", "from queen.client.portal import Portal"]
    found = imports(tree)
    made = ast.fix_missing_locations(ast.Module([*found, *ast.parse("\n".join(header)).body, node], []))
    text = HEADER.format(doc="connect: a synchronous client for an address.", source="src/queen/client/connect.py")
    return text + ast.unparse(made) + "\n"


def pages() -> dict[Path, str]:
    made = {SYNC / f"{name}.py": module(name) for name in TWINS}
    made[SYNC / "connect.py"] = connect()
    made[SYNC / "__init__.py"] = '"""The synchronous client. Written by scripts/sync_client.py."""\n'
    return {path: tidy(path, text) for path, text in made.items()}


def tidy(path: Path, text: str) -> str:
    """Sorted and needed imports, and the house's format."""
    ruff = [str(Path(sys.executable).with_name("ruff"))]
    options = ["--quiet", "--stdin-filename", str(path), "-"]
    for command in (["check", "--fix-only", "--select", "F401,I,UP,RUF100", *options], ["format", *options]):
        done = subprocess.run([*ruff, *command], input=text, capture_output=True, text=True, check=True, cwd=ROOT)
        text = done.stdout
    return text


def main() -> None:
    made = pages()
    if "--check" in sys.argv:
        stale = [path.name for path, text in made.items() if not path.exists() or path.read_text() != text]
        sys.exit(f"the synchronous client is out of date ({', '.join(stale)}): run `make docs`" if stale else 0)
    SYNC.mkdir(exist_ok=True)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
