"""The verbs and services with every option against a model, and defects planted to see that the comparison notices."""

from __future__ import annotations

import os
import random
import sys
import time

import pytest

from tests.sql.mutation import plant
from tests.sql.walk import World, check
from tests.support.postgres import MAJOR

# The functions are the same on both: on 16 it is about what that server does otherwise.
STEPS = int(os.environ.get("QUEEN_TEST_MODEL_STEPS", "20000" if MAJOR == 18 else "6000"))
REPLAY = "QUEEN_TEST_MODEL_REPLAY"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(4))
async def test_every_option_together(database: str, part: int) -> None:
    async with World.open(database) as world:
        failure = await world.search(part * 1_000_000, STEPS // 4)
        check(failure and await world.shorten(failure))


@pytest.mark.scale
@pytest.mark.timeout(4 * 3600)
async def test_every_option_for_an_hour(database: str) -> None:
    """On seeds of its own. A walk waits for nothing, so that a core is busy all the time: here, or in the server."""
    seconds = float(os.environ.get("QUEEN_TEST_MODEL_SECONDS", "3600"))
    seed, steps, end = random.SystemRandom().randrange(2**40), 0, time.monotonic() + seconds
    async with World.open(database) as world:
        while time.monotonic() < end:
            failure = await world.search(seed, 2000)
            check(failure and await world.shorten(failure, limit=600))
            seed, steps = seed + 2000, steps + world.taken
    sys.stdout.write(f"{steps} steps without a violation\n")


@pytest.mark.skipif(REPLAY not in os.environ, reason="runs a walk again that failed")
async def test_a_walk_again(database: str) -> None:
    seed, _, steps = os.environ[REPLAY].partition(":")
    async with World.open(database) as world:
        check(await world.walk(int(seed), *([[int(step) for step in steps.split(",")]] if steps else [])))


PLANTED = [
    "a-cursor-that-is-a-time",
    "an-ack-that-is-not-fenced",
    "single-acks-that-are-not-fenced",
    "a-lost-wake-up-on-push",
    "a-lost-wake-up-on-ack",
    "a-retry-counted-twice",
    "a-lease-that-hides-nothing",
    "a-lease-that-ends-too-early",
    "retries-held-against-the-next-message",
    "a-cursor-that-goes-back",
    "a-cursor-that-passes-its-batch",
    "a-lease-that-never-ends",
    "a-lease-that-is-not-handed-back",
    "a-delay-that-nobody-waits-for",
    "a-count-that-outlives-what-was-counted",
    "a-partition-that-is-never-ready-again",
    "retention-by-the-fastest-group",
    "a-deletion-without-a-skip",
    "a-seek-that-keeps-the-lease",
    "scheduled-messages-out-of-order",
    "a-schedule-that-is-never-ended",
    "duplicates-stored-again",
]


# The seed of the first walk that notices it, where the search from 0 on would be long.
FIRST = {"a-cursor-that-goes-back": 89}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PLANTED)
async def test_a_planted_defect_is_noticed(database: str, name: str) -> None:
    plant(database, name)
    async with World.open(database) as world:
        assert await world.search(FIRST.get(name, 0), 8000) is not None
