"""Every error Queen raises, with a code to branch on.

```
QueenError                          code, status (HTTP), retryable, figures
├─ RequestError                     the caller's to mend; trying again does not help
│  ├─ InvalidRequest                INVALID_<FIELD>          400
│  ├─ EncryptionRequired            ENCRYPTION_REQUIRED      400
│  ├─ EncryptionUnavailable         ENCRYPTION_UNAVAILABLE   400
│  ├─ QueueNotFound                 QUEUE_NOT_FOUND          404
│  ├─ MessageNotFound               MESSAGE_NOT_FOUND        404
│  └─ LeaseLost                     LEASE_LOST               409   the lease moved on; the work may run elsewhere
├─ Backpressure                     wait and try again
│  ├─ QueueFull                     QUEUE_FULL               429   with depth and limit
│  └─ PartitionBusy                 PARTITION_BUSY           503   held by someone's open transaction
├─ TransactionConflict              TRANSACTION_CONFLICT     503   serialisation failure or deadlock, retried in vain
├─ StoreUnavailable                 STORE_UNAVAILABLE        503   no database, or no answer in time
│  └─ SchemaOutdated                SCHEMA_OUTDATED          503   run `queen migrate up`
└─ InternalError                    INTERNAL                 500   a defect of Queen's
```
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class QueenError(Exception):
    """The base of every error Queen raises."""

    code: str = "INTERNAL"
    status: ClassVar[int] = 500
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, figures: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.figures: Mapping[str, Any] = figures or {}


class RequestError(QueenError):
    """The request cannot be carried out as it is; sending it again does not help."""

    status = 400


class InvalidRequest(RequestError):
    """A field of the request is missing or not allowed; the code names it: INVALID_<FIELD>."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message, figures={"field": field})
        self.field = field
        self.code = f"INVALID_{_WORDS.sub('_', field).upper()}"


class EncryptionRequired(RequestError):
    """The queue takes encrypted payloads only, and this one is not."""

    code = "ENCRYPTION_REQUIRED"


class EncryptionUnavailable(RequestError):
    """Encryption was asked for, or is needed to read a message, and no fitting key is configured."""

    code = "ENCRYPTION_UNAVAILABLE"


class QueueNotFound(RequestError):
    """There is no queue of that name."""

    code = "QUEUE_NOT_FOUND"
    status = 404


class MessageNotFound(RequestError):
    """There is no such message in that partition."""

    code = "MESSAGE_NOT_FOUND"
    status = 404


class LeaseLost(RequestError):
    """The lease ended and was given on, or handed back; nothing was changed."""

    code = "LEASE_LOST"
    status = 409


class Backpressure(QueenError):
    """Not now: wait and try again."""

    status = 503
    retryable = True


class QueueFull(Backpressure):
    """The queue is at its limit; nothing of the call was stored."""

    code = "QUEUE_FULL"
    status = 429


class PartitionBusy(Backpressure):
    """Someone's open transaction holds the partition; nothing of the call was done."""

    code = "PARTITION_BUSY"


class TransactionConflict(QueenError):
    """The database refused to serialise this with concurrent work, also after trying again."""

    code = "TRANSACTION_CONFLICT"
    status = 503
    retryable = True


class StoreUnavailable(QueenError):
    """The database cannot be reached, or did not answer in time."""

    code = "STORE_UNAVAILABLE"
    status = 503
    retryable = True


class SchemaOutdated(StoreUnavailable):
    """The database has no schema, or an older one, than this release needs."""

    code = "SCHEMA_OUTDATED"
    retryable = False


class InternalError(QueenError):
    """Something that must not happen did: a defect of Queen's."""
