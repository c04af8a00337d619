"""An address of a database that can never work is refused at the start; one where nobody answers yet is waited for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from queen.db.embedded import EmbeddedServer
from tests.server.running import Process
from tests.support.ports import free_port


def refusal(address: str, tmp_path: Path, *options: str) -> str:
    """What `queen serve` says when it refuses an address."""
    port = str(free_port())
    ended = subprocess.run(
        [sys.executable, "-m", "queen", "serve", "--port", port, *options],
        env={**os.environ, "QUEEN_DATABASE_URL": address, "QUEEN_DATA_DIR": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr


@pytest.mark.parametrize("options", [(), ("--workers", "2")])
def test_an_address_that_is_none(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert "must start with postgresql://" in refusal("mysql://localhost/queen", tmp_path, *options)


def test_a_wrong_password_or_database(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "strict", port=free_port()) as server:
        right = server.tcp_dsn()
        head, _, place = right.partition("@")
        user = head.rpartition(":")[0]
        said = refusal(f"{user}:wrong-secret@{place}", tmp_path)
        assert "database_url cannot be used: PostgreSQL does not let us in: password authentication failed" in said
        assert "wrong-secret" not in said
        assert "does not exist" in refusal(right.rpartition("/")[0] + "/nowhere", tmp_path)


def test_nobody_there_yet_is_waited_for(tmp_path: Path) -> None:
    broker = Process(f"postgresql://queen@127.0.0.1:{free_port()}/queen", tmp_path)
    broker.start(ready=False)
    try:
        assert broker.answers("/health/live")
        assert not broker.answers("/health")
    finally:
        broker.kill()
