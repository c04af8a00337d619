"""Every page in a real browser: no error on the console, nothing from elsewhere, readable for everyone, no overflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
import httpx2
import pytest
from playwright.sync_api import Page, expect

from queen.dashboard.routes import PAGES
from tests.dashboard.conftest import Shop
from tests.dashboard.filling import CORPUS
from tests.server.calls import push

AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
COUNT = 25
RULES = "axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice']})"


OUT_OF_REACH = """
[...document.querySelectorAll('a, button, input, select, textarea, summary')]
  .filter(e => e.offsetParent && !e.disabled && e.type !== 'hidden' && (e.tabIndex < 0 || e.matches('a:not([href])')))
  .concat([...document.querySelectorAll('[hx-get], [hx-post], [data-copy], [data-help]')]
    .filter(e => !e.matches('button, form, div[data-keep], label input, input')))
  .map(e => e.outerHTML)
"""


def violations(page: Page) -> list[str]:
    found: dict[str, Any] = page.evaluate(RULES)
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def test_every_page_is_on_the_list(shop: Shop) -> None:
    assert len(shop.pages()) == COUNT
    assert {f"/{each.partition('?')[0]}" for each in shop.pages()} == set(PAGES)


@pytest.mark.parametrize("number", range(COUNT))
def test_a_page_is_readable_in_light_dark_and_narrow(page: Page, shop: Shop, number: int) -> None:
    address = shop.pages()[number]
    page.add_init_script("window.addEventListener('securitypolicyviolation', e => console.error(e.violatedDirective))")
    answer = page.goto(f"/{address}")
    assert answer is not None
    assert answer.status == 200, address
    expect(page.locator("h1")).to_be_visible()
    if address.startswith("queue?name=payments") and "tab" not in address:
        expect(page.locator(".heat .cell").first).to_be_visible()
    page.evaluate(AXE)
    assert violations(page) == [], address
    assert page.evaluate(OUT_OF_REACH) == [], f"{address}: no key gets there"
    page.emulate_media(color_scheme="dark")
    assert violations(page) == [], f"{address} in dark"
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375, f"{address} overflows"


def test_an_act_by_keys_alone(page: Page, api: httpx2.Client) -> None:
    push(api, "keys.pause", 1)
    page.goto("/queues?search=keys.pause")
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("tr[data-row]")).to_have_count(1)  # what was pushed just now comes with the next look
    page.keyboard.press("j")
    expect(page.locator("tr.at a").first).to_be_focused()
    page.evaluate("refresh(true)")  # what comes meanwhile takes the focus from nobody
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("keys.pause")
    tab_to(page, "Pause…")
    page.keyboard.press("Enter")
    expect(page.locator("#dialog")).to_be_visible()
    tab_to(page, "Pause")
    page.keyboard.press("Enter")
    expect(page.locator("#told")).to_contain_text("keys.pause is paused")


def tab_to(page: Page, words: str) -> None:
    """Press Tab until what is called so has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.innerText") == words:
            return
    raise AssertionError(f"Tab does not get to {words!r}")


def test_keys(page: Page) -> None:
    page.goto("/queues")
    expect(page.locator("#live")).to_have_text("live")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("tr.at")).to_have_count(1)
    assert page.evaluate("document.activeElement.tagName") == "A"
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page.locator("h1")).to_have_text("Dead letters")


def test_a_script_in_data_is_shown_as_text(page: Page, api: httpx2.Client) -> None:
    """Names of queues, partitions and groups, payloads, errors, traces, workflow inputs and results, on every page."""
    for text in CORPUS:
        query = httpx2.QueryParams({"queue": text, "name": text, "partition": text, "search": text, "group": text})
        found = api.get(f"/messages?{query}&format=json").json()["page"]["messages"]
        one = next(each for each in found if each["transactionId"] == text)
        message = httpx2.QueryParams({"partition": one["partitionId"], "transaction": text})
        workflow = httpx2.QueryParams({"id": f"checkout {text}"})
        (dead,) = api.get("/dead-letters", params={"queue": text, "format": "json"}).json()["page"]["deadLetters"]
        for address in (
            f"queue?{query}", f"heat?{query}", f"group?{query}", f"messages?{query}", f"message?{message}",
            f"dead-letters?{query}", f"dead-letter?id={dead['id']}", f"trace?id={one['traceId']}",
            f"workflow?{workflow}",
        ):  # fmt: skip
            html = api.get(f"/{address}").text
            assert text not in html.replace("javascript:window.pwned=1//", "") or text.startswith(("{{", "javascript"))
            page.goto(f"/{address}")
            expect(page.locator("h1")).to_be_visible()
            assert page.evaluate("window.pwned") is None, address
    for address in ("", "queues", "groups", "messages", "dead-letters", "traces", "workflows", "pipeline?name=skew",
                    "pipeline?name=triage"):  # fmt: skip
        page.goto(f"/{address}")
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("window.pwned") is None, address
        assert page.locator("a[href^='javascript:']").count() == 0
