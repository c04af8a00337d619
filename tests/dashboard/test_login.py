from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import jwt
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.running import Running, run_broker
from tests.support.postgres import TEMPLATE, Postgres

SECRET = "s" * 32


@pytest.fixture(scope="module")
def guarded(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("guarded")
    with (
        postgres.scratch(TEMPLATE) as database,
        run_broker(database, folder, jwt_enabled=True, jwt_secret=SECRET) as running,
        httpx2.Client(base_url=running.url, headers={"authorization": f"Bearer {token(role='admin')}"}) as admin,
    ):
        items = [{"queue": queue, "payload": 1} for queue in ("mine.orders", "theirs")]
        assert admin.post("/api/v1/push", json={"items": items}).status_code == 201
        yield running


def token(**claims: object) -> str:
    return jwt.encode({"sub": "ada", **claims}, SECRET, algorithm="HS256")


@pytest.fixture
def window(chromium: Browser, guarded: Running) -> Iterator[Page]:
    context = chromium.new_context(base_url=guarded.url)
    yield context.new_page()
    context.close()


def log_in(window: Page, given: str, address: str = "/") -> None:
    window.goto(address)
    window.fill("#token", given)
    window.get_by_role("button", name="Log in").click()


def test_log_in_look_and_log_out(window: Page) -> None:
    log_in(window, "nonsense")
    expect(window.get_by_role("alert")).to_contain_text("Invalid token")
    log_in(window, token(role="admin"), "/queues?sort=name")
    expect(window.locator("h1")).to_have_text("Queues")
    assert "sort=name" in window.url
    expect(window.locator("#live")).to_have_text("live")
    expect(window.locator("nav")).to_contain_text("ada")
    window.get_by_role("button", name="Log out").click()
    expect(window.locator("#token")).to_be_visible()


def test_a_reader_finds_no_buttons_that_change_anything(window: Page) -> None:
    log_in(window, token(role="read-only"), "/queue?name=theirs")
    expect(window.locator("#live")).to_have_text("live")
    for address in ("/queue?name=theirs", "/queue?name=theirs&tab=configuration", "/dead-letters", "/system"):
        window.goto(address)
        expect(window.locator("h1")).to_be_visible()
        assert window.locator("main [hx-post], main button[hx-get], main .primary").count() == 0
    assert window.locator("#option-lease_time:not([disabled])").count() == 0


def test_a_token_for_single_queues_is_shown_those_and_may_change_those(window: Page) -> None:
    log_in(window, token(queues={"admin": ["mine.*"]}))
    expect(window.locator("#live")).to_have_text("live")
    expect(window.locator("main")).to_contain_text("mine.orders")
    assert "theirs" not in window.content()
    assert window.get_by_role("link", name="System").count() == 0
    answer = window.goto("/system")
    assert answer is not None
    assert answer.status == 403
    window.goto("/queue?name=mine.orders")
    window.get_by_role("button", name="Pause…").click()
    window.locator("#dialog").get_by_role("button", name="Pause").click()
    expect(window.locator("#told")).to_contain_text("mine.orders is paused")
