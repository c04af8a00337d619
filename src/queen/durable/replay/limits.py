"""Limits of what one instance may keep. Breaking one fails the instance at the end of the turn."""

from __future__ import annotations

MAX_CUSTOM_STATUS_BYTES = 262_144
MAX_TAG_NAME_BYTES = 256
MAX_KV_VALUE_BYTES = 65_536
MAX_KV_KEYS = 150
MAX_ATTRIBUTES = 50
MAX_ATTRIBUTE_BYTES = 1_024
MAX_ROUNDS = 10_000


def custom_status_breach(value: str) -> str | None:
    """What is wrong with a custom status, if anything."""
    return _breach("Custom status size", value, MAX_CUSTOM_STATUS_BYTES)


def tag_breach(activity: str, tag: str) -> str | None:
    """What is wrong with an activity's tag, if anything."""
    return _breach(f"Activity '{activity}' tag size", tag, MAX_TAG_NAME_BYTES)


def kv_breach(key: str, value: str, count: int) -> str | None:
    """What is wrong with setting a key when the instance then has `count` keys, if anything."""
    if count > MAX_KV_KEYS:
        return f"KV key count ({count}) exceeds limit ({MAX_KV_KEYS})"
    return _breach(f"KV value for key '{key}'", value, MAX_KV_VALUE_BYTES)


def attribute_breach(name: str, value: str, count: int) -> str | None:
    """What is wrong with setting an attribute when the instance then has `count` of them, if anything."""
    if count > MAX_ATTRIBUTES:
        return f"attribute count ({count}) exceeds limit ({MAX_ATTRIBUTES})"
    return _breach(f"attribute '{name}'", value, MAX_ATTRIBUTE_BYTES)


def _breach(what: str, text: str, limit: int) -> str | None:
    size = len(text) if text.isascii() else len(text.encode())
    return f"{what} ({size} bytes) exceeds limit ({limit} bytes)" if size > limit else None
