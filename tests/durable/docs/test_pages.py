"""Every block of every page: Python runs, in order, as one program; commands and calls are ones that exist."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import sys
from dataclasses import fields
from pathlib import Path
from urllib.parse import urlsplit

import click
import pytest

from queen.cli.workflow import command
from queen.durable import WorkerSettings
from queen.server.routes.workflows import (
    DECODE_AGAIN,
    DECODE_CANCEL,
    DECODE_FORK,
    DECODE_RAISE,
    DECODE_RETRY,
    DECODE_START,
    ROUTES,
)

PAGES = sorted((Path(__file__).parents[3] / "docs" / "durable").glob("*.md"))
DECODERS = {
    "start": DECODE_START,
    "raise": DECODE_RAISE,
    "cancel": DECODE_CANCEL,
    "retry": DECODE_RETRY,
    "reset": DECODE_AGAIN,
    "fork": DECODE_FORK,
}


def blocks(page: Path, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def lines() -> list[str]:
    found = [line for page in PAGES for block in blocks(page, "sh") for line in block.splitlines()]
    return [line for line in found if line.strip()]


def test_there_are_pages() -> None:
    assert len(PAGES) >= 5
    assert all(blocks(page) for page in PAGES)
    known = {language for page in PAGES for language in re.findall(r"^```(\w+)$", page.read_text(), re.MULTILINE)}
    assert known == {"python", "sh"}, "a block of another kind would be walked by nobody"


def test_every_setting_is_on_its_page() -> None:
    text = next(page for page in PAGES if page.stem == "limits").read_text()
    assert {each.name for each in fields(WorkerSettings) if f"`{each.name}`" not in text} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
async def test_a_page_runs(page: Path, tmp_path: Path) -> None:
    program = tmp_path / f"{page.stem.replace('-', '_')}.py"
    program.write_text("\n\n".join(blocks(page)))
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error", str(program), stderr=asyncio.subprocess.PIPE
    )
    _, err = await asyncio.wait_for(running.communicate(), 120)
    assert running.returncode == 0, err.decode()


@pytest.mark.parametrize("line", [line for line in lines() if line.startswith("queen ")])
def test_a_command_can_be_given(line: str) -> None:
    words = shlex.split(line, comments=True)
    assert words[:2] == ["queen", "workflow"]
    found = command.commands[words[2]]
    found.make_context(words[2], words[3:], parent=click.Context(command))


@pytest.mark.parametrize("line", [line for line in lines() if line.startswith("curl ")])
def test_a_call_can_be_made(line: str) -> None:
    words = shlex.split(line, comments=True)
    body = words[words.index("-d") + 1] if "-d" in words else None
    method = words[words.index("-X") + 1] if "-X" in words else "GET"
    path = urlsplit(f"http://{next(word for word in words if word.startswith('localhost'))}").path
    route = next(
        each for each in ROUTES if each.method == method and re.fullmatch(re.sub(r":\w+", "[^/]+", each.path), path)
    )
    if body is not None:
        json.loads(body)
        DECODERS[route.path.rpartition("/")[2]](body.encode())


def test_every_line_is_walked() -> None:
    assert all(line.startswith(("queen ", "curl ")) for line in lines()), lines()
