"""What operators are called for at night, done through the pages in at most six clicks each."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import psycopg
import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.clicking import Operator
from tests.dashboard.conftest import Shop
from tests.dashboard.filling import STUCK
from tests.dashboard.test_acts import bury_many, page_of
from tests.server.calls import ack, configure, pop, push

CLICKS = 6


@pytest.fixture
def operator(page: Page) -> Iterator[Operator]:
    found = Operator(page)
    yield found
    assert 0 < found.clicks <= CLICKS


def test_payments_is_stuck_find_out_why_and_free_it(operator: Operator, api: httpx2.Client) -> None:
    operator.start()
    row = operator.page.locator(".problems li", has_text=f"{STUCK} / customer-7")
    expect(row).to_contain_text("failed once, next try in")
    expect(row).to_contain_text("24\N{NO-BREAK SPACE}messages behind it")
    operator.click("Dead-letter it…", within=row)
    expect(operator.dialog).to_contain_text("24 messages behind it can go on")
    operator.click("Dead-letter it", within=operator.dialog)
    operator.told("those behind it go on")
    (group,) = page_of(api, f"/queue?name={STUCK}")["groups"]
    assert group["waiting"] == 24
    expect(row).to_have_count(0)


def test_redrive_only_yesterdays_gateway_timeouts(operator: Operator, api: httpx2.Client, shop: Shop) -> None:
    push(api, "drill.gateway", 1)
    pop(api, "drill.gateway", consumerGroup="billing")
    bury_many(shop.database, "drill.gateway", 12, "GatewayTimeout: no answer from 10.0.0.1")
    bury_many(shop.database, "drill.gateway", 5, "CardDeclined: 7")
    with psycopg.connect(shop.database) as connection:
        connection.execute(
            "update queen.dead_letter_queue d set failed_at = date_trunc('day', now() at time zone 'utc')"
            " at time zone 'utc' - interval '5 hours' from queen.queues q where q.id = d.queue_id"
            " and q.name = 'drill.gateway' and d.error_message like 'Gateway%' and d.transaction_id < 'dead-5'"
        )
        old = connection.execute(
            "select count(*) from queen.dead_letter_queue d join queen.queues q on q.id = d.queue_id"
            " where q.name = 'drill.gateway' and d.failed_at < now() - interval '4 hours'"
        ).fetchone()
    assert old is not None
    operator.start("/dead-letters")
    operator.page.select_option("#queue", "drill.gateway")
    operator.page.fill("#contains", "GatewayTimeout")
    operator.page.select_option("#period", "yesterday")
    operator.click("Show")
    operator.click("Redrive all matching…")
    expect(operator.dialog).to_contain_text(f"{old[0]} dead letters will be pushed again")
    operator.click("Redrive", within=operator.dialog.locator("form"))
    expect(operator.dialog).to_contain_text("Done.")
    operator.click("Close", within=operator.dialog)
    assert page_of(api, "/dead-letters?queue=drill.gateway")["matching"] == 17 - old[0]


def test_who_moved_this_cursor(operator: Operator, api: httpx2.Client) -> None:
    push(api, "drill.moved", 1, 2)
    pop(api, "drill.moved", consumerGroup="audit")
    form = {"queue": "drill.moved", "group": "audit", "to": "end"}
    assert api.post("/act/seek", data=form, headers={"x-queen-dashboard": "1"}).status_code == 200
    operator.start("/groups")
    operator.follow("audit", within=operator.page.locator("tr", has_text="drill.moved"))
    expect(operator.page.locator("table").last).to_contain_text("anyone")
    expect(operator.page.locator("table").last).to_contain_text("audit stands at the end of drill.moved")


def test_stop_a_queue_that_does_harm(operator: Operator, api: httpx2.Client) -> None:
    push(api, "drill.harm", 1)
    operator.start("/queues?search=drill.harm")
    operator.follow("drill.harm")
    operator.click("Pause…")
    operator.click("Pause", within=operator.dialog)
    operator.told("drill.harm is paused")
    assert pop(api, "drill.harm") == []


def test_resume_what_somebody_forgot(operator: Operator, api: httpx2.Client) -> None:
    push(api, "drill.forgotten", 1)
    api.post("/api/v1/queues/drill.forgotten/pause")
    operator.start()
    row = operator.page.locator(".problems li", has_text="drill.forgotten")
    operator.click("Resume…", within=row)
    operator.click("Resume", within=operator.dialog)
    operator.told("hands out messages again")
    assert len(pop(api, "drill.forgotten")) == 1


def test_what_happened_to_order_4711(operator: Operator, api: httpx2.Client) -> None:
    push(api, "drill.orders", {"order": 4711}, transactionId="order-4711")
    ack(api, pop(api, "drill.orders")[0], "failed", error="no stock")
    operator.start("/messages")
    operator.page.fill("#transaction", "order-4711")
    operator.click("Find")
    operator.follow("drill.orders / Default")
    expect(operator.page.locator("main")).to_contain_text("taken, failed")
    expect(operator.page.locator(".json")).to_contain_text('"order": 4711')


def test_deliver_the_last_hours_again(operator: Operator, api: httpx2.Client) -> None:
    push(api, "drill.again", *range(10))
    for message in pop(api, "drill.again", batch=10, consumerGroup="search"):
        ack(api, message, consumerGroup="search")
    operator.start("/groups?search=drill.again")
    operator.follow("search")
    operator.click("Seek…")
    operator.page.check("input[value=time]")
    operator.page.fill("input[name=time]", "2020-01-01T00:00")
    expect(operator.page.locator("#seek-preview")).to_contain_text("Will deliver 10 again")
    operator.click("Seek", within=operator.dialog)
    operator.told("10 will be delivered again")


def test_consumers_time_out_give_them_longer(operator: Operator, api: httpx2.Client) -> None:
    configure(api, "drill.slow", leaseTime=5)
    operator.start("/queue?name=drill.slow")
    operator.follow("Configuration")
    operator.page.fill("#option-lease_time", "10m")
    operator.click("Preview changes…")
    operator.click("Change", within=operator.dialog)
    operator.told("lease_time is now 600 (was 5)")


def test_which_step_of_an_order_takes_so_long(operator: Operator, shop: Shop) -> None:
    operator.start("/traces")
    operator.page.fill("#id", shop.filled.trace)
    operator.click("Open")
    expect(operator.page.locator(".waterfall rect.critical").first).to_be_visible()
    expect(operator.page.locator("main")).to_contain_text("on the critical path")


def test_a_payload_that_cannot_be_read_is_mended(operator: Operator, api: httpx2.Client) -> None:
    push(api, "drill.mend", {"date": "31/31"})
    ack(api, pop(api, "drill.mend")[0], "dlq", error="ValueError: bad date")
    operator.start("/queue?name=drill.mend")
    operator.follow("Dead letters", within=operator.page.locator(".tabs"))
    operator.follow("drill.mend / Default")
    operator.page.fill("#payload", '{"date": "2026-01-31"}')
    operator.click("Redrive with this payload")
    operator.told("redriven with the edited payload")
    assert pop(api, "drill.mend")[0]["data"] == {"date": "2026-01-31"}
