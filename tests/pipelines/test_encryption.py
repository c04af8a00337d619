"""Payloads of encrypted queues: sealed in the lake, opened only by a replay that has the key."""

from __future__ import annotations

import json

import pytest

import queen
from queen.engine.encryption import KeyRing
from queen.spark.lake.verify import verify
from tests.pipelines.support.lakes import Pond
from tests.spark.conftest import KEY
from tests.spark.test_encryption import seal_queue


@pytest.fixture
def sealed(pond: Pond) -> Pond:
    """An encrypted queue and a plain one in the lake, with a dead letter of the encrypted one."""
    seal_queue(pond.queues, "secret")
    with queen.connect_sync(pond.queues.url, encryption_keys=[KEY]) as client:
        for number in range(6):
            client.push("secret", {"n": number}, partition=f"p{number % 2}")
        client.push("orders", {"n": "plain"}, partition="p0")
        client.ack(client.pop("secret", group="g", batch=1), status="dlq", error="no")
    pond.run("archive")
    return pond


def test_what_is_encrypted_stays_so_in_the_lake(sealed: Pond) -> None:
    rows = sealed.lake.read(sealed.spark, "messages").collect()
    letters = sealed.lake.read(sealed.spark, "dead_letters").collect()
    assert sorted((row.queue, row.is_encrypted) for row in [*rows, *letters]) == [
        ("orders", False), *[("secret", True)] * 7,
    ]  # fmt: skip
    for row in [*rows, *letters]:
        assert (json.loads(row.payload).keys() >= {"encrypted", "iv", "authTag"}) == (row.queue == "secret")
    for path in sealed.path.rglob("*.sealed.parquet"):
        assert b'"n"' not in path.read_bytes()
    verdict = verify(sealed.lake, sealed.queues.url)
    assert (verdict.agrees, [lane.lake for lane in verdict.lanes]) == (True, [3, 3, 1])
    assert sealed.run("reconcile").figures["differing"] == 0


def test_a_replay_chooses_by_what_is_inside_and_seals_again(sealed: Pond) -> None:
    seal_queue(sealed.queues, "again")
    condition = "get_json_object(payload, '$.n') >= 2"
    assert sealed.run("replay", queue="secret", dry_run="true", where=condition).figures["messages"] == 4
    assert sealed.run("replay", queue="secret", to="again", where=condition).rows == 4
    ring = KeyRing([KEY])
    found = {
        partition: [json.loads(ring.open(json.dumps(payload))) for payload in payloads]
        for partition, payloads in sealed.queues.contents("again").items()
    }
    assert found == {"p0": [{"n": 2}, {"n": 4}], "p1": [{"n": 3}, {"n": 5}]}
    assert sealed.run("replay", queue="secret", to="open", where=condition).rows == 4
    assert sealed.queues.contents("open") == found
