"""Values cross every boundary as JSON text. This is where they become text and come back."""

from __future__ import annotations

import json
import uuid
from typing import Any

import msgspec


def dump(value: object) -> str:
    """Any JSON value as text (generator style)."""
    return json.dumps(value)


def dump_typed(value: object) -> str:
    """As `dump`, but text is passed through unquoted, so that "21" arrives as a number."""
    return value if isinstance(value, str) else json.dumps(value)


def load(text: str | None) -> Any:
    """The JSON value, or the text itself when it is not JSON."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def encode(value: object) -> str:
    """Structs, dataclasses, datetimes, UUIDs and all JSON values as text (async style)."""
    return msgspec.json.encode(value).decode()


def decode(text: str, kind: Any) -> Any:
    """The value of the given type; raises `msgspec.ValidationError` naming what does not fit."""
    return msgspec.json.decode(text, type=kind)


def trace_uuid(trace_id: str | None) -> str | None:
    """A trace id as queues keep it: itself when it is a UUID, else one that is always the same for the text."""
    if trace_id is None:
        return None
    try:
        return str(uuid.UUID(trace_id))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, trace_id))


def encode_arguments(arguments: tuple[object, ...]) -> str:
    """No argument is null, one is itself, several are an array."""
    if not arguments:
        return "null"
    return encode(arguments[0] if len(arguments) == 1 else arguments)


def decode_arguments(text: str, kinds: tuple[Any, ...], defaults: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    """Inverse of `encode_arguments` for parameters of the given types.

    `defaults` belong to the last parameters: text stored before those were added is completed with them. One
    argument and an array of several are told apart by the types, several first.
    """
    required = len(kinds) - len(defaults)
    if not kinds or (text == "null" and required == 0):
        return defaults
    if len(kinds) == 1:
        return (decode(text, kinds[0]),)
    try:
        return _several(text, kinds, defaults, required)
    except msgspec.ValidationError:
        if required > 1:
            raise
        return (decode(text, kinds[0]), *defaults[1 - required :])


def _several(text: str, kinds: tuple[Any, ...], defaults: tuple[Any, ...], required: int) -> tuple[Any, ...]:
    given: list[msgspec.Raw] = msgspec.json.decode(text, type=list[msgspec.Raw])
    if not max(required, 2) <= len(given) <= len(kinds):
        raise msgspec.ValidationError(f"Expected `array` of {required} to {len(kinds)} arguments, got {len(given)}")
    decoded: tuple[Any, ...] = msgspec.json.decode(text, type=tuple[kinds[: len(given)]])  # type: ignore[misc]
    return (*decoded, *defaults[len(given) - required :])
