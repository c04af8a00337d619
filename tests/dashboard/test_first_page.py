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
OURS = {"x-queen-dashboard": "1"}


@pytest.fixture
def client(database: str, tmp_path: Path) -> Iterator[httpx2.Client]:
    with run_broker(database, tmp_path) as running, httpx2.Client(base_url=running.url, timeout=40) as client:
        yield client


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
    twin = client.get("/queue?name=mail.send&format=json").json()["page"]
    (group,) = twin["groups"]
    assert (twin["row"]["waiting"], twin["row"]["deadLetters"], group["waiting"]) == (1233, 1, 1233)


def test_the_same_as_json(client: httpx2.Client) -> None:
    push(client, "q", 1, 2)
    pop(client, "q")
    by_format = client.get("/?format=json").json()
    by_accept = client.get("/", headers={"accept": "application/json"}).json()
    assert set(by_format["page"]) == set(by_accept["page"])
    (queue,) = by_format["page"]["queues"]
    assert (queue["name"], queue["waiting"], queue["processing"]) == ("q", 2, 1)
    assert (by_format["head"]["healthy"], by_format["page"]["now"]["waiting"]) == (True, 2)


def test_nothing_is_fetched_from_elsewhere(client: httpx2.Client) -> None:
    push(client, "q", 1)
    page = client.get("/")
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    links = Links()
    links.feed(page.text)
    assert {"static/queen.css", "static/queen.js", "static/uplot.min.js"} <= set(links.found)
    for link in set(links.found) - {"#page"}:
        assert "//" not in link
        if link.startswith("static/"):
            assert client.get(f"/{link}").status_code == 200, link


def test_files_have_their_types(client: httpx2.Client) -> None:
    for name, media in (("queen.css", "text/css"), ("queen.js", "text/javascript"), ("queen.svg", "image/svg+xml")):
        assert client.get(f"/static/{name}").headers["content-type"].startswith(media)
    for name in ("nothing.css", "..%2Fframe.py", "%2Fetc%2Fpasswd", "vendored.md"):
        assert client.get(f"/static/{name}").status_code == 404


def test_maintenance_shows(client: httpx2.Client) -> None:
    client.post("/api/v1/system/maintenance", json={"enabled": True})
    push(client, "q", 1)
    assert any(each["kind"] == "buffer" for each in client.get("/?format=json").json()["page"]["problems"])


def test_a_change_needs_our_header_and_our_origin(client: httpx2.Client) -> None:
    push(client, "q", 1)
    form = {"queue": "q"}
    assert client.post("/act/pause", data=form).status_code == 403
    elsewhere = {"origin": "http://evil.example", **OURS}
    assert client.post("/act/pause", data=form, headers=elsewhere).status_code == 403
    assert client.post("/act/pause", data=form, headers={"sec-fetch-site": "cross-site", **OURS}).status_code == 403
    assert client.get("/queue?name=q&format=json").json()["page"]["row"]["paused"] is False
    assert client.post("/act/pause", data=form, headers=OURS).status_code == 200
    assert client.get("/queue?name=q&format=json").json()["page"]["row"]["paused"] is True


@pytest.fixture
def guarded(database: str, tmp_path: Path) -> Iterator[httpx2.Client]:
    with run_broker(database, tmp_path, jwt_enabled=True, jwt_secret=SECRET) as running, client_of(running) as client:
        yield client


def client_of(running: Running) -> httpx2.Client:
    return httpx2.Client(base_url=running.url, timeout=40)


def token(**claims: object) -> str:
    return jwt.encode({"sub": "ada", **claims}, SECRET, algorithm="HS256")


def test_with_tokens_on_the_pages_tell_strangers_nothing(guarded: httpx2.Client) -> None:
    bearer = {"authorization": f"Bearer {token(role='read-write')}"}
    assert push_with(guarded, bearer, "secret-name").status_code == 201
    stranger = guarded.get("/")
    assert (stranger.status_code, "secret-name" in stranger.text) == (401, False)
    assert "asks for a token" in stranger.text
    assert guarded.get("/?format=json").status_code == 401
    assert "secret-name" in guarded.get("/", headers=bearer).text
    assert guarded.post("/act/pause", data={"queue": "secret-name"}, headers=OURS).status_code == 401


def test_a_login_keeps_the_token_in_a_cookie_that_scripts_cannot_read(guarded: httpx2.Client) -> None:
    wrong = guarded.post("/login", data={"token": "nonsense", "next": "queues"})
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    right = guarded.post("/login", data={"token": token(role="read-only"), "next": "queues?sort=name"})
    assert (right.status_code, right.headers["location"]) == (303, "queues?sort=name")
    assert "HttpOnly; SameSite=Strict" in right.headers["set-cookie"]
    cookie = {"cookie": right.headers["set-cookie"].partition(";")[0]}
    assert guarded.get("/", headers=cookie).status_code == 200
    assert guarded.get("/api/v1/status", headers=cookie).status_code == 401  # the API takes no cookies
    for outside in ("//evil.example", "https://evil.example", "\\\\evil", "/elsewhere"):
        went = guarded.post("/login", data={"token": token(role="read-only"), "next": outside})
        assert went.headers["location"] == "./"


def test_a_read_only_token_reads_only(guarded: httpx2.Client) -> None:
    push_with(guarded, {"authorization": f"Bearer {token(role='admin')}"}, "q")
    reader = {"authorization": f"Bearer {token(role='read-only')}", **OURS}
    page = guarded.get("/queue?name=q", headers=reader)
    assert (page.status_code, "Pause…" in page.text) == (200, False)
    assert guarded.post("/act/pause", data={"queue": "q"}, headers=reader).status_code == 403


def test_an_act_is_noted_in_the_audit_log(guarded: httpx2.Client) -> None:
    admin = {"authorization": f"Bearer {token(role='admin', sub='grace-hopper')}", **OURS}
    push_with(guarded, admin, "q")
    assert "grace-hopper" not in str(guarded.get("/system?tab=audit&format=json", headers=admin).json()["page"])
    assert guarded.post("/act/pause", data={"queue": "q"}, headers=admin).status_code == 200
    assert "grace-hopper" in str(guarded.get("/system?tab=audit&format=json", headers=admin).json()["page"])


def test_a_token_for_single_queues_sees_only_those(guarded: httpx2.Client) -> None:
    for queue in ("mine.a", "other"):
        push_with(guarded, {"authorization": f"Bearer {token(role='admin')}"}, queue)
    mine = {"authorization": f"Bearer {token(queues={'admin': ['mine.*']})}", **OURS}
    assert [q["name"] for q in guarded.get("/queues?format=json", headers=mine).json()["page"]["queues"]] == ["mine.a"]
    assert "other" not in guarded.get("/", headers=mine).text.replace("another", "")
    assert guarded.get("/queue?name=other", headers=mine).status_code == 404
    assert guarded.post("/act/pause", data={"queue": "mine.a"}, headers=mine).status_code == 200
    assert guarded.post("/act/pause", data={"queue": "other"}, headers=mine).status_code == 403


def push_with(client: httpx2.Client, headers: dict[str, str], queue: str) -> httpx2.Response:
    return client.post("/api/v1/push", json={"items": [{"queue": queue, "payload": 1}]}, headers=headers)
