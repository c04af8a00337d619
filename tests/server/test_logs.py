"""Logs of several processes in one file: a line is one event, whole."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

WRITER = """
import sys
import structlog
from queen.config import Settings
from queen.server.logs import set_up

set_up(Settings(log_format="json"))
log = structlog.get_logger("writer")
for number in range(1_000):
    log.info("wrote", writer=sys.argv[1], number=number)
"""


def test_processes_do_not_write_into_each_others_lines(tmp_path: Path) -> None:
    path = tmp_path / "queen.log"
    with path.open("wb") as output:
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, str(number)], cwd=tmp_path, stderr=output)
            for number in range(4)
        ]
        assert [writer.wait(60) for writer in writers] == [0] * 4
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert Counter(event["writer"] for event in events) == dict.fromkeys("0123", 1_000)
