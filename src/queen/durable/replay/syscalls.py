"""Built-in activities: values that differ from run to run, recorded in history like any activity's result."""

from __future__ import annotations

from collections.abc import Callable

PREFIX = "__duroxide_syscall:"
UTC_NOW = PREFIX + "utc_now_ms"
NEW_GUID = PREFIX + "new_guid"
GET_KV_VALUE = PREFIX + "get_kv_value"
TAKE_PLACE = PREFIX + "take_place"
ANSWERED_IN_TURN = frozenset({UTC_NOW, NEW_GUID})


def answer(name: str, now_ms: int, new_guid: Callable[[], str]) -> str:
    """The result of a built-in that needs no worker, as JSON text."""
    return str(now_ms) if name == UTC_NOW else f'"{new_guid()}"'
