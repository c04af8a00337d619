"""What goes over the wire: JSON structs in camelCase, times, answers and the error envelope.

Payloads are never decoded: they come in as `msgspec.Raw`, pass through as JSON text, and go out as
`msgspec.Raw` inside the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from queen import errors
from queen.ids import to_wire

T = TypeVar("T")
JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"
HTML: Final = b"text/html; charset=utf-8"
Undelivered = Callable[[], Coroutine[Any, Any, None]]
_ENCODER: Final = msgspec.json.Encoder()


class Wire(Struct, rename="camel"):
    """The base of everything we send or receive as a JSON object."""


class Refusal(Wire, omit_defaults=True):
    """Every error, on every route."""

    error: str
    code: str = ""
    retryable: bool | None = None
    details: dict[str, Any] | None = None


class Response(Struct, frozen=True):
    """An answer: status, body, and headers beyond the usual ones; and what to do when the caller is gone already."""

    status: int = 200
    body: bytes = b""
    media: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    undelivered: Undelivered | None = None


NOTHING: Final = Response(204)


def encode(value: Any) -> bytes:
    """A value as JSON; UUIDs, structs and `Raw` are fine."""
    return _ENCODER.encode(value)


def answer(value: Any, status: int = 200) -> Response:
    """An answer with a value as its JSON body."""
    return Response(status, _ENCODER.encode(value))


def refuse(error: errors.QueenError) -> Response:
    """The answer that tells an error."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if error.retryable:
        headers = ((b"retry-after", b"1"),)
    allowed = getattr(error, "allowed", None)
    if allowed:
        headers = ((b"allow", allowed.encode()),)
    envelope = Refusal(
        error=error.message, code=error.code, retryable=error.retryable, details=dict(error.figures) or None
    )
    return Response(error.status, _ENCODER.encode(envelope), headers=headers)


def micros(time: datetime) -> str:
    """A time of the database, which is UTC, with microseconds, as pop gives it."""
    return f"{time.isoformat(timespec='microseconds')[:26]}Z"


def millis(time: datetime) -> str:
    """A time with milliseconds, as everything else gives it."""
    return f"{time.astimezone(UTC).isoformat(timespec='milliseconds')[:23]}Z"


def millis_or_none(time: datetime | None) -> str | None:
    """The same, and null for nothing."""
    return None if time is None else millis(time)


@lru_cache(maxsize=65_536)
def partition_id(number: int) -> str:
    """The id of a partition on the wire."""
    return to_wire("partition", number)


def quoted(text: str) -> str:
    """Text as a JSON string, for bodies that are written by hand."""
    return encode_basestring(text)


def raw(payload: str) -> Raw:
    """JSON text as a part of an answer, as it is."""
    return Raw(payload.encode())


def text(payload: Raw) -> str:
    """The JSON text of a part of a request, as it is."""
    try:
        return bytes(payload).decode()
    except UnicodeDecodeError:
        raise errors.InvalidRequest("payload", "payload must be UTF-8") from None


def time_of(field: str, value: str) -> datetime:
    """A time from ISO text; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise errors.InvalidRequest(field, f"{field} must be an ISO 8601 time such as 2026-11-15T04:00:00Z") from None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise errors.InvalidRequest(field, f"{field} is out of range") from None


class Decoder:
    """Decodes request bodies into one type, with error texts that name the field.

    `texts` gives the exact words for a field of the wrong type: {"queue": "Queue must be a string"}.
    """

    def __init__(self, kind: type[T], texts: Mapping[str, str] | None = None) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._texts = texts or {}

    def __call__(self, body: bytes) -> Any:
        """The decoded body; an empty one counts as `{}`."""
        try:
            if not body.isascii():
                # The decoder does not look into what it skips: unknown fields and payloads.
                body.decode()
            return self._decoder.decode(body or b"{}")
        except msgspec.ValidationError as error:
            raise self._explain(str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise errors.InvalidRequest("body", f"the body is not valid JSON: {error}") from None
        except RecursionError:
            raise errors.InvalidRequest("body", "the body is nested too deeply") from None

    def _explain(self, message: str) -> errors.InvalidRequest:
        what, _, place = message.partition(" - at ")
        field = place.strip("`").rpartition(".")[2].partition("[")[0].lstrip("$")
        if what.startswith("Object missing required field"):
            field = what.split("`")[1]
        if field in self._texts:
            return errors.InvalidRequest(_snake(field), self._texts[field])
        return errors.InvalidRequest(_snake(field) or "body", f"{what} at {place.strip('`') or '$'}")


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
