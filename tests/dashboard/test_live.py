from __future__ import annotations

import httpx2
from playwright.sync_api import Page, expect

from tests.server.calls import push
from tests.server.running import Running


def test_a_page_changes_in_place_without_a_reload(page: Page, shop: Running) -> None:
    with httpx2.Client(base_url=shop.url) as client:
        push(client, "live.one", 1)
        page.goto("/queues?search=live.one")
        expect(page.locator("#live")).to_have_text("live")
        page.evaluate("window.loadedOnce = true")
        row = page.locator("tr", has_text="live.one")
        expect(row.locator("td").first).to_have_text("1")
        push(client, "live.one", 2, 3)
        expect(row.locator("td").first).to_have_text("3")
    assert page.evaluate("window.loadedOnce") is True
