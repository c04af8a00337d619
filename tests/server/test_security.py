"""What an operator relies on: rotated keys, tokens for single queues, no stranger on an open broker, TLS."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from queen.cli import main
from queen.config import Settings
from queen.engine import KeyRing
from queen.errors import EncryptionUnavailable
from queen.server import auth as auth_module
from queen.server.auth import Authenticator, KeysUnavailable, NotAuthenticated
from tests.server.calls import ack_batch, configure, data, pop, push
from tests.server.certificates import write_certificate
from tests.server.conftest import SECRET
from tests.server.running import Running, run_broker, run_process
from tests.server.wires import ask, open_wire
from tests.support.wait import eventually, wait_for

OLD, NEW = "ab" * 32, "cd" * 32


@pytest.mark.parametrize(
    ("sealed", "opened"),
    [
        ([OLD], [NEW, OLD]),
        ([OLD], [f"next:{NEW}", OLD]),
        ([OLD], [f"next:{NEW}", f"last:{OLD}"]),
        ([f"last:{OLD}"], [NEW, OLD]),
        ([f"a:{OLD}"], [f"a:{NEW}", f"b:{OLD}"]),
    ],
)
def test_a_key_may_get_a_name_lose_it_or_move(sealed: list[str], opened: list[str]) -> None:
    assert KeyRing(opened).open(KeyRing(sealed).seal('{"n": 1}')) == '{"n": 1}'


def test_without_the_key_nothing_is_opened() -> None:
    with pytest.raises(EncryptionUnavailable, match="configured keys"):
        KeyRing([NEW]).open(KeyRing([OLD]).seal("1"))


def test_an_envelope_is_never_data(database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path, encryption_keys=(OLD,)) as broker, calls(broker) as client:
        configure(client, "mail", encryptionEnabled=True)
        push(client, "mail", {"n": 1})
    with run_broker(database, tmp_path, encryption_keys=(NEW,)) as broker, calls(broker) as client:
        for _ in range(2):
            answer = client.get("/api/v1/pop/queue/mail")
            assert (answer.status_code, answer.json()["code"]) == (503, "ENCRYPTION_UNAVAILABLE")
            assert "authTag" not in answer.text
    with run_broker(database, tmp_path, encryption_keys=(NEW, OLD)) as broker, calls(broker) as client:
        assert data(pop(client, "mail")) == [{"n": 1}], "it was given back each time"


def calls(broker: Running, **headers: str) -> httpx2.Client:
    return httpx2.Client(base_url=broker.url, timeout=40, headers=headers)


def page(origin: str, **headers: str) -> dict[str, str]:
    return {"origin": origin, **headers}


def test_no_page_of_elsewhere_uses_an_open_broker(api: httpx2.Client, queue: str) -> None:
    plain = {"content-type": "text/plain"}
    body = json.dumps({"items": [{"queue": queue, "payload": 1}]})
    for origin in ("https://evil.example", "null", "http://localhost:1"):
        answer = api.post("/api/v1/push", content=body, headers=page(origin, **plain))
        assert (answer.status_code, answer.json()["code"]) == (403, "ORIGIN_NOT_ALLOWED")
        assert api.get("/api/v1/resources/queues", headers=page(origin)).status_code == 403
    own = str(api.base_url).rstrip("/")
    assert api.post("/api/v1/push", content=body, headers=page(own, **plain)).status_code == 201
    assert data(pop(api, queue, batch=5)) == [1]


@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example", 403), ("evil.example:6632", 403), ("localhost:6632", 200), ("[::1]:6632", 200), ("queen", 200)],
)
def test_an_open_broker_on_loopback_has_only_names_of_its_own(api: httpx2.Client, host: str, status: int) -> None:
    assert api.get("/api/v1/resources/queues", headers={"host": host}).status_code == status


def test_no_page_of_elsewhere_opens_a_websocket(api: httpx2.Client) -> None:
    wishes = (
        b"connection: upgrade",
        b"upgrade: websocket",
        b"sec-websocket-version: 13",
        b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
    )
    for origin, status in ((b"origin: https://evil.example", b"403"), (b"accept: */*", b"101")):
        with open_wire(str(api.base_url)) as wire:
            wire.say(ask("/ws/dashboard", "short", *wishes, origin))
            assert wire.head().split()[1] == status


def test_other_pages_are_let_in_when_they_are_named(database: str, tmp_path: Path) -> None:
    with run_broker(database, tmp_path, cors_origins=("*",)) as broker, calls(broker) as client:
        headers = page("https://shop.example", host="broker.example")
        assert client.get("/api/v1/resources/queues", headers=headers).status_code == 200


def test_a_broker_that_others_reach_wants_tokens_or_to_be_told(tmp_path: Path) -> None:
    run = CliRunner(env={"QUEEN_DATABASE_URL": "postgresql://127.0.0.1:1/none", "QUEEN_DATA_DIR": str(tmp_path)})
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        result = run.invoke(main, ["serve", "--host", host, "--port", "1"])
        assert result.exit_code == 2
        assert "allow_anonymous" in result.stderr


def token(**claims: Any) -> str:
    return jwt.encode({"sub": "anna", "exp": time.time() + 600, **claims}, SECRET, "HS256")


def test_a_token_for_single_queues_uses_those_and_nothing_else(guarded: Running) -> None:
    claims = {"push": ["orders.*"], "pop": ["orders.eu"], "admin": ["orders.eu"]}
    with calls(guarded, authorization=f"Bearer {token(queues=claims)}") as client:
        configure(client, "orders.eu")
        push(client, "orders.eu", 1)
        push(client, "orders.us", 2)
        popped = pop(client, "orders.eu")
        assert data(popped) == [1]
        assert ack_batch(client, popped)[0]["success"]
        refused = [
            client.post("/api/v1/push", json={"items": [{"queue": "orders.eu"}, {"queue": "mail", "payload": 1}]}),
            client.get("/api/v1/pop/queue/orders.us"),
            client.get("/api/v1/pop/queue/mail"),
            client.get("/api/v1/pop", params={"namespace": "orders"}),
            client.post("/api/v1/configure", json={"queue": "orders.us"}),
            client.delete("/api/v1/resources/queues/orders.us"),
            client.post("/api/v1/ack", json={"transactionId": "x", "partitionId": "y"}),
            client.post("/api/v1/system/maintenance", json={"enabled": True}),
            client.get("/api/v1/resources/queues"),
            client.get("/api/v1/dlq"),
        ]
        assert [answer.status_code for answer in refused] == [403] * len(refused)
        assert client.get("/api/v1/queues/orders.us/options").status_code == 200, "whoever may push may look"
        assert client.delete("/api/v1/resources/queues/orders.eu").status_code == 200


@pytest.mark.parametrize("claim", [None, "orders", ["orders"], {"push": "orders"}, {"all": ["*"]}, {}])
def test_a_claim_of_another_form_allows_nothing(guarded: Running, claim: object) -> None:
    with calls(guarded, authorization=f"Bearer {token(role='admin', queues=claim)}") as client:
        assert client.post("/api/v1/push", json={"items": [{"queue": "orders"}]}).status_code == 403
        assert client.get("/api/v1/pop/queue/orders").status_code == 403


def test_acts_and_refusals_are_in_the_audit(database: str, tmp_path: Path) -> None:
    with run_process(database, tmp_path, QUEEN_JWT_ENABLED="true", QUEEN_JWT_SECRET=SECRET) as broker:
        url = f"{broker.url}/api/v1/resources/queues/mail"
        httpx2.delete(url, headers={"authorization": f"Bearer {token(role='admin')}"})
        httpx2.delete(url, headers={"authorization": f"Bearer {token(role='read-only')}"})
        httpx2.delete(url, headers={"authorization": "Bearer nonsense"})
        wait_for(lambda: len(audit(broker.log)) >= 3)
        done, not_allowed, unknown = audit(broker.log)
    assert (done["event"], done["subject"], done["status"], done["path"]) == (
        "administrative act",
        "anna",
        200,
        "/api/v1/resources/queues/mail",
    )
    assert (not_allowed["event"], not_allowed["status"]) == ("turned away", 403)
    assert (unknown["status"], unknown["reason"]) == (401, "Invalid token")
    assert "nonsense" not in json.dumps(unknown)


def audit(log: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [event for event in events if event["event"] in ("administrative act", "turned away")]


class KeyServer:
    """Serves a key set, or whatever it is told to."""

    def __init__(self) -> None:
        self.body = b"{}"
        self.hangs = False
        self.asked = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def close(self) -> None:
        """Hang up on everybody, also on those who were never answered."""
        for writer in self._writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        self._writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        if self.hangs:
            await reader.read()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(self.body))
            writer.write(self.body)
            await writer.drain()
        writer.close()

    def publish(self, **keys: ec.EllipticCurvePrivateKey) -> None:
        found = [{**json.loads(ECAlgorithm.to_jwk(key.public_key())), "kid": kid} for kid, key in keys.items()]
        self.body = json.dumps({"keys": found}).encode()


def signed(key: ec.EllipticCurvePrivateKey, kid: str, algorithm: str = "ES256") -> bytes:
    claims = {"sub": "anna", "exp": time.time() + 600, "role": "admin"}
    return jwt.encode(claims, key, algorithm, headers={"kid": kid}).encode()


async def test_a_withdrawn_key_stops_working(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, key = KeyServer(), ec.generate_private_key(ec.SECP256R1())
    keys.publish(one=key)
    async with await asyncio.start_server(keys, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        auth = Authenticator(Settings(jwt_enabled=True, jwt_jwks_url=f"http://127.0.0.1:{port}/"))
        given = signed(key, "one")
        assert (await auth.identify(given)).subject == "anna"
        keys.publish(two=key)
        monkeypatch.setattr(auth_module, "KEYS_LIFETIME", -1.0)
        monkeypatch.setattr(auth_module, "KEYS_PAUSE", -1.0)
        await eventually(lambda: is_refused(auth, given))
        assert await works(auth, signed(key, "two"))
        keys.hangs = True
        monkeypatch.setattr(auth_module, "KEYS_STALE", -1.0)
        monkeypatch.setattr(auth_module, "FETCH_LIMIT", 0.2)
        with pytest.raises(KeysUnavailable):
            await auth.identify(signed(key, "two"))
        await keys.close()


async def is_refused(auth: Authenticator, given: bytes) -> bool:
    return not await works(auth, given)


async def works(auth: Authenticator, given: bytes) -> bool:
    try:
        await auth.identify(given)
    except NotAuthenticated:
        return False
    return True


async def test_a_key_server_that_hangs_holds_nobody_up_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth_module, "FETCH_LIMIT", 1.0)
    keys, key = KeyServer(), ec.generate_private_key(ec.SECP256R1())
    keys.hangs = True
    async with await asyncio.start_server(keys, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        auth = Authenticator(Settings(jwt_enabled=True, jwt_jwks_url=f"http://127.0.0.1:{port}/"))
        given = [auth.identify(signed(key, f"k{number}")) for number in range(20)]
        found = await asyncio.wait_for(asyncio.gather(*given, return_exceptions=True), 20)
        assert {type(error) for error in found} == {KeysUnavailable}
        assert keys.asked <= 1, "all waited for the same answer"
        with pytest.raises(KeysUnavailable):
            await asyncio.wait_for(auth.identify(signed(key, "late")), 20)
        assert keys.asked <= 1, "and who comes after does not wait at all"
        await keys.close()


@pytest.mark.parametrize(
    "body",
    [
        "[]",
        '{"keys": 5}',
        '{"keys": {}}',
        "nonsense",
        '{"keys": [5, null, "x", {}, {"kty": "EC"}, {"kty": "EC", "crv": "P-1", "x": 5, "y": 6}]}',
        '{"keys": [{"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"}]}',
        '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}, {"kty": "RSA", "n": "AQ", "e": ""}]}',
    ],
)
async def test_a_malformed_key_set_lets_nobody_in_and_breaks_nothing(body: str) -> None:
    keys, key = KeyServer(), ec.generate_private_key(ec.SECP256R1())
    keys.body = body.encode()
    async with await asyncio.start_server(keys, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        auth = Authenticator(Settings(jwt_enabled=True, jwt_jwks_url=f"http://127.0.0.1:{port}/"))
        with pytest.raises((NotAuthenticated, KeysUnavailable)):
            await auth.identify(signed(key, "one"))


async def test_a_curve_opens_only_its_own_algorithm() -> None:
    keys = KeyServer()
    odd, good = ec.generate_private_key(ec.SECP256K1()), ec.generate_private_key(ec.SECP384R1())
    keys.publish(odd=odd, good=good)
    async with await asyncio.start_server(keys, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        auth = Authenticator(Settings(jwt_enabled=True, jwt_jwks_url=f"http://127.0.0.1:{port}/"))
        assert await works(auth, signed(good, "good", "ES384"))
        assert not await works(auth, signed(ec.generate_private_key(ec.SECP256R1()), "good"))
        assert not await works(auth, signed(odd, "odd", "ES256K"))


@pytest.fixture
def encrypted(database: str, tmp_path: Path) -> Iterator[tuple[Running, bytes]]:
    first = write_certificate(tmp_path, "first")
    files = {"tls_certificate": tmp_path / "tls.crt", "tls_key": tmp_path / "tls.key"}
    with run_broker(database, tmp_path, **files) as running:
        yield running, first


def test_tls_and_a_certificate_that_is_replaced(encrypted: tuple[Running, bytes], tmp_path: Path) -> None:
    broker, first = encrypted
    address = ("127.0.0.1", broker.settings.port)
    url = broker.url.replace("http://", "https://")
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE
    with httpx2.Client(base_url=url, verify=unchecked, timeout=40) as client:
        push(client, "mail", 1)
        assert data(pop(client, "mail")) == [1]

        def presented() -> bytes:
            return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(address))

        assert presented() == first
        second = write_certificate(tmp_path, "second")
        wait_for(lambda: presented() == second, limit=30, pause=0.1)
        (tmp_path / "tls.crt").write_text("nonsense")
        push(client, "mail", 2)
        assert presented() == second, "one that cannot be used changes nothing"
