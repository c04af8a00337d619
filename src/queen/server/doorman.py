"""Who may call a broker that asks for no tokens: no page of a browser that happens to be open beside it.

A page can send requests to this machine that need no permission first (a plain POST, a WebSocket), and by a name of its
own that resolves to this machine it can even read the answers. Both show in what browsers always send along.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from queen import errors
from queen.config import Settings
from queen.server.request import Request


class ForeignPage(errors.RequestError):
    """A page of somewhere else wants to use the broker in the name of who looks at it."""

    code = "ORIGIN_NOT_ALLOWED"
    status = 403


class ForeignHost(errors.RequestError):
    """The broker was called by a name that is not its own."""

    code = "HOST_NOT_ALLOWED"
    status = 403


class Doorman:
    """Checks `Origin` always, `Host` on a broker that listens on loopback only."""

    def __init__(self, settings: Settings) -> None:
        self._origins: Final = frozenset(settings.cors_origins)
        self._any: Final = "*" in self._origins
        self._local: Final = is_local(settings.host)

    def admit(self, request: Request) -> None:
        """Raise ForeignPage or ForeignHost for requests that a page elsewhere has made."""
        host = request.headers.get(b"host", b"").decode("latin-1")
        if self._local and not self._any and not is_own(host):
            raise ForeignHost(f"this broker is not called {host!r}; set cors_origins to let pages of other names in")
        origin = request.headers.get(b"origin")
        if origin is None or self._any:
            return
        page = origin.decode("latin-1")
        if page not in self._origins and urlsplit(page).netloc.lower() != host.lower():
            raise ForeignPage(f"pages of {page} may not use this broker; name it in cors_origins to allow that")


def is_own(host: str) -> bool:
    """Tell whether a Host is one that no stranger can make point here: an address, or a name without a dot."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return "." not in name or name.endswith(".localhost") or _address(name) is not None


def is_local(host: str) -> bool:
    """Tell whether an address to listen on is for this machine only."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
