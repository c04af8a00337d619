from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import RSAAlgorithm

from queen.config import Settings
from queen.server.app import gather
from queen.server.auth import Authenticator, NotAuthenticated
from tests.server.running import Running, run_broker
from tests.support.postgres import TEMPLATE, Postgres

SECRET = "a secret of at least thirty-two bytes"
ROLES = {"read": "read-only", "write": "read-write", "admin": "admin"}
PROTECTED = [
    (route.method, route.path, route.role)
    for route in gather()
    if route.method != "WS" and route.role != "public" and route.path not in Settings().jwt_skip_paths
]


def token(key: Any = SECRET, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **claims: Any) -> str:
    return jwt.encode({"sub": "anna", "exp": time.time() + 60, **claims}, key, algorithm=algorithm, headers=headers)


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


@pytest.fixture(scope="module")
def guarded(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with (
        postgres.scratch(TEMPLATE) as database,
        run_broker(database, tmp_path_factory.mktemp("guarded"), jwt_enabled=True, jwt_secret=SECRET) as running,
    ):
        yield running


@pytest.fixture
def http(guarded: Running) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=guarded.url, timeout=20) as client:
        yield client


@pytest.mark.parametrize(("method", "path", "role"), PROTECTED)
def test_every_route_wants_a_token_and_its_role(http: httpx2.Client, method: str, path: str, role: str) -> None:
    url = path.replace(":", "x")
    answer = http.request(method, url)
    assert (answer.status_code, answer.json()["error"]) == (401, "Authentication required")
    ranks = list(ROLES)
    lower = ranks[: ranks.index(role)]
    for name in lower:
        answer = http.request(method, url, headers=bearer(token(role=ROLES[name])))
        assert (answer.status_code, answer.json()["error"]) == (403, "Insufficient permissions")
    if not lower:
        answer = http.request(method, url, headers=bearer(token()))
        assert answer.status_code == 403


def test_there_is_something_to_protect() -> None:
    assert len(PROTECTED) >= 12


@pytest.mark.parametrize("path", ["/health", "/metrics", "/metrics/prometheus", "/health/live", "/openapi.json"])
def test_some_paths_are_public(http: httpx2.Client, path: str) -> None:
    assert http.get(path).status_code == 200


def test_the_producer_is_stamped_from_the_token(http: httpx2.Client) -> None:
    body = {"items": [{"queue": "stamped", "payload": 1, "producerSub": "mallory"}]}
    auth = bearer(token(role="read-write"))
    assert http.post("/api/v1/push", json=body, headers=auth).status_code == 201
    answer = http.get("/api/v1/pop/queue/stamped", headers={"authorization": token(roles=["read-only", "admin"])})
    assert answer.json()["messages"][0]["producerSub"] == "anna"


def test_preflight_needs_no_token(http: httpx2.Client) -> None:
    answer = http.options("/api/v1/push", headers={"origin": "https://shop.example"})
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "POST" in answer.headers["access-control-allow-methods"]


BAD: dict[str, tuple[Callable[[], str], str]] = {
    "expired": (lambda: token(exp=time.time() - 31), "Token has expired"),
    "early": (lambda: token(nbf=time.time() + 90), "Token is not valid yet"),
    "other key": (lambda: token(key="another secret of thirty-two bytes or so"), "Invalid token signature"),
    "none": (lambda: token(key=None, algorithm="none"), "Invalid token algorithm"),
    "gibberish": (lambda: "gibberish", "Invalid token"),
    "dotted gibberish": (lambda: "a.b.c", "Invalid token"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tokens_are_told_apart(http: httpx2.Client, case: str) -> None:
    make, reason = BAD[case]
    answer = http.get("/api/v1/system/maintenance", headers=bearer(make()))
    assert (answer.status_code, answer.json()["error"]) == (401, reason)


def test_a_little_skew_is_forgiven(http: httpx2.Client) -> None:
    made = token(exp=time.time() - 10, nbf=time.time() + 10, role="admin")
    assert http.get("/api/v1/system/maintenance", headers=bearer(made)).status_code == 200


def test_a_remembered_token_expires_too(http: httpx2.Client) -> None:
    made = token(exp=time.time() - 29, role="admin")
    assert http.get("/api/v1/system/maintenance", headers=bearer(made)).status_code == 200
    deadline = time.monotonic() + 10
    while http.get("/api/v1/system/maintenance", headers=bearer(made)).status_code == 200:
        assert time.monotonic() < deadline


PRIVATE: dict[str, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey] = {
    "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


def pem(algorithm: str) -> str:
    return PRIVATE[algorithm].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.mark.parametrize("algorithm", PRIVATE)
async def test_a_key_opens_only_its_own_kind(algorithm: str) -> None:
    auth = Authenticator(Settings(jwt_enabled=True, jwt_public_key=pem(algorithm)))
    identity = await auth.identify(token(PRIVATE[algorithm], algorithm, role="admin").encode())
    assert (identity.subject, identity.role) == ("anna", "admin")
    for other, key in PRIVATE.items():
        if other != algorithm:
            with pytest.raises(NotAuthenticated, match="algorithm"):
                await auth.identify(token(key, other).encode())
    with pytest.raises(NotAuthenticated, match="algorithm"):
        await auth.identify(hmac_with_public_key(pem(algorithm)).encode())


def hmac_with_public_key(public: str) -> str:
    """The classic forgery: the public key, known to all, as the HMAC secret; no library makes it for us."""
    import hashlib
    import hmac

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    head = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    body = part(json.dumps({"sub": "mallory", "role": "admin", "exp": time.time() + 60}).encode())
    signature = hmac.new(public.encode(), f"{head}.{body}".encode(), hashlib.sha256).digest()
    return f"{head}.{body}.{part(signature)}"


async def test_a_named_algorithm_excludes_the_others() -> None:
    auth = Authenticator(
        Settings(jwt_enabled=True, jwt_algorithm="HS256", jwt_secret=SECRET, jwt_public_key=pem("RS256"))
    )
    await auth.identify(token().encode())
    with pytest.raises(NotAuthenticated):
        await auth.identify(token(PRIVATE["RS256"], "RS256").encode())


async def test_issuer_and_audience_count_when_set() -> None:
    auth = Authenticator(Settings(jwt_enabled=True, jwt_secret=SECRET, jwt_issuer="us", jwt_audience="queen"))
    await auth.identify(token(iss="us", aud="queen").encode())
    with pytest.raises(NotAuthenticated, match="issuer"):
        await auth.identify(token(iss="them", aud="queen").encode())
    with pytest.raises(NotAuthenticated, match="audience"):
        await auth.identify(token(iss="us", aud="other").encode())


class Keys(BaseHTTPRequestHandler):
    """Serves a key set, and counts how often it is asked for."""

    found: ClassVar[list[dict[str, Any]]] = []
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = json.dumps({"keys": self.found}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture
def key_server() -> Iterator[str]:
    Keys.found, Keys.asked = [], []
    server = HTTPServer(("127.0.0.1", 0), Keys)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/keys"
    server.shutdown()
    thread.join()
    server.server_close()


def public_jwk(name: str, key: rsa.RSAPrivateKey) -> dict[str, Any]:
    return {**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": name, "use": "sig", "alg": "RS256"}


async def test_keys_are_fetched_and_kept(key_server: str) -> None:
    first = PRIVATE["RS256"]
    second = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert isinstance(first, rsa.RSAPrivateKey)
    Keys.found = [public_jwk("one", first)]
    auth = Authenticator(Settings(jwt_enabled=True, jwt_jwks_url=key_server))
    for number in range(3):
        await auth.identify(token(first, "RS256", {"kid": "one"}, number=number).encode())
    assert len(Keys.asked) == 1
    with pytest.raises(NotAuthenticated):
        await auth.identify(token(second, "RS256", {"kid": "one"}).encode())
    with pytest.raises(NotAuthenticated):
        await auth.identify(token(second, "RS256", {"kid": "two"}).encode())
    with pytest.raises(NotAuthenticated):
        await auth.identify(token().encode())
    assert len(Keys.asked) == 1, "an unknown key id makes us ask again only after a pause"


def test_a_private_key_is_no_public_key() -> None:
    from queen.config import ConfigError

    private = PRIVATE["ES256"].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    with pytest.raises(ConfigError, match="not a public key"):
        Authenticator(Settings(jwt_enabled=True, jwt_public_key=private))
