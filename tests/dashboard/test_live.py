from __future__ import annotations

from pathlib import Path

import httpx2
import msgspec
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.conftest import Shop
from tests.server.calls import push
from tests.server.running import Process


def test_a_page_changes_in_place_without_a_reload(page: Page, api: httpx2.Client) -> None:
    push(api, "live.one", 1)
    page.goto("/queues?search=live.one")
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("window.loadedOnce = true")
    row = page.locator("tr", has_text="live.one")
    expect(row.locator("td").first).to_have_text("1")
    push(api, "live.one", 2, 3)
    expect(row.locator("td").first).to_have_text("3")
    assert page.evaluate("window.loadedOnce") is True


def test_a_queue_that_is_newer_than_the_look_is_found_by_its_name(api: httpx2.Client, shop: Shop) -> None:
    api.get("/queues")
    looker = shop.broker.looker
    looker._look = msgspec.structs.replace(looker._look, cost=60.0)  # as on a slow machine: it counts for long
    push(api, "live.new", 1)
    rows = api.get("/queues", params={"search": "live.new", "format": "json"}).json()["page"]["queues"]
    assert [row["name"] for row in rows] == ["live.new"]


def test_a_refresh_keeps_what_is_being_edited(page: Page, api: httpx2.Client) -> None:
    push(api, "live.edit", 1)
    page.goto("/queue?name=live.edit&tab=configuration")
    expect(page.locator("#live")).to_have_text("live")
    page.locator("#option-lease_time").fill("77")
    push(api, "live.edit", 2)
    page.evaluate("refresh(true)")
    expect(page.locator("#option-lease_time")).to_have_value("77")


def test_a_page_lives_through_a_restart_of_its_broker(chromium: Browser, database: str, tmp_path: Path) -> None:
    broker = Process(database, tmp_path)
    broker.start()
    context = chromium.new_context(base_url=broker.url)
    try:
        with httpx2.Client(base_url=broker.url, timeout=40) as client:
            push(client, "kept", 1, 2)
        window = context.new_page()
        window.goto("/queues")
        expect(window.locator("#live")).to_have_text("live")
        broker.kill()
        expect(window.locator("#live")).to_have_text("no connection")
        expect(window.locator("tr", has_text="kept").locator("td").first).to_have_text("2")
        broker.start()
        expect(window.locator("#live")).to_have_text("live")
        with httpx2.Client(base_url=broker.url, timeout=40) as client:
            push(client, "kept", 3)
        expect(window.locator("tr", has_text="kept").locator("td").first).to_have_text("3")
    finally:
        context.close()
        broker.kill()
