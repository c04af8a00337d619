"""From an empty directory to a worker with a periodic task, a retry and a dead letter that is redriven."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.support.tree import ROOT
from tests.support.wait import wait_for

PAGE = ROOT / "docs" / "howto" / "app.md"
MOST_LINES = 25
MOST_SECONDS = 120


def written_by_a_newcomer() -> str:
    """The first program of the page: what somebody types who has just installed Queen."""
    return PAGE.read_text().partition("```python\n")[2].partition("```")[0]


def test_a_newcomer_needs_few_lines_and_little_time(scratch: Path) -> None:
    began = time.monotonic()
    program = written_by_a_newcomer()
    lines = [line for line in program.splitlines() if line.strip() and not line.strip().startswith(("#", '"""'))]
    assert len(lines) <= MOST_LINES
    directory = scratch / "new"
    directory.mkdir()
    (directory / "shop.py").write_text(program)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("QUEEN_")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    def shell(command: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", command], cwd=directory, env=environment, capture_output=True, text=True, check=False,
            timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    out = directory / "out.txt"
    with out.open("w") as log:
        worker = subprocess.Popen(
            ["queen", "worker", "shop:app"], cwd=directory, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        shell("python shop.py")
        wait_for(lambda: "mail to ada" in out.read_text(), limit=60)
        wait_for(lambda: out.read_text().count("swept") >= 2, limit=60)
        wait_for(lambda: "dead letter now" in out.read_text(), limit=60)
        assert "attempt 1" in out.read_text()
        assert "no address" in shell("queen dlq ls")
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
        fixed = program.replace('raise ValueError("no address")', 'to = "somebody"')
        assert fixed != program
        (directory / "shop.py").write_text(fixed)
        with out.open("a") as log:
            worker = subprocess.Popen(
                ["queen", "worker", "shop:app"], cwd=directory, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        shell("queen dlq redrive --queue mail --yes")
        wait_for(lambda: "mail to somebody" in out.read_text(), limit=60)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        if worker.poll() is None:
            below = psutil.Process(worker.pid).children(recursive=True)
            worker.kill()
            worker.wait(30)
            for child in below:
                child.kill()
    assert time.monotonic() - began < MOST_SECONDS
