"""Who calls, and what they may do: JSON Web Tokens.

Each key opens only tokens of its own kind: the shared secret HMAC tokens, a public key those of its
own algorithm family. So neither `none` nor an HMAC made with a public key gets in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

import httpx2
import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed448 import Ed448PublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from jwt.algorithms import get_default_algorithms
from msgspec import Struct

from queen import errors
from queen.config import ConfigError, Settings
from queen.server.routing import RANKS, Role

SKEW: Final = 30
REMEMBERED: Final = 4096
KEYS_LIFETIME: Final = 300.0
KEYS_PAUSE: Final = 10.0
KEYS_STALE: Final = 3600.0
FETCH_LIMIT: Final = 5.0
LOG: Final = structlog.get_logger("queen.auth")
_CURVES: Final = {
    "secp256r1": frozenset({"ES256"}),
    "secp384r1": frozenset({"ES384"}),
    "secp521r1": frozenset({"ES512"}),
}
_HMAC: Final = frozenset({"HS256", "HS384", "HS512"})
_FAMILIES: Final[Sequence[tuple[type, frozenset[str]]]] = (
    (RSAPublicKey, frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})),
    (EllipticCurvePublicKey, frozenset({"ES256", "ES384", "ES512"})),
    (Ed25519PublicKey, frozenset({"EdDSA"})),
    (Ed448PublicKey, frozenset({"EdDSA"})),
)
PERMISSIONS: Final = ("push", "pop", "admin")
Permission = Literal["push", "pop", "admin", "read"]
_ROLES: Final[Mapping[str, Role]] = {"read-only": "read", "read-write": "write", "admin": "admin"}


class NotAuthenticated(errors.RequestError):
    """No token, or one that does not count."""

    code = "NOT_AUTHENTICATED"
    status = 401


class KeysUnavailable(errors.Backpressure):
    """The keys to check tokens with cannot be fetched, so nobody can be told from anybody."""

    code = "KEYS_UNAVAILABLE"


class NotAllowed(errors.RequestError):
    """The token is good, but its role is not enough."""

    code = "NOT_ALLOWED"
    status = 403


class Identity(Struct, frozen=True):
    """The caller of a request: the token's subject and what it may do.

    `queues` are patterns by permission when the token has the claim: then it may use only queues they match, and no
    route that is about more than one queue.
    """

    subject: str | None = None
    role: Role = "public"
    expires_at: float = float("inf")
    queues: Mapping[str, tuple[str, ...]] | None = None
    fetched: bool = False

    def may(self, permission: Permission, queue: str) -> bool:
        """Tell whether a queue may be used so; `read` is what every other permission includes."""
        if self.queues is None:
            return True
        kinds = PERMISSIONS if permission == "read" else (permission,)
        return any(fnmatchcase(queue, pattern) for kind in kinds for pattern in self.queues.get(kind, ()))

    def require(self, permission: Permission, queues: Iterable[str]) -> None:
        """Raise NotAllowed for the first queue that may not be used so."""
        if self.queues is not None:
            for queue in queues:
                if not self.may(permission, queue):
                    raise NotAllowed(f"the token does not allow {permission} on queue {queue!r}")


NOBODY: Final = Identity()


class _Key(Struct, frozen=True):
    algorithms: frozenset[str]
    material: Any


class Authenticator:
    """Checks tokens; those that were good are remembered until they expire."""

    def __init__(self, settings: Settings) -> None:
        self.enabled = settings.jwt_enabled
        self._settings = settings
        self._skip = frozenset(path.encode() for path in settings.jwt_skip_paths)
        only = None if settings.jwt_algorithm == "auto" else frozenset({settings.jwt_algorithm})
        self._only = only
        self._keys: list[_Key] = []
        if settings.jwt_secret:
            self._keys.append(_Key(_HMAC & only if only else _HMAC, settings.jwt_secret))
        if settings.jwt_public_key:
            self._keys.append(self._public(settings.jwt_public_key))
        self._fetched = KeySet(settings.jwt_jwks_url, only) if settings.jwt_jwks_url else None
        self._known: dict[bytes, Identity] = {}

    def _public(self, pem: str) -> _Key:
        try:
            material = load_pem_public_key(pem.replace("\\n", "\n").encode())
        except ValueError as error:
            raise ConfigError(f"jwt_public_key is not a public key in PEM: {error}") from error
        return _Key(_family(material, self._only), material)

    def open_to_all(self, role: Role, raw_path: bytes) -> bool:
        """Tell whether a route needs no token."""
        return not self.enabled or role == "public" or raw_path in self._skip

    async def admit(self, role: Role, authorization: bytes | None) -> Identity:
        """The caller, if the token is good and its role enough; raises NotAuthenticated or NotAllowed."""
        identity = await self.identify(authorization)
        if identity.queues is None and RANKS[identity.role] < RANKS[role]:
            raise NotAllowed("Insufficient permissions")
        return identity

    async def identify(self, authorization: bytes | None) -> Identity:
        """The caller behind an Authorization header; a bare token works too."""
        scheme, _, rest = (authorization or b"").strip().partition(b" ")
        token = rest.strip() if scheme.lower() == b"bearer" else scheme if not rest else b""
        if not token:
            raise NotAuthenticated("Authentication required")
        if self._fetched is not None and await self._fetched.changed():
            self._known = {known: one for known, one in self._known.items() if not one.fetched}
        known = self._known.get(token)
        if known is not None and known.expires_at > time.time():
            return known
        identity = await self._check(token.decode("latin-1"))
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[token] = identity
        return identity

    async def _check(self, token: str) -> Identity:
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            raise NotAuthenticated("Invalid token") from None
        algorithm = str(header.get("alg"))
        keys = [(key, False) for key in self._keys if algorithm in key.algorithms]
        if self._fetched is not None and algorithm not in _HMAC:
            keys += [(key, True) for key in await self._fetched.find(algorithm, header.get("kid"))]
        failure = "Invalid token algorithm" if not keys else "Invalid token signature"
        for key, fetched in keys:
            try:
                return _identity(self._decode(token, key, algorithm), fetched=fetched)
            except jwt.InvalidSignatureError:
                continue
            except jwt.InvalidTokenError as error:
                failure = _reason(error)
                break
            except (jwt.PyJWTError, ValueError, TypeError):
                failure = "Invalid token"
        raise NotAuthenticated(failure)

    def _decode(self, token: str, key: _Key, algorithm: str) -> dict[str, Any]:
        return jwt.decode(
            token,
            key.material,
            algorithms=[algorithm],
            issuer=self._settings.jwt_issuer,
            audience=self._settings.jwt_audience,
            leeway=SKEW,
            options={"verify_aud": self._settings.jwt_audience is not None, "enforce_minimum_key_length": False},
        )


class KeySet:
    """Public keys from a URL. Fetched again in the background when they are old, and when a token names one we miss.

    Nobody waits for a fetch longer than `FETCH_LIMIT`, and after one that failed nobody waits for a while. Keys older
    than `KEYS_STALE` count no more: whoever withdrew one must be able to rely on that.
    """

    def __init__(self, url: str, only: frozenset[str] | None) -> None:
        self._url = url
        self._only = only
        self._keys: dict[str | None, list[_Key]] = {}
        self._raw: Any = None
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._problem = "they were not fetched yet"
        self._version = self._seen = 0

    async def changed(self) -> bool:
        """Tell, once, whether the keys are others than before; asks for them again when they are old."""
        age = time.monotonic() - self._fetched_at
        if age > KEYS_LIFETIME and time.monotonic() - self._tried_at > KEYS_PAUSE:
            self._start()
        if age > KEYS_STALE and self._keys:
            self._keys, self._raw = {}, None
            self._version += 1
        seen, self._seen = self._seen, self._version
        return seen != self._version

    async def find(self, algorithm: str, kid: object) -> list[_Key]:
        """The keys a token of this algorithm and key id may have been signed with."""
        if not self._matching(algorithm, kid):
            if time.monotonic() - self._tried_at > KEYS_PAUSE:
                self._start()
            if self._fetching is not None:
                await asyncio.wait((self._fetching,), timeout=FETCH_LIMIT)
        found = self._matching(algorithm, kid)
        if not found and not self._keys:
            raise KeysUnavailable(f"the keys to check tokens cannot be fetched: {self._problem}")
        return found

    def _matching(self, algorithm: str, kid: object) -> list[_Key]:
        keys = (
            [key for group in self._keys.values() for key in group] if kid is None else self._keys.get(str(kid)) or []
        )
        return [key for key in keys if algorithm in key.algorithms]

    def _start(self) -> None:
        if self._fetching is None:
            self._tried_at = time.monotonic()
            self._fetching = asyncio.create_task(self._fetch(), name="queen-jwks")

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(FETCH_LIMIT), httpx2.AsyncClient(timeout=FETCH_LIMIT) as client:
                answer = await client.get(self._url)
                answer.raise_for_status()
                found = answer.json()["keys"]
                if not isinstance(found, list):
                    raise TypeError("`keys` is not a list")
        except (httpx2.HTTPError, ValueError, KeyError, TypeError, TimeoutError) as error:
            self._problem = f"{type(error).__name__} {error}".strip()
            LOG.warning("the keys to check tokens could not be fetched", url=self._url, reason=self._problem)
            return
        finally:
            self._tried_at = time.monotonic()
            self._fetching = None
        if found != self._raw:
            self._keys, self._raw = self._read(found), found
            self._version += 1
        self._fetched_at = time.monotonic()

    def _read(self, found: list[Any]) -> dict[str | None, list[_Key]]:
        keys: dict[str | None, list[_Key]] = {}
        for entry in found:
            try:
                if entry.get("use", "sig") != "sig":
                    continue
                material = jwt.PyJWK(entry).key
                algorithms = _family(material, self._only)
                named = frozenset({entry["alg"]}) if entry.get("alg") else algorithms
                if algorithms & named:
                    keys.setdefault(entry.get("kid"), []).append(_Key(algorithms & named, material))
            except Exception as error:  # noqa: BLE001 - what others publish may be anything; the other keys count
                LOG.warning("a key of the set cannot be used", reason=f"{type(error).__name__} {error}".strip())
        return keys


def _family(material: object, only: frozenset[str] | None) -> frozenset[str]:
    for kind, algorithms in _FAMILIES:
        if isinstance(material, kind):
            known = algorithms & get_default_algorithms().keys()
            if isinstance(material, EllipticCurvePublicKey):
                known &= _CURVES.get(material.curve.name, frozenset())
            return known & only if only else known
    return frozenset()


def _identity(claims: Mapping[str, Any], *, fetched: bool = False) -> Identity:
    named = [claims.get("role"), *(claims["roles"] if isinstance(claims.get("roles"), list) else [])]
    roles: list[Role] = [_ROLES[name] for name in named if isinstance(name, str) and name in _ROLES]
    subject = claims.get("sub")
    return Identity(
        subject=subject if isinstance(subject, str) else None,
        role=max(roles, key=RANKS.__getitem__, default="public"),
        expires_at=float(claims["exp"]) + SKEW if "exp" in claims else time.time() + KEYS_LIFETIME,
        queues=_queues(claims["queues"]) if "queues" in claims else None,
        fetched=fetched,
    )


def _queues(claim: object) -> Mapping[str, tuple[str, ...]]:
    """The claim `{"push": ["orders.*"], "pop": [...], "admin": [...]}`; what is not of that form allows nothing."""
    given = claim if isinstance(claim, dict) else {}
    return {
        kind: tuple(pattern for pattern in patterns if isinstance(pattern, str))
        for kind, patterns in given.items()
        if kind in PERMISSIONS and isinstance(patterns, list)
    }


def _reason(error: jwt.InvalidTokenError) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "Token has expired"
        case jwt.ImmatureSignatureError():
            return "Token is not valid yet"
        case jwt.InvalidIssuerError():
            return "Invalid token issuer"
        case jwt.InvalidAudienceError():
            return "Invalid token audience"
        case _:
            return f"Invalid token: {error}"
