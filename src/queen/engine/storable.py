"""What a payload must not be, checked before it is stored: nobody listens any more when it is read."""

from __future__ import annotations

import re
from typing import Final

from queen.errors import InvalidRequest

# Beyond what any float can say; PostgreSQL writes such numbers out digit by digit, each time they are read.
MAX_EXPONENT: Final = 400
MAX_DEPTH: Final = 512
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_EXPONENT: Final = re.compile(r"[0-9][eE][+-]?([0-9]{3,})")
_BRACKET: Final = re.compile(r"[\[\]{}]")


def require_storable(payload: str) -> None:
    """Raise InvalidRequest for JSON text that PostgreSQL would refuse, or take much more room for than it has here.

    What most payloads are is seen at a glance; only the others are looked at without their strings.
    """
    if "\\u0000" in payload and "\\u0000" in payload.replace("\\\\", ""):
        raise InvalidRequest("payload", "payload must not contain \\u0000")
    deep = payload.count("[") + payload.count("{") > MAX_DEPTH
    if not deep and _EXPONENT.search(payload) is None:
        return
    bare = _STRING.sub("", payload)
    if any(int(digits[:18]) > MAX_EXPONENT for digits in _EXPONENT.findall(bare)):
        raise InvalidRequest("payload", f"payload has a number with an exponent above {MAX_EXPONENT}")
    if deep and _depth(bare) > MAX_DEPTH:
        raise InvalidRequest("payload", f"payload is nested more than {MAX_DEPTH} levels deep")


def _depth(bare: str) -> int:
    deepest = depth = 0
    for bracket in _BRACKET.findall(bare):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest
