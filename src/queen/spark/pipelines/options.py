"""Values of pipeline options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from queen.spark.errors import SparkError


def whole(options: Mapping[str, str], name: str, *, least: int = 1) -> int:
    """An option that is a whole number."""
    text = options[name]
    if not text.isdigit() or int(text) < least:
        raise SparkError("INVALID_OPTION", f"option {name!r} must be a whole number from {least} up, not {text!r}")
    return int(text)


def choice(options: Mapping[str, str], name: str, allowed: Sequence[str]) -> str:
    """An option that is one of some words."""
    text = options[name]
    if text not in allowed:
        raise SparkError("INVALID_OPTION", f"option {name!r} must be one of {', '.join(allowed)}, not {text!r}")
    return text
