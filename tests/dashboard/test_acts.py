"""Every act of every page, done in a browser and checked through the API."""

from __future__ import annotations

from typing import Any

import httpx2
import psycopg
import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.clicking import Operator
from tests.dashboard.conftest import Seen, Shop
from tests.server.calls import ack, configure, pop, push


@pytest.fixture
def operator(page: Page) -> Operator:
    return Operator(page)


def page_of(api: httpx2.Client, address: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(address, headers={"accept": "application/json"}).json()["page"]
    return found


def test_pause_undo_and_pause_again(operator: Operator, api: httpx2.Client) -> None:
    push(api, "act.pause", 1)
    operator.start("/queue?name=act.pause")
    operator.click("Pause…")
    operator.click("Pause", within=operator.dialog)
    operator.told("act.pause is paused")
    expect(operator.page.locator("h1")).to_contain_text("paused")
    assert pop(api, "act.pause") == []
    operator.click("Undo")
    operator.told("hands out messages again")
    assert len(pop(api, "act.pause")) == 1
    assert [each["act"] for each in page_of(api, "/queue?name=act.pause&tab=audit")["acts"]] == ["resume", "pause"]


def test_push_a_message_and_take_it_back(operator: Operator, api: httpx2.Client) -> None:
    push(api, "act.push", 1)
    operator.start("/queue?name=act.push")
    operator.click("Push…")
    operator.page.fill("#push-partition", "customer-9")
    operator.page.fill("#push-payload", '{"hello": "world"}')
    operator.click("Push", within=operator.dialog)
    operator.told("Pushed to act.push / customer-9")
    assert pop(api, "act.push", "customer-9")[0]["data"] == {"hello": "world"}
    operator.click("Push…")
    operator.click("Push", within=operator.dialog)
    operator.told("Pushed to act.push / Default")
    operator.click("Undo")
    operator.told("is deleted")
    assert page_of(api, "/queue?name=act.push")["kept"] == 2


def test_a_bad_value_in_the_configuration_changes_nothing(operator: Operator, api: httpx2.Client, seen: Seen) -> None:
    seen.expected = ("400 (Bad Request)",)
    configure(api, "act.configure", leaseTime=30)
    operator.start("/queue?name=act.configure&tab=configuration")
    operator.page.fill("#option-lease_time", "soon")
    operator.page.fill("#option-retry_limit", "7")
    operator.click("Preview changes…")
    expect(operator.dialog).to_contain_text("lease_time must be a whole number")
    operator.click("Close", within=operator.dialog)
    config = page_of(api, "/queue?name=act.configure")["config"]
    assert (config["lease_time"], config["retry_limit"]) == (30, 3)
    # Also when somebody goes round the preview.
    answer = api.post(
        "/act/configure",
        data={"queue": "act.configure", "lease_time": "-1", "retry_limit": "7"},
        headers={"x-queen-dashboard": "1"},
    )
    assert (answer.status_code, "lease_time must not be negative" in answer.text) == (400, True)
    assert page_of(api, "/queue?name=act.configure")["config"]["retry_limit"] == 3


def test_a_change_of_configuration_is_previewed_done_and_undone(operator: Operator, api: httpx2.Client) -> None:
    configure(api, "act.change", leaseTime=30)
    operator.start("/queue?name=act.change&tab=configuration")
    operator.page.fill("#option-lease_time", "2m")
    operator.page.select_option("#option-partial_failure", "retry")
    operator.click("Preview changes…")
    expect(operator.dialog).to_contain_text("120 s")
    expect(operator.dialog).to_contain_text("Counts from the next batch on")
    operator.click("Change", within=operator.dialog)
    operator.told("lease_time is now 120 (was 30)")
    config = page_of(api, "/queue?name=act.change")["config"]
    assert (config["lease_time"], config["partial_failure"]) == (120, "retry")
    operator.click("Undo")
    operator.told("lease_time is now 30 (was 120)")
    config = page_of(api, "/queue?name=act.change")["config"]
    assert (config["lease_time"], config["partial_failure"]) == (30, "dlq")


def test_seek_with_a_preview_and_back(operator: Operator, api: httpx2.Client) -> None:
    push(api, "act.seek", *range(40))
    for message in pop(api, "act.seek", batch=40, consumerGroup="audit"):
        ack(api, message, consumerGroup="audit")
    operator.start("/group?queue=act.seek&name=audit")
    operator.click("Seek…")
    expect(operator.page.locator("#seek-preview")).to_contain_text("Will deliver 40 again and leave out 0")
    operator.page.check("input[value=end]")
    expect(operator.page.locator("#seek-preview")).to_contain_text("Will deliver 0 again")
    operator.page.check("input[value=start]")
    expect(operator.page.locator("#seek-preview")).to_contain_text("Will deliver 40 again")
    operator.click("Seek", within=operator.dialog)
    operator.told("40 will be delivered again")
    assert page_of(api, "/group?queue=act.seek&name=audit")["row"]["waiting"] == 40
    operator.click("Undo")
    operator.told("stands where it was")
    assert page_of(api, "/group?queue=act.seek&name=audit")["row"]["waiting"] == 0


def test_a_group_is_deleted_with_what_it_frees(operator: Operator, api: httpx2.Client, seen: Seen) -> None:
    seen.expected = ("404 (Not Found)",)  # what the page showed is gone
    push(api, "act.forget", *range(5))
    pop(api, "act.forget", consumerGroup="old")
    for message in pop(api, "act.forget", batch=5, consumerGroup="new"):
        ack(api, message, consumerGroup="new")
    operator.start("/group?queue=act.forget&name=old")
    operator.click("Delete…")
    expect(operator.dialog).to_contain_text("It frees 5 messages")
    operator.click("Delete", within=operator.dialog)
    operator.told("old is forgotten on act.forget")
    assert [each["name"] for each in page_of(api, "/queue?name=act.forget")["groups"]] == ["new"]


def bury_many(database: str, queue: str, count: int, error: str = "GatewayTimeout: no answer") -> None:
    """Dead letters of the first message of a queue, as many as wanted."""
    with psycopg.connect(database) as connection:
        connection.execute(
            "insert into queen.dead_letter_queue (queue_id, partition_id, consumer_group, seq, message_id,"
            " transaction_id, payload, is_encrypted, created_at, error_message, failed_at)"
            " select q.id, p.id, 'billing', m.seq, m.id, 'dead-' || n, m.payload, false, m.created_at, %s, now()"
            " from queen.queues q join queen.partitions p on p.queue_id = q.id"
            " join queen.messages m on m.partition_id = p.id cross join generate_series(1, %s) n where q.name = %s",
            (error, count, queue),
        )


def test_ten_thousand_are_redriven_with_progress(operator: Operator, api: httpx2.Client, shop: Shop) -> None:
    push(api, "act.redrive", 1)
    pop(api, "act.redrive", consumerGroup="billing")
    bury_many(shop.database, "act.redrive", 10_000)
    operator.start("/dead-letters?queue=act.redrive")
    operator.click("Redrive all matching…")
    expect(operator.dialog).to_contain_text("10\N{NARROW NO-BREAK SPACE}000 dead letters will be pushed again")
    operator.click("Redrive 10", within=operator.dialog)
    expect(operator.page.locator("#redriven")).to_be_visible()
    steps = set()
    while "Done." not in operator.dialog.inner_text():
        steps.add(operator.page.locator("#redriven").inner_text())
    assert len(steps) > 2, "there was no progress to see"
    expect(operator.page.locator("#redriven")).to_have_text("10\N{NARROW NO-BREAK SPACE}000")
    operator.click("Close", within=operator.dialog)
    expect(operator.page.locator("main")).to_contain_text("No dead letter matches")
    assert page_of(api, "/queue?name=act.redrive")["kept"] == 10_001


def test_a_redrive_is_cancelled_halfway(operator: Operator, api: httpx2.Client, shop: Shop) -> None:
    push(api, "act.cancel", 1)
    pop(api, "act.cancel", consumerGroup="billing")
    bury_many(shop.database, "act.cancel", 6000)
    operator.start("/dead-letters?queue=act.cancel")
    operator.click("Redrive all matching…")
    operator.click("Redrive 6", within=operator.dialog)
    operator.click("Cancel", within=operator.dialog)
    expect(operator.dialog).to_be_hidden()
    left = page_of(api, "/dead-letters?queue=act.cancel")["matching"]
    assert 0 < left < 6000
    operator.start("/dead-letters?queue=act.cancel")
    operator.click("Purge all matching…")
    expect(operator.dialog).to_contain_text("dead letters are removed for good")
    operator.click("Remove", within=operator.dialog)
    operator.told("removed for good")
    assert page_of(api, "/dead-letters?queue=act.cancel")["matching"] == 0


def test_edit_a_dead_letter_and_redrive_it(operator: Operator, api: httpx2.Client, seen: Seen) -> None:
    seen.expected = ("400 (Bad Request)",)
    push(api, "act.edit", {"amount": "ten"})
    ack(api, pop(api, "act.edit")[0], "dlq", error="ValueError: amount")
    operator.start("/dead-letters?queue=act.edit")
    operator.follow("act.edit / Default")
    operator.page.fill("#payload", '{"amount": ten}')
    operator.click("Redrive with this payload")
    expect(operator.page.locator(".error")).to_contain_text("the payload is not JSON")
    operator.page.fill("#payload", '{"amount": 10}')
    operator.click("Redrive with this payload")
    operator.told("1\N{NO-BREAK SPACE}dead letter redriven with the edited payload")
    assert pop(api, "act.edit")[0]["data"] == {"amount": 10}


def test_chosen_dead_letters_are_redriven_or_purged(operator: Operator, api: httpx2.Client) -> None:
    push(api, "act.chosen", *range(4))
    for message in pop(api, "act.chosen", batch=4):
        ack(api, message, "dlq", error="no")
    operator.start("/dead-letters?queue=act.chosen")
    boxes = operator.page.locator("input[name=id]")
    boxes.nth(0).check()
    boxes.nth(1).check()
    operator.click("Redrive chosen")
    operator.told("2\N{NO-BREAK SPACE}dead letters redriven")
    expect(boxes).to_have_count(2)
    operator.page.once("dialog", lambda dialog: dialog.accept())
    operator.page.locator("input[data-all]").check()
    operator.click("Purge chosen")
    operator.told("2\N{NO-BREAK SPACE}dead letters removed for good")
    assert page_of(api, "/dead-letters?queue=act.chosen")["matching"] == 0


def test_remove_all_messages_and_the_queue(operator: Operator, api: httpx2.Client, seen: Seen) -> None:
    seen.expected = ("400 (Bad Request)", "404 (Not Found)")
    push(api, "act.remove", *range(3))
    operator.start("/queue?name=act.remove&tab=configuration")
    operator.click("Remove all messages…")
    expect(operator.dialog).to_contain_text("3 messages are removed")
    operator.click("Remove", within=operator.dialog)
    expect(operator.dialog.locator(".error")).to_contain_text("type the name of the queue")
    operator.page.fill("#confirm", "act.remove")
    operator.click("Remove", within=operator.dialog)
    operator.told("3\N{NO-BREAK SPACE}messages removed")
    operator.click("Delete the queue…")
    operator.page.fill("#confirm", "act.remove")
    operator.click("Delete", within=operator.dialog)
    operator.told("act.remove is gone")
    assert api.get("/queue?name=act.remove").status_code == 404


def test_a_message_is_pushed_again_and_deleted(operator: Operator, api: httpx2.Client, seen: Seen) -> None:
    seen.expected = ("404 (Not Found)",)  # what the page showed is gone
    push(api, "act.message", {"n": 1}, transactionId="first")
    operator.start("/messages?queue=act.message")
    operator.follow("act.message / Default")
    operator.click("Push again…")
    operator.click("Push again", within=operator.dialog)
    operator.told("Pushed again to act.message / Default as message 2")
    operator.click("Delete…")
    operator.click("Delete", within=operator.dialog)
    operator.told("Message 1 of act.message / Default is deleted")
    assert page_of(api, "/queue?name=act.message")["kept"] == 1


def test_steering_a_workflow(operator: Operator, api: httpx2.Client) -> None:
    operator.start("/workflow?id=checkout+waits")
    operator.click("Raise event…")
    operator.page.fill("#event-name", "approval")
    operator.click("Raise", within=operator.dialog)
    operator.told("Raised approval in checkout waits")
    operator.click("Fork…")
    operator.page.fill("#fork-id", "a fork")
    operator.click("Fork", within=operator.dialog)
    operator.told("a fork goes on from there")
    operator.click("Cancel…")
    operator.click("Cancel it", within=operator.dialog)
    operator.told("was asked to end")
    operator.start("/workflow?id=checkout+fails")
    operator.click("Try again…")
    operator.click("Try again", within=operator.dialog)
    operator.told("checkout fails is tried again")
    operator.start("/schedules")
    operator.click("Run now")
    operator.told("night runs now")
    operator.click("Pause")
    operator.told("night is paused")
    operator.click("Undo")
    operator.told("night goes on with its next time")
    acts = [each["act"] for each in page_of(api, "/system?tab=audit")["acts"]]
    assert {"workflow-raise", "workflow-fork", "workflow-cancel", "workflow-retry", "schedule"} <= set(acts)


@pytest.mark.parametrize(("mode", "button", "on", "off"), [
    ("push", "Pushes to disk…", "Pushes go to the disk buffer", "Pushes go to the database"),
    ("pop", "Pops off…", "Pops are switched off", "Pops are handed out again"),
])  # fmt: skip
def test_maintenance_is_switched_on_and_off(
    operator: Operator, api: httpx2.Client, mode: str, button: str, on: str, off: str
) -> None:
    operator.start("/system")
    operator.click(button)
    operator.click("Switch on", within=operator.dialog)
    operator.told(on)
    assert page_of(api, "/system")["process"][f"{mode}Maintenance"] is True
    operator.click("Undo")
    operator.told(off)
    assert page_of(api, "/system")["process"][f"{mode}Maintenance"] is False
    acts = [(each["act"], each["target"]) for each in page_of(api, "/system?tab=audit")["acts"][:2]]
    assert acts == [("maintenance", mode)] * 2


def test_what_was_pushed_again_is_taken_back(operator: Operator, api: httpx2.Client) -> None:
    push(api, "act.again", {"n": 1}, transactionId="first")
    operator.start("/messages?queue=act.again")
    operator.follow("act.again / Default")
    operator.click("Push again…")
    operator.click("Push again", within=operator.dialog)
    operator.told("as message 2")
    operator.click("Undo")
    operator.told("Message 2 of act.again / Default is deleted")
    assert page_of(api, "/queue?name=act.again")["kept"] == 1
