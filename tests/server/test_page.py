from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import httpx2
import jwt
import pytest

from tests.server.calls import ack, pop, push
from tests.server.running import Running, run_broker

SECRET = "s" * 32


class Links(HTMLParser):
    """What a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def test_an_empty_broker_teaches_the_first_push(client: httpx2.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "No queue yet" in page.text
    host = str(client.base_url).removeprefix("http://").rstrip("/")
    assert f"curl http://{host}/api/v1/push -d" in page.text


def test_queues_with_their_numbers(client: httpx2.Client) -> None:
    push(client, "mail.send", *range(1234))
    ack(client, pop(client, "mail.send")[0], "dlq")
    page = client.get("/").text
    assert "1\N{NARROW NO-BREAK SPACE}233" in page
    assert "No queue yet" not in page


def test_the_same_as_json(client: httpx2.Client) -> None:
    push(client, "q", 1, 2)
    pop(client, "q")
    by_format = client.get("/?format=json").json()
    by_accept = client.get("/", headers={"accept": "application/json"}).json()
    assert set(by_format) == set(by_accept)
    (queue,) = by_format["queues"]
    assert queue["lagSeconds"] <= by_accept["queues"][0]["lagSeconds"]
    assert (queue["name"], queue["pending"], queue["processing"]) == ("q", 1, 1)
    assert (by_format["healthy"], by_format["pending"], by_format["locked"]) == (True, 1, False)


def test_names_are_escaped(client: httpx2.Client) -> None:
    push(client, "<script>alert(1)</script>", 1)
    page = client.get("/").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_nothing_is_fetched_from_elsewhere(client: httpx2.Client) -> None:
    push(client, "q", 1)
    page = client.get("/")
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    links = Links()
    links.feed(page.text)
    assert {"static/status.css", "static/status.js", "static/queen.svg"} <= set(links.found)
    for link in set(links.found):
        assert "//" not in link
        assert client.get(f"/{link}").status_code == 200, link


def test_files_have_their_types(client: httpx2.Client) -> None:
    for name, media in (("status.css", "text/css"), ("status.js", "text/javascript"), ("queen.svg", "image/svg+xml")):
        assert client.get(f"/static/{name}").headers["content-type"].startswith(media)
    for name in ("nothing.css", "..%2Fapp.py", "%2Fetc%2Fpasswd"):
        assert client.get(f"/static/{name}").status_code == 404


def test_maintenance_shows(client: httpx2.Client) -> None:
    client.post("/api/v1/system/maintenance", json={"enabled": True})
    push(client, "q", 1)
    page = client.get("/").text
    assert "Maintenance" in page
    assert "1 waiting" in page


@pytest.fixture
def guarded(database: str, tmp_path: Path) -> Iterator[Running]:
    with run_broker(database, tmp_path, jwt_enabled=True, jwt_secret=SECRET) as running:
        yield running


def test_with_tokens_on_the_page_tells_strangers_nothing(guarded: Running) -> None:
    token = jwt.encode({"role": "read-write"}, SECRET, algorithm="HS256")
    bearer = {"authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=guarded.url) as client:
        answer = client.post("/api/v1/push", json={"items": [{"queue": "secret-name", "payload": 1}]}, headers=bearer)
        assert answer.status_code == 201
        stranger = client.get("/")
        assert (stranger.status_code, "secret-name" in stranger.text) == (200, False)
        assert "asks for a token" in stranger.text
        assert client.get("/?format=json").json()["queues"] is None
        assert "secret-name" in client.get("/", headers=bearer).text
