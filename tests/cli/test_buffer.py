from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from queen import errors
from queen.engine import KeyRing
from queen.ids import uuid7
from queen.model import NewMessage
from queen.server.buffer import Buffer
from tests.cli.conftest import Queen, lines


async def refuse(items: Sequence[NewMessage]) -> None:
    if any(item.payload == "13" for item in items):
        raise errors.QueueFull("no room")


async def fill(directory: Path) -> None:
    """One push that is refused when it is drained, one whose bytes are damaged, one that waits."""
    buffer = Buffer(directory, KeyRing(), refuse)
    for payload in ("12", "13"):
        await buffer.append([NewMessage(queue="mail", payload=payload, id=uuid7())])
    damage(directory, b'"payload":"12"')
    assert await buffer.drain() == 1
    await buffer.append([NewMessage(queue="mail", payload="14", id=uuid7())])
    await buffer.close()


def damage(directory: Path, text: bytes) -> None:
    (path,) = directory.glob("*.records")
    path.write_bytes(path.read_bytes().replace(text, text[::-1]))


@pytest.fixture
def place(tmp_path: Path) -> tuple[str, str]:
    asyncio.run(fill(tmp_path))
    return "--buffer-dir", str(tmp_path)


def test_what_was_set_aside_is_shown_tried_again_and_dropped(queen: Queen, place: tuple[str, str]) -> None:
    damaged, refused = lines(queen("buffer", "ls", *place))
    assert (refused["kind"], refused["reason"], refused["queues"]) == ("refused", "QUEUE_FULL: no room", ["mail"])
    assert (damaged["kind"], damaged["seq"], damaged["messages"]) == ("damaged", 1, 1)
    (status,) = lines(queen("buffer", "status", *place))
    assert (status["pending"], status["failed"], status["healthy"]) == (1, 2, False)
    (shown,) = lines(queen("buffer", "show", refused["id"], *place))
    assert [item["payload"] for item in shown["items"]] == ["13"]
    assert "daolyap" in json.dumps(lines(queen("buffer", "show", damaged["id"], *place)))

    assert queen("buffer", "retry", damaged["id"], *place).exit_code == 4
    assert lines(queen("buffer", "retry", "--all", *place)) == [{"retried": 1}]
    assert queen("buffer", "drop", damaged["id"], *place, text="n\n").exit_code == 4
    assert lines(queen("buffer", "drop", damaged["id"], "--yes", *place)) == [{"dropped": 1}]
    assert lines(queen("buffer", "ls", *place)) == []
    (status,) = lines(queen("buffer", "status", *place))
    assert (status["pending"], status["failed"], status["healthy"]) == (2, 0, True)


def test_wrong_names_are_refused(queen: Queen, place: tuple[str, str], tmp_path: Path) -> None:
    assert queen("buffer", "show", "nothing", *place).exit_code == 3
    assert queen("buffer", "show", "../state", *place).exit_code == 3
    assert queen("buffer", "retry", *place).exit_code == 2
    assert queen("buffer", "status", "--buffer-dir", str(tmp_path / "none")).exit_code == 3
