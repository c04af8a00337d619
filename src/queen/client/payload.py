"""Payloads: any JSON-able value, msgspec struct, dataclass or pydantic model to JSON text, and back to a type."""

from __future__ import annotations

from functools import lru_cache
from math import isfinite
from typing import Any, Final

import msgspec

from queen.client.errors import DecodeError
from queen.errors import InvalidRequest


def _encode_other(value: object) -> object:
    dump = getattr(value, "model_dump_json", None)
    if dump is None:
        raise NotImplementedError(
            f"{type(value).__name__} is no JSON value: use plain values, a dataclass, msgspec.Struct or pydantic model"
        )
    return msgspec.Raw(dump(by_alias=True).encode())


def _decode_other(kind: type, value: object) -> object:
    validate = getattr(kind, "model_validate", None)
    if validate is None:
        return kind(value)
    return validate(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_encode_other)


def encode(data: object) -> str:
    """The JSON text of a payload; raises InvalidRequest for what has none."""
    try:
        text = _ENCODER.encode(data)
        if b"null" in text:
            _refuse_nan(msgspec.to_builtins(data, enc_hook=_builtin), "")
        return text.decode()
    except (NotImplementedError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidRequest("payload", f"payload cannot be written as JSON: {error}") from error


def _builtin(value: object) -> object:
    encoded: Any = _encode_other(value)
    return msgspec.json.decode(encoded)


def _refuse_nan(value: Any, place: str) -> None:
    """A number that JSON has no word for would arrive as null."""
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"{value} is no JSON number{f', at {place[1:]}' if place else ''}; use None, or a text")
    if isinstance(value, dict):
        for name, part in value.items():
            _refuse_nan(part, f"{place}.{name}")
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            _refuse_nan(part, f"{place}.{number}")


@lru_cache(maxsize=256)
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(Any if kind is object else kind, dec_hook=_decode_other)


def decode(payload: str, kind: Any) -> Any:
    """The value behind JSON text as `kind`; raises DecodeError that says where it does not fit."""
    try:
        return _decoder(kind).decode(payload)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        name = getattr(kind, "__name__", None) or str(kind)
        raise DecodeError(f"the payload does not fit {name}: {error}") from error
