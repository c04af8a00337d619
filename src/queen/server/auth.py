"""Who calls, and what they may do."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from queen import errors
from queen.server.routing import Role


class NotAuthenticated(errors.RequestError):
    """No token, or one that does not count."""

    code = "NOT_AUTHENTICATED"
    status = 401


class NotAllowed(errors.RequestError):
    """The token is good, but its role is not enough."""

    code = "NOT_ALLOWED"
    status = 403


class Identity(Struct, frozen=True):
    """The caller of a request: the token's subject and what it may do."""

    subject: str | None = None
    role: Role = "public"


NOBODY: Final = Identity()
