"""README, quickstart, how-tos and examples, one after the other, in one directory, against one broker, as printed.

Only the port is another one. What installs something is compared with what the clone has instead of being run. What
runs until it is stopped is begun, goes on to the end of its page, and is stopped there.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

import queen
from tests.support.ports import free_port
from tests.support.programs import find_program
from tests.support.tree import ROOT
from tests.support.wait import wait_for

HOWTO = ROOT / "docs" / "howto"
ORDER = ("app", "push", "consume", "groups", "dead-letters", "transactions", "testing")
PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md", *(HOWTO / f"{name}.md" for name in ORDER)]
EXAMPLES = sorted((ROOT / "examples").glob("[0-3][0-9]_*.py"))
BLOCK = re.compile(r"```(sh|python|sql|text)\n(.*?)```\n", re.DOTALL)
NAMED = re.compile(r'"""(\w+\.py)"""\n')
PRINTED_PORT = "6632"
BROKER = ("make run", "queen serve")
ENDLESS = ("queen tail", "queen worker")
INSTALLING = re.compile(r"make venv|\. \.venv/bin/activate|pip install .*")
SPARK = "pip install -c constraints.txt -e '.[spark]'"

# What stands around the fragments of a page, in their order; the page itself says in words what it needs.
ON_ASYNCPG = """
import asyncio, asyncpg, queen
number = 7

async def main():
    connection = await asyncpg.connect({url!r})
    async with queen.connect({url!r}) as q:
{indented}
        assert [message.data for message in await q.pop("invoices", partition="acme")] == [{{"id": 7}}]

asyncio.run(main())
"""
ON_DJANGO = """
import django, queen
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

at = conninfo_to_dict({url!r})
settings.configure(DATABASES={{"default": {{
    "ENGINE": "django.db.backends.postgresql", "NAME": at["dbname"], "USER": at["user"], "HOST": at["host"],
    "PORT": at.get("port", ""),
}}}}, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
django.setup()
from django.db import connection, models, transaction

class Invoice(models.Model):
    class Meta:
        app_label = "shop"

with connection.schema_editor() as editor:
    editor.create_model(Invoice)
invoice = Invoice()
with queen.connect_sync({url!r}) as q:
    q.groups.seek("invoices", to="end")
{fragment_in_with}
    assert [message.data for message in q.pop("invoices", partition="acme")] == [{{"id": invoice.id}}]
"""
PUSHES = """
import asyncio, asyncpg
from shop import app, send

async def main():
    connection = await asyncpg.connect({url!r})
    async with app, connection.transaction():
{indented}

asyncio.run(main())
"""
HOOKS = """
from shop import app
{fragment}
assert [len(hooks) for hooks in (app.hooks.before, app.hooks.after, app.hooks.on_dead_letter)] == [1, 1, 1]
"""
AROUND = {"app": [PUSHES, HOOKS], "transactions": [ON_ASYNCPG, ON_DJANGO]}


class Place:
    """The directory somebody works in, with the clone's files in it and a broker that runs there."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        (directory / "examples").symlink_to(ROOT / "examples")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("QUEEN_")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "QUEEN_PORT": str(port),
        }

    def run(self, *command: str, text: str | None = None, **variables: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.directory,
            env={**self.environment, **variables},
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def printed(self, text: str) -> str:
        return text.replace(PRINTED_PORT, str(self.port))

    def python(self, code: str) -> str:
        (self.directory / "page.py").write_text(self.printed(code))
        return self.run("python", "-W", "error", "page.py")

    def shell(self, block: str) -> str:
        """The lines of a block in one shell, and what they print; what never ends is begun beside it."""
        lines = [
            line for line in self.printed(block).splitlines() if not INSTALLING.match(line) and not _is(line, BROKER)
        ]
        for line in [line for line in lines if _is(line, ENDLESS)]:
            self._begin(line)
        rest = [line for line in lines if not _is(line, ENDLESS)]
        if any(line.startswith("queen dlq") for line in rest):
            wait_for(lambda: "no address" in self.run("queen", "dlq", "ls", "--queue", "mail"), limit=60, pause=0.2)
        return self.run("sh", "-ec", "\n".join(rest)) if rest else ""

    def _begin(self, line: str) -> None:
        words = shlex.split(line, comments=True)
        with (self.directory / f"{words[1]}.log").open("wb") as log:
            self._running[words[1]] = subprocess.Popen(
                words, cwd=self.directory, env=self.environment, stdout=log, stderr=log
            )

    def end_page(self, name: str) -> None:
        """What the page began still runs, has done what the page says, and ends when it is told to."""
        for program, process in self._running.items():
            wait_for(lambda program=program: BEGUN[program](self), limit=60, pause=0.2)  # type: ignore[misc]
            log = (self.directory / f"{program}.log").read_text()
            assert process.poll() is None, f"{name}: {log}"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, f"{name}: {log}"
        self._running.clear()

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait(30)


def _watched(place: Place) -> bool:
    with queen.connect_sync(f"http://localhost:{place.port}") as q:
        return any(one.group.startswith("tail-") for one in q.groups.list("orders"))


BEGUN: dict[str, Callable[[Place], bool]] = {
    "tail": _watched,
    "worker": lambda place: {"mail to ada", "swept"} <= set((place.directory / "worker.log").read_text().splitlines()),
}


def _is(line: str, programs: tuple[str, ...]) -> bool:
    return line.startswith(programs)


@contextmanager
def broker(place: Place) -> Iterator[None]:
    with (place.directory / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            ["queen", "serve"], cwd=place.directory, env=place.environment, stdout=log, stderr=log
        )

    def answers() -> bool:
        assert process.poll() is None, (place.directory / "broker.log").read_text()
        with suppress(httpx2.HTTPError):
            return httpx2.get(f"http://localhost:{place.port}/health", timeout=5).status_code == 200
        return False

    try:
        wait_for(answers, limit=60, pause=0.1)
        yield
    finally:
        place.kill()
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def blocks(page: Path) -> list[tuple[str, str, str | None]]:
    """The blocks of a page: kind, text, and what a program is to print. Python that prints nothing is a file the page
    names in its first line, or a fragment."""
    found = BLOCK.findall(page.read_text())
    made: list[tuple[str, str, str | None]] = []
    for (kind, text), (kind_after, after) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind == "python" and kind_after == "text":
            made.append(("program", text, after))
        elif kind == "python":
            made.append(("file" if NAMED.match(text) else "fragment", text, None))
        elif kind != "text":
            made.append((kind, text, None))
    return made


def run_page(place: Place, page: Path, url: str) -> int:
    """Every block of a page in its order; returns how many."""
    around = iter(AROUND.get(page.stem, []))
    found = [block for block in blocks(page) if SPARK not in block[1]]
    for kind, text, printed in found:
        if kind == "sh":
            told = place.shell(text)
            assert "curl" not in text or ('"status":"queued"' in told and '"orderId": 123' in told)
        elif kind == "sql":
            assert "INSERT 0 1" in place.run("queen", "psql", "--", "-v", "ON_ERROR_STOP=1", text=text)
        elif kind == "program":
            assert place.python(text) == printed, page.name
        elif kind == "file":
            named = NAMED.match(text)
            assert named is not None
            (place.directory / named[1]).write_text(place.printed(text))
        else:
            indented, within = textwrap.indent(text, " " * 8), textwrap.indent(text, " " * 4)
            place.python(next(around).format(url=url, indented=indented, fragment=text, fragment_in_with=within))
    assert next(around, None) is None
    place.end_page(page.name)
    return len(found)


@pytest.mark.timeout(400)
def test_everything_in_order_as_printed(scratch: Path) -> None:
    find_program("curl")
    place = Place(scratch, free_port())
    with broker(place):
        url = place.run("queen", "url", "--database").strip()
        assert sum(run_page(place, page, url) for page in PAGES) >= 26
        for example in EXAMPLES:
            variables = {"QUEEN_URL": f"http://localhost:{place.port}"}
            if "QUEEN_DATABASE_URL=$(queen url --database)" in example.read_text():
                variables["QUEEN_DATABASE_URL"] = url
            printed = place.run("python", f"examples/{example.name}", **variables)
            expected = ROOT / "examples" / "expected" / f"{example.stem}.txt"
            assert not expected.exists() or printed == expected.read_text()
    assert len(EXAMPLES) >= 14


def test_no_page_is_left_out() -> None:
    assert set(HOWTO.glob("*.md")) <= set(PAGES)
    numbered = set((ROOT / "examples").glob("*.py"))
    assert numbered - set(EXAMPLES) == {ROOT / "examples" / "40_pipeline.py"}, "what needs Spark is run apart"


@pytest.mark.scale
@pytest.mark.timeout(1800)
def test_the_spark_part_of_the_readme(scratch: Path) -> None:
    place = Place(scratch, free_port())
    (block,) = [text for _, text, _ in blocks(ROOT / "README.md") if SPARK in text]
    lines = [line.replace(" --open", "") for line in block.splitlines() if not INSTALLING.match(line)]
    example = (ROOT / "examples" / "40_pipeline.py").read_text().partition('"""')[2].partition('"""')[0]
    lines += [line for line in example.splitlines() if line.startswith("queen ")]
    with subprocess.Popen(
        ["sh", "-ec", "\n".join(lines)],
        cwd=scratch,
        env=place.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            told, errors = running.communicate(timeout=1700)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 0, told[-2000:] + errors[-4000:]
    assert "best_customers" in told
    assert list((scratch / "lake").rglob("*.html"))


def test_every_install_line_works_from_the_clone() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    lines = [
        line
        for page in pages
        for line in re.findall(r"pip install [^\n`#]*", page.read_text())
        if "queen" in line or "'.[" in line
    ]
    assert len(lines) >= 4
    for line in lines:
        found = re.search(r"-e '\.\[([\w,]+)\]'", line)
        assert found is not None, f"no registry has it: {line}"
        assert set(found[1].split(",")) <= set(extras)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"run", "venv", "test"} <= targets
