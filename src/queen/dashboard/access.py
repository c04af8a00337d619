"""Who looks at a page, what they may do, and that a change was asked for by one of our own pages."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from queen import errors
from queen.server.auth import Identity, NotAllowed, NotAuthenticated, Permission
from queen.server.request import Request
from queen.server.routing import RANKS, Role

COOKIE: Final = "queen_token"
HEADER: Final = b"x-queen-dashboard"
_ALL: Final = Identity(role="admin")


class NotOurPage(errors.RequestError):
    """A change that none of our own pages has asked for."""

    code = "NOT_OUR_PAGE"
    status = 403


def token_of(request: Request) -> bytes | None:
    """The token a request brings: in its header, or in the cookie that the login sets."""
    given = request.headers.get(b"authorization")
    if given:
        return given
    cookie: SimpleCookie = SimpleCookie()
    try:
        cookie.load(request.headers.get(b"cookie", b"").decode("latin-1"))
    except CookieError:
        return None
    return f"Bearer {cookie[COOKIE].value}".encode("latin-1") if COOKIE in cookie else None


async def identify(request: Request) -> Identity:
    """The caller; everyone may do everything on a broker that asks for no tokens. Raises NotAuthenticated."""
    auth = request.broker.auth
    if not auth.enabled:
        return _ALL
    identity = await auth.identify(token_of(request))
    if identity.queues is None and RANKS[identity.role] < RANKS["read"]:
        raise NotAuthenticated("the token has no role: read-only, read-write or admin")
    return identity


def may(identity: Identity, role: Role, permission: Permission, queue: str | None) -> bool:
    """Tell whether the caller may do something: to one queue, or (None) to what is about more than one."""
    if identity.queues is None:
        return RANKS[identity.role] >= RANKS[role]
    return queue is not None and identity.may(permission, queue)


def require(identity: Identity, role: Role, permission: Permission, queue: str | None) -> None:
    """Raise NotAllowed unless the caller may do that."""
    if not may(identity, role, permission, queue):
        needed = f"the role {_ROLE_NAMES[role]}" if identity.queues is None else f"{permission} on queue {queue!r}"
        raise NotAllowed(f"your token does not allow this: it needs {needed}")


def require_own_page(request: Request) -> None:
    """Refuse a change that another site's page may have sent: it lacks our header, or names another origin."""
    headers = request.headers
    if HEADER not in headers:
        raise NotOurPage("the request lacks the header X-Queen-Dashboard, which our own pages send")
    if headers.get(b"sec-fetch-site", b"same-origin") != b"same-origin":
        raise NotOurPage("the request comes from a page of another origin")
    origin = headers.get(b"origin")
    own = {headers.get(name, b"").lower() for name in (b"host", b"x-forwarded-host")}
    if origin is not None and urlsplit(origin.lower()).netloc not in own:
        raise NotOurPage("the request comes from a page of another origin")


_ROLE_NAMES: Final = {"public": "none", "read": "read-only", "write": "read-write", "admin": "admin"}
