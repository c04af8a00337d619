"""The published client through TLS, with a token for one queue: it works there, and is refused on another."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
from pathlib import Path

import httpx2
import jwt
import pytest

from tests.conformance.test_queen_mq import HERE, PYTHON
from tests.server.calls import data, pop, push
from tests.server.certificates import write_certificate
from tests.server.conftest import SECRET
from tests.server.running import run_broker

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("queen-mq")]
ONE = {"sub": "mailer", "queues": {"push": ["mail"], "pop": ["mail"], "admin": ["mail"]}}


def test_a_published_client_with_a_token_for_one_queue(database: str, tmp_path: Path) -> None:
    assert PYTHON.exists(), "the published client is not installed: make .venv-queen-mq/.stamp"
    write_certificate(tmp_path, "broker")
    files = {"tls_certificate": tmp_path / "tls.crt", "tls_key": tmp_path / "tls.key"}
    token = jwt.encode(ONE, SECRET, "HS256")
    admin = {"authorization": f"Bearer {jwt.encode({'role': 'admin'}, SECRET, 'HS256')}"}
    trusting = {**os.environ, "SSL_CERT_FILE": str(tmp_path / "tls.crt")}
    trusted = ssl.create_default_context(cafile=tmp_path / "tls.crt")
    with run_broker(database, tmp_path / "data", jwt_enabled=True, jwt_secret=SECRET, **files) as broker:
        url = broker.url.replace("http://", "https://")
        command = [str(PYTHON), str(HERE / "one_queue.py"), url, token, "mail", str(tmp_path / "report.json")]
        with httpx2.Client(base_url=url, headers=admin, verify=trusted, timeout=40) as client:
            push(client, "other", "secret")
            done = subprocess.run(command, env=trusting, capture_output=True, text=True, timeout=200, check=False)
            assert done.returncode == 0, done.stderr
            assert broker.server.broker.metrics.refusals == {"403": 3}, "to create, to push, to pop elsewhere"
            assert data(pop(client, "other", batch=9)) == ["secret"], "nothing came of it"
        with pytest.raises(httpx2.HTTPError):
            httpx2.get(f"{broker.url}/health/live")
    found = json.loads((tmp_path / "report.json").read_text())
    own, other = found["own"], found["other"]
    assert own["pop"] == [{"n": 1}, {"n": 2}], own
    assert own["left"] == [], own
    assert [own[step].get("error") for step in ("create", "ack")] == [None, None]
    assert [each["status"] for each in own["push"]] == ["queued"] * 2
    assert all("the token" in other[step]["error"] for step in ("create", "push")), other
    assert other["pop"] == [], "this client makes nothing of a pop that was refused"
