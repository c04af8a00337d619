"""What single pages say about what is there: parked workflows, lakes, results as plots, what happened lately."""

from __future__ import annotations

import httpx2
import pytest
from playwright.sync_api import Page, expect

from queen.dashboard.look import Look
from queen.dashboard.problems import find_problems
from tests.dashboard.conftest import Shop
from tests.server.calls import ack, pop, push


def page_of(api: httpx2.Client, address: str) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = api.get(address, params={"format": "json"}).json()["page"]
    return found


def test_a_parked_workflow_is_a_problem_with_a_way_out(page: Page) -> None:
    page.goto("/")
    row = page.locator(".problems li", has_text="checkout / checkout parked")
    expect(row).to_contain_text("step 2 was charge, the code says ship")
    expect(row).to_contain_text("2\N{NO-BREAK SPACE}h")
    row.get_by_role("button", name="Try again…").click()
    expect(page.locator("#dialog")).to_contain_text("checkout parked")


def test_lakes_with_size_and_freshness(api: httpx2.Client) -> None:
    (lake,) = page_of(api, "/pipelines")["lakes"]
    assert (lake["place"], lake["files"], lake["bytes"], lake["kept"]) == ("host:/data/lake", 3, 1_234_567, 2500)
    assert isinstance(lake["missing"], int)
    html = api.get("/pipelines").text
    assert "1.2\N{NO-BREAK SPACE}MB" in html
    assert f'datetime="{lake["updatedAt"]}'.removesuffix("Z") in html


def test_results_are_drawn(page: Page) -> None:
    page.goto("/pipeline?name=skew")
    expect(page.locator(".skew rect")).to_have_count(72)
    bars = page.locator("table").last.locator("td svg.bar")
    expect(bars).to_have_count(6)
    assert bars.locator(".fill").first.get_attribute("width") == "36.0"
    page.goto("/pipeline?name=triage")
    expect(page.locator("td svg.spark")).to_have_count(6)
    page.goto("/pipeline?name=rollups")
    expect(page.locator("#rolled-plot canvas")).to_be_visible()
    expect(page.locator("#waits-plot canvas")).to_be_visible()


def test_what_happened_lately_comes_by_itself(page: Page, api: httpx2.Client) -> None:
    push(api, "lately", 1)
    page.goto("/system")
    expect(page.locator("#live")).to_have_text("live")
    table = page.locator("table").first
    expect(table.locator("tr", has_text="lately the queue was made")).to_be_visible()
    ack(api, pop(api, "lately")[0], "dlq", error="PrinterJam: tray 2")
    expect(table.locator("tr", has_text="1 dead letter: PrinterJam: tray 2")).to_be_visible()
    api.post("/api/v1/queues/lately/pause")
    expect(table.locator("tr", has_text="Hand out nothing more from a queue")).to_be_visible()
    api.post("/api/v1/queues/lately/resume")


@pytest.mark.parametrize(
    ("replica", "said"),
    [
        ({"name": "reader", "state": "streaming", "seconds": 95.0, "bytes": 10}, "is 1\N{NO-BREAK SPACE}min"),
        ({"name": "", "state": "catchup", "seconds": None, "bytes": 10**9}, "is 1\N{NO-BREAK SPACE}GB behind"),
        ({"name": "reader", "state": "streaming", "seconds": 1.0, "bytes": 10}, None),
        ({"name": "reader", "state": "streaming", "seconds": None, "bytes": None}, None),
    ],
)
def test_a_replica_that_lags_is_a_problem(shop: Shop, replica: dict[str, object], said: str | None) -> None:
    found = [each.text for each in find_problems(Look(replicas=[replica]), shop.broker) if each.kind == "replica"]
    assert [text.startswith(said) for text in found] == [True] if said else found == []
