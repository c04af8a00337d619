"""What a database looks like, as text that can be compared."""

from __future__ import annotations

import re
import subprocess

from queen.db.embedded import binaries
from tests.support.postgres import MAJOR


def describe(dsn: str) -> str:
    """The whole schema as pg_dump writes it, without the parts that differ from dump to dump."""
    command = [str(binaries(MAJOR) / "pg_dump"), "--schema-only", "--no-owner", "--dbname", dsn]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.sub(r"(?m)^\\(un)?restrict .*$", "", text)
