from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

import queen
from queen.client.endpoints import Endpoints
from queen.config import Settings
from queen.server.app import App
from queen.server.broker import Broker

Answer = Callable[[httpx2.Request], httpx2.Response]


def client(answer: Answer, **options: Any) -> queen.Client:
    """A client whose network is a function."""
    retry = queen.Retry(attempts=4, base=0.001, cap=0.002)
    return queen.connect("http://broker", transport=httpx2.MockTransport(answer), retry=retry, **options)


async def test_errors_keep_their_code_and_their_figures() -> None:
    def full(_: httpx2.Request) -> httpx2.Response:
        body = {"error": "full", "code": "QUEUE_FULL", "retryable": True, "details": {"depth": 3, "limit": 3}}
        return httpx2.Response(429, json=body)

    async with client(full) as q:
        with pytest.raises(queen.QueueFull) as caught:
            await q.push("orders", 1)
    assert (caught.value.code, caught.value.figures["limit"]) == ("QUEUE_FULL", 3)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "INVALID_BATCH", queen.InvalidRequest),
        (401, None, queen.NotAuthenticated),
        (403, None, queen.NotAllowed),
        (404, "QUEUE_NOT_FOUND", queen.QueueNotFound),
        (413, None, queen.PayloadTooLarge),
        (418, "SOMETHING_NEW", queen.RequestError),
        (500, "INTERNAL", queen.InternalError),
    ],
)
async def test_an_error_is_what_the_broker_says(status: int, code: str | None, kind: type[queen.QueenError]) -> None:
    asked = 0

    def refuse(_: httpx2.Request) -> httpx2.Response:
        nonlocal asked
        asked += 1
        return httpx2.Response(status, json={"error": "no", "code": code})

    async with client(refuse) as q:
        with pytest.raises(kind, match="no"):
            await q.pop("orders")
    assert asked == 1


async def test_a_push_whose_answer_is_lost_is_sent_again_and_stored_once() -> None:
    seen: list[str] = []

    def lose_two(request: httpx2.Request) -> httpx2.Response:
        item = json.loads(request.content)["items"][0]
        seen.append(item["transactionId"])
        if len(seen) <= 2:
            raise httpx2.ReadError("gone")
        return httpx2.Response(201, json=[{"status": "duplicate", "message_id": item["transactionId"]}])

    async with client(lose_two) as q:
        pushed = await q.push("orders", 1)
    assert pushed.status == "queued"
    assert seen == [pushed.transaction_id] * 3


async def test_a_transaction_whose_answer_is_lost_is_not_sent_again() -> None:
    asked = 0

    def lose(_: httpx2.Request) -> httpx2.Response:
        nonlocal asked
        asked += 1
        raise httpx2.ReadTimeout("late")

    async with client(lose) as q:
        transaction = q.transaction()
        transaction.push("orders", 1)
        with pytest.raises(queen.AnswerLost):
            await transaction.commit()
    assert asked == 1


async def test_what_is_unavailable_is_tried_again_within_limits() -> None:
    asked = 0

    def away(_: httpx2.Request) -> httpx2.Response:
        nonlocal asked
        asked += 1
        return httpx2.Response(503, json={"error": "away", "code": "STORE_UNAVAILABLE", "retryable": True})

    async with client(away) as q:
        with pytest.raises(queen.StoreUnavailable):
            await q.pop("orders")
    assert asked == 4


async def test_a_token_is_sent_and_time_outs_are_set_by_phase() -> None:
    found: list[tuple[str | None, Any]] = []

    def note(request: httpx2.Request) -> httpx2.Response:
        found.append((request.headers.get("authorization"), request.extensions["timeout"]))
        return httpx2.Response(204)

    async with client(note, token="secret", timeouts=queen.Timeouts(connect=1, read=2, write=3, pool=4)) as q:
        await q.pop("orders", wait=30)
    assert found == [("Bearer secret", {"connect": 1, "read": 32, "write": 3, "pool": 4})]


async def test_an_answer_that_is_no_queens_is_a_clear_error() -> None:
    async with client(lambda _: httpx2.Response(200, text="<html>")) as q:
        with pytest.raises(queen.TransportError, match="not one of Queen's"):
            await q.pop("orders")


async def test_the_application_can_be_called_without_a_socket(database: str, tmp_path: Path) -> None:
    broker = Broker(Settings(database_url=database, data_dir=tmp_path, log_level="error"))
    app: Any = App(broker)
    await broker.open()
    try:
        async with queen.connect("http://app", transport=httpx2.ASGITransport(app)) as q:
            await q.push("orders", {"n": 1})
            assert [message.data for message in await q.pop("orders")] == [{"n": 1}]
    finally:
        await broker.drain()
        await broker.close()


def test_the_same_work_goes_to_the_same_broker_until_it_fails() -> None:
    now = 0.0
    endpoints = Endpoints(["http://a", "http://b", "http://c"], clock=lambda: now)
    firsts = {key: endpoints.order(key)[0].url for key in map(str, range(60))}
    assert set(firsts.values()) == {"http://a", "http://b", "http://c"}
    assert firsts == {key: endpoints.order(key)[0].url for key in firsts}
    gone = endpoints.order("0")[0]
    endpoints.failed(gone)
    moved = {key: endpoints.order(key)[0].url for key in firsts}
    assert gone.url not in moved.values()
    assert all(moved[key] == url for key, url in firsts.items() if url != gone.url)
    now += 0.6
    assert endpoints.order("0")[0] is gone
    endpoints.failed(gone)
    assert gone.rests_until == pytest.approx(now + 1.0)
    endpoints.worked(gone)
    assert (gone.failures, gone.rests_until) == (0, 0.0)


def test_pauses_are_random_and_capped() -> None:
    retry = queen.Retry(base=0.1, cap=1.0)
    for attempt in range(12):
        pauses = [retry.delay(attempt) for _ in range(50)]
        assert 0 <= min(pauses) <= max(pauses) <= min(1.0, 0.1 * 2**attempt)
        assert len(set(pauses)) > 40


def test_addresses_are_checked() -> None:
    for url in ("ftp://x", ["http://a", "postgresql://b"], "postgresql://a,postgresql://b"):
        with pytest.raises(queen.InvalidRequest, match="url must be one postgresql:// address"):
            queen.connect(url)
