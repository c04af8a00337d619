from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

import queen
from tests.support.wait import wait_for

TASKS = """
import os, time
from pathlib import Path
import queen

app = queen.App()
log = Path("log.txt")


@app.task(queue="work")
def note(number: int, seconds: float = 0) -> None:
    with log.open("a") as file:
        file.write(f"begin {number} {os.getpid()}\\n")
    time.sleep(seconds)
    with log.open("a") as file:
        file.write(f"end {number} {os.getpid()}\\n")


@app.task(queue="other")
async def other() -> None: ...
"""


@contextmanager
def running(directory: Path, database: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "QUEEN_URL": database, "PYTHONDONTWRITEBYTECODE": "1"}
    with (directory / "errors.txt").open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "queen", "worker", *arguments], cwd=directory, env=environment, stderr=errors
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            below = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait(30)
            for child in below:
                with suppress(psutil.NoSuchProcess):
                    child.kill()


def told(directory: Path) -> list[str]:
    log = directory / "log.txt"
    return log.read_text().splitlines() if log.exists() else []


def errors(directory: Path) -> str:
    return (directory / "errors.txt").read_text()


def health(directory: Path) -> tuple[int, dict[str, Any]]:
    found = re.search(r"http://\S+/health", errors(directory))
    if found is None:
        return 0, {}
    answer = httpx2.get(found[0], timeout=10)
    return answer.status_code, answer.json()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(TASKS)
    return tmp_path


def test_it_works_tells_its_health_restarts_and_stops_in_order(database: str, place: Path) -> None:
    with queen.connect_sync(database) as q:
        for number in range(20):
            q.push("work", {"task": "note", "args": {"number": number}}, partition=f"p{number}")
        with running(place, database, "shop:app", "--queues", "work", "--processes", "2", "--health", "0") as process:
            wait_for(lambda: len(told(place)) == 40, limit=60)
            wait_for(lambda: health(place)[0] == 200 and health(place)[1]["queues"]["work"]["handled"] == 20, limit=30)
            pids = health(place)[1]["processes"]
            assert len(set(pids)) == 2
            os.kill(pids[0], signal.SIGKILL)
            wait_for(lambda: health(place)[0] == 200 and pids[0] not in health(place)[1]["processes"], limit=60)
            q.push("work", {"task": "note", "args": {"number": 99, "seconds": 1}})
            wait_for(lambda: any(line.startswith("begin 99") for line in told(place)))
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            assert any(line.startswith("end 99") for line in told(place))
        assert q.pop("work") == []
        assert "ended with -9" in errors(place)


def test_workers_end_when_what_started_them_is_killed(database: str, place: Path) -> None:
    with running(place, database, "shop:app", "--health", "0") as process:
        wait_for(lambda: health(place)[0] == 200, limit=60)
        (child,) = psutil.Process(process.pid).children()
        process.kill()
        process.wait(30)
        child.wait(30)


def test_a_change_of_the_code_is_taken_up(database: str, place: Path) -> None:
    with queen.connect_sync(database) as q, running(place, database, "shop", "--reload", "--health", "0"):
        wait_for(lambda: health(place)[0] == 200, limit=60)
        (place / "shop.py").write_text("this is no Python")
        wait_for(lambda: "it starts again after a change" in errors(place), limit=30)
        (place / "shop.py").write_text(TASKS.replace("begin {number}", "started {number}"))
        q.push("work", {"task": "note", "args": {"number": 1}})
        wait_for(lambda: any(line.startswith("started 1") for line in told(place)), limit=60)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["shop:ap"], "shop:ap is no queen.App; did you mean shop:app?"),
        (["shp:app"], "there is no module shp here"),
        (["shop:app", "--queues", "wrk"], "did you mean work?"),
        (["shop:app", "--health", "x"], "must be a port"),
    ],
)
def test_what_cannot_run_is_told_at_once(database: str, place: Path, arguments: list[str], text: str) -> None:
    environment = {**os.environ, "QUEEN_URL": database}
    command = [sys.executable, "-m", "queen", "worker", *arguments]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_task_prints_is_seen(database: str, place: Path) -> None:
    (place / "shop.py").write_text(
        TASKS.replace("    time.sleep(seconds)\n", "    print('hello', number, flush=True)\n")
    )
    environment = {**os.environ, "QUEEN_URL": database}
    command = [sys.executable, "-m", "queen", "worker", "shop:app"]
    with queen.connect_sync(database) as q:
        q.push("work", {"task": "note", "args": {"number": 1}})
        with subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"hello 1\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
