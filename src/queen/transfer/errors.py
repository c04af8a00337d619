"""What a transfer refuses, and what stops it."""

from __future__ import annotations

from typing import ClassVar

from queen.errors import QueenError


class TransferRefused(QueenError):
    """It cannot be done as things are; nothing was changed, and the text says what to do."""

    code = "TRANSFER_REFUSED"
    status: ClassVar[int] = 409


class TransferStopped(QueenError):
    """Something failed on the way; what is done is kept, and the same command goes on from there."""

    code = "TRANSFER_STOPPED"
    status: ClassVar[int] = 500
