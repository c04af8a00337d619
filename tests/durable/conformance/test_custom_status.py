from __future__ import annotations

from queen.durable.model import CustomStatus
from queen.durable.provider import Provider
from tests.durable.conformance.story import begin, continue_as_new, status_set, turn


async def test_a_fresh_instance_has_none(provider: Provider) -> None:
    await begin(provider, "a")
    assert await provider.get_custom_status("a") is None
    assert await provider.get_custom_status("nobody") is None
    info = await provider.get_instance_info("a")
    assert info is not None
    assert (info.custom_status, info.custom_status_version) == (None, 0)


async def test_set_keep_overwrite_clear(provider: Provider) -> None:
    await begin(provider, "a", [status_set("a", 2, '"one"')])
    assert await provider.get_custom_status("a") == CustomStatus('"one"', 1)
    await turn(provider, "a")
    assert await provider.get_custom_status("a") == CustomStatus('"one"', 1)
    await turn(provider, "a", [status_set("a", 3, '"two"')])
    assert await provider.get_custom_status("a") == CustomStatus('"two"', 2)
    await turn(provider, "a", [status_set("a", 4, None)])
    assert await provider.get_custom_status("a") == CustomStatus(None, 3)


async def test_the_last_one_of_a_turn_counts_and_the_version_rises_once(provider: Provider) -> None:
    await begin(provider, "a", [status_set("a", 2, '"one"'), status_set("a", 3, None), status_set("a", 4, '"last"')])
    assert await provider.get_custom_status("a") == CustomStatus('"last"', 1)


async def test_a_poll_sees_only_news(provider: Provider) -> None:
    await begin(provider, "a", [status_set("a", 2, '"one"')])
    assert await provider.get_custom_status("a", 1) is None
    await turn(provider, "a", [status_set("a", 3, '"two"')])
    assert await provider.get_custom_status("a", 1) == CustomStatus('"two"', 2)
    assert await provider.get_custom_status("a", 2) is None


async def test_it_survives_continue_as_new(provider: Provider) -> None:
    await begin(provider, "a", [status_set("a", 2, '"kept"')])
    await continue_as_new(provider, "a", 2)
    assert await provider.get_custom_status("a") == CustomStatus('"kept"', 1)
