"""Errors only a client can meet; all others are those of `queen.errors`, over HTTP as on the database.

```
QueenError
├─ RequestError
│  ├─ DecodeError          PAYLOAD_MISMATCH     the payload does not fit the type asked for
│  ├─ NotAuthenticated     NOT_AUTHENTICATED    401
│  ├─ NotAllowed           NOT_ALLOWED          403
│  └─ PayloadTooLarge      PAYLOAD_TOO_LARGE    413
├─ TaskFailed              TASK_FAILED          the task whose result was asked for is a dead letter
└─ TransportError          TRANSPORT            no broker could be reached, or none answered in time
   └─ AnswerLost           ANSWER_LOST          sent, but whether it was carried out is not known
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from queen.engine.transaction import RolledBack
from queen.errors import Backpressure, InternalError, InvalidRequest, QueenError, RequestError
from queen.model import Acked

__all__ = [
    "AnswerLost", "DecodeError", "NotAllowed", "NotAuthenticated", "PayloadTooLarge", "RolledBack", "TaskFailed",
    "TransportError", "forked", "from_answer",
]  # fmt: skip


class DecodeError(RequestError):
    """The payload of a message does not fit the type asked for, or cannot be read at all."""

    code = "PAYLOAD_MISMATCH"


class NotAuthenticated(RequestError):
    """The broker wants a token, or does not accept this one."""

    code = "NOT_AUTHENTICATED"
    status = 401


class NotAllowed(RequestError):
    """The token's role does not allow this."""

    code = "NOT_ALLOWED"
    status = 403


class PayloadTooLarge(RequestError):
    """The request is larger than the broker takes."""

    code = "PAYLOAD_TOO_LARGE"
    status = 413


class TaskFailed(QueenError):
    """The task whose result was asked for has failed for good; the message is its error with the traceback."""

    code = "TASK_FAILED"


class TransportError(QueenError):
    """No broker could be reached, or the answer did not come or was not one of Queen's."""

    code = "TRANSPORT"
    status = 503
    retryable = True


class AnswerLost(TransportError):
    """The request was sent and its answer did not come: it may or may not have been carried out."""

    code = "ANSWER_LOST"


def forked(opened_in: int) -> InternalError:
    """The error of a client that was opened before a fork: its connections belong to the parent."""
    return InternalError(
        f"this client was opened in process {opened_in}, and this is a fork of it: connections cannot be shared, "
        "so connect after the fork, once in each process"
    )


BY_STATUS: Final[Mapping[int, type[QueenError]]] = {
    401: NotAuthenticated,
    403: NotAllowed,
    413: PayloadTooLarge,
    429: Backpressure,
}


def from_answer(status: int, text: str, code: str | None, figures: Mapping[str, Any]) -> QueenError:
    """The error that an answer of the broker stands for."""
    if code is not None and code.startswith("INVALID_"):
        return InvalidRequest(code.removeprefix("INVALID_").lower(), text)
    if code == RolledBack.code:
        return RolledBack(text, Acked(verdict="lost" if "lease" in text.lower() else "unknown"), -1)
    known = {kind.code: kind for kind in _kinds(QueenError) if "code" in vars(kind)}
    fallback = RequestError if 400 <= status < 500 else InternalError
    kind = known.get(code or "") or BY_STATUS.get(status, fallback)
    error = kind(text, figures=figures)
    if code is not None:
        error.code = code
    return error


def _kinds(kind: type[QueenError]) -> Iterator[type[QueenError]]:
    for below in kind.__subclasses__():
        if below.__init__ is QueenError.__init__:
            yield below
        yield from _kinds(below)
