"""A bucket that speaks S3, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.spark.support.processes import Process
from tests.support.ports import free_port
from tests.support.wait import wait_for

PORT = free_port()
ADDRESS = f"http://127.0.0.1:{PORT}"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
    "AWS_ENDPOINT_URL": ADDRESS,
}
"""How programs find `s3://lake`; Spark's workers have what was set when their session began."""


@contextmanager
def bucket(folder: Path) -> Iterator[None]:
    """Such a bucket, while the block lasts."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(PORT)]
    with Process(command, folder / "moto.log") as server:
        wait_for(lambda: answers() or not server.running, limit=60)
        assert server.running, (folder / "moto.log").read_text()
        urlopen(Request(f"{ADDRESS}/lake", method="PUT"), timeout=20).close()
        yield


def answers() -> bool:
    try:
        urlopen(ADDRESS, timeout=5).close()
    except URLError:
        return False
    return True
