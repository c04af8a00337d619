"""Log in with a token, and out."""

from __future__ import annotations

from typing import Final

from queen import errors
from queen.dashboard import access, frame
from queen.server.request import Request
from queen.server.wire import Response

_FLAGS: Final = "; Path=/; HttpOnly; SameSite=Strict"


async def login(request: Request) -> Response:
    """Take a token into a cookie that only this site's pages send, and go on to the page asked for."""
    form = frame.read_form(request)
    token = form.get("token", "").strip()
    try:
        identity = await request.broker.auth.identify(f"Bearer {token}".encode("ascii", "replace"))
        if identity.queues is None:
            access.require(identity, "read", "read", None)
    except errors.RequestError as error:
        return frame.login_page(request, error.message, error.status)
    return _go(_inside(form.get("next", "./")), f"{access.COOKIE}={token}{_FLAGS}{_secure(request)}")


async def logout(request: Request) -> Response:
    """Forget the token."""
    return _go("./", f"{access.COOKIE}=; Max-Age=0{_FLAGS}{_secure(request)}")


def _inside(address: str) -> str:
    """An address of one of our own pages; anything else is the first one."""
    outside = address.startswith(("/", "\\", "login", "logout")) or ":" in address.partition("?")[0]
    return "./" if outside or any(ord(sign) < 33 or ord(sign) > 126 for sign in address) else address


def _secure(request: Request) -> str:
    encrypted = request.settings.tls_certificate or request.headers.get(b"x-forwarded-proto") == b"https"
    return "; Secure" if encrypted else ""


def _go(address: str, cookie: str) -> Response:
    return Response(
        303, headers=((b"location", address.encode()), (b"set-cookie", cookie.encode()), *frame.GUARD)
    )  # fmt: skip
