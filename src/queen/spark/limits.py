"""How long a statement may take, and lengths of time as people write them."""

from __future__ import annotations

import os
import re
from typing import Final

from queen.spark.errors import SparkError

SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
STATEMENT_LIMIT: Final = 600.0
LIMIT_VARIABLE: Final = "QUEEN_SPARK_STATEMENT_TIMEOUT"


def seconds(text: str) -> float | None:
    """A length of time like 500ms, 30s, 15m; None when it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)", text.strip())
    return float(match[1]) * SECONDS[match[2]] if match else None


def statement_limit() -> float:
    """How long a statement may take unless an option says so: as the environment of this process says, or 600 s."""
    text = os.environ.get(LIMIT_VARIABLE)
    if not text:
        return STATEMENT_LIMIT
    found = seconds(text)
    if not found:
        raise SparkError("INVALID_OPTION", f"{LIMIT_VARIABLE} must be a time like 30s, 15m or 1h, not {text!r}")
    return found
