"""README, quickstart, how-tos and examples, one after the other, in one directory, against one broker, as printed.

Only the port is another one. What installs something is compared with what the clone has instead of being run.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from tests.support.ports import free_port
from tests.support.programs import find_program
from tests.support.tree import ROOT
from tests.support.wait import wait_for

HOWTOS = [
    ROOT / "docs" / "howto" / f"{name}.md" for name in ("push", "consume", "groups", "dead-letters", "transactions")
]
PAGES = [ROOT / "README.md", ROOT / "docs" / "quickstart.md", *HOWTOS]
EXAMPLES = sorted((ROOT / "examples").glob("[0-2][0-9]_*.py"))
BLOCK = re.compile(r"```(sh|python|sql|text)\n(.*?)```\n", re.DOTALL)
PRINTED_PORT = "6632"
ENDLESS = ("make run", "queen serve", "queen tail")
INSTALLING = re.compile(r"make venv|\. \.venv/bin/activate|pip install .*")
SPARK = "pip install -c constraints.txt -e '.[spark]'"


class Place:
    """The directory somebody works in, with the clone's files in it and a broker that runs there."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
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
        """The lines of a block in one shell. What never ends is begun, seen alive, and ended."""
        lines = [line for line in self.printed(block).splitlines() if not INSTALLING.match(line)]
        script = [
            f"({line}) & began=$!; sleep 2; kill -0 $began; kill $began" if _endless(line) else line for line in lines
        ]
        return self.run("sh", "-ec", "\n".join(line for line in script if not _is_broker(line)))


def _endless(line: str) -> bool:
    return line.startswith(ENDLESS)


def _is_broker(line: str) -> bool:
    """The one broker runs already."""
    return line.startswith(("(make run", "(queen serve"))


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
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def blocks(page: Path) -> list[tuple[str, str, str | None]]:
    """The runnable blocks of a page: kind, text, and what a program is to print. Fragments of Python are none."""
    found = BLOCK.findall(page.read_text())
    following = [*found[1:], ("", "")]
    return [
        (kind, text, after if kind == "python" else None)
        for (kind, text), (kind_after, after) in zip(found, following, strict=True)
        if kind in ("sh", "sql") or (kind == "python" and kind_after == "text" and "asyncio.run" in text)
    ]


@pytest.mark.timeout(240)
def test_everything_in_order_as_printed(scratch: Path) -> None:
    find_program("curl")
    place = Place(scratch, free_port())
    ran = 0
    with broker(place):
        for page in PAGES:
            for kind, text, printed in blocks(page):
                if SPARK in text:
                    continue
                if kind == "sh":
                    place.shell(text)
                elif kind == "sql":
                    assert "INSERT 0 1" in place.run("queen", "psql", "--", "-v", "ON_ERROR_STOP=1", text=text)
                else:
                    assert place.python(text) == printed, page.name
                ran += 1
        address = place.run("queen", "url", "--database").strip()
        for example in EXAMPLES:
            variables = {"QUEEN_URL": f"http://localhost:{place.port}"}
            if "QUEEN_DATABASE_URL=$(queen url --database)" in example.read_text():
                variables["QUEEN_DATABASE_URL"] = address
            expected = ROOT / "examples" / "expected" / f"{example.stem}.txt"
            assert place.run("python", f"examples/{example.name}", **variables) == expected.read_text()
            ran += 1
    assert ran >= 25


@pytest.mark.scale
def test_the_spark_part_of_the_readme(scratch: Path) -> None:
    place = Place(scratch, free_port())
    (block,) = [text for _, text, _ in blocks(ROOT / "README.md") if SPARK in text]
    lines = [line.replace(" --open", "") for line in block.splitlines() if not INSTALLING.match(line)]
    subprocess.run(["sh", "-ec", "\n".join(lines)], cwd=scratch, env=place.environment, check=True, timeout=900)


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
