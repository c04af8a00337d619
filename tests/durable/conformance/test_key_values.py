from __future__ import annotations

import pytest

from queen.durable.model import KeyValue, PruneOptions, TurnCommit
from queen.durable.provider import Provider
from tests.durable.conformance.story import (
    begin,
    continue_as_new,
    fetch,
    finish,
    key_cleared,
    key_set,
    keys_cleared,
    raised,
    start,
    started,
    told,
    turn,
)


async def live(provider: Provider, instance: str = "a") -> dict[str, str]:
    return {key: found.value for key, found in (await provider.get_kv_all_values(instance)).items()}


async def snapshot(provider: Provider, instance: str = "a") -> dict[str, str]:
    await provider.enqueue_for_orchestrator(raised(instance))
    item = await fetch(provider)
    await provider.abandon_orchestration_item(item.token)
    return {key: found.value for key, found in item.kv.items()}


async def test_set_overwrite_clear(provider: Provider) -> None:
    await begin(provider, "a", [key_set("a", 2, "k", "1"), key_set("a", 3, "l", "x")])
    assert await provider.get_kv_value("a", "k") == KeyValue("1", 200)
    await turn(provider, "a", [key_set("a", 4, "k", "2")])
    assert await provider.get_kv_value("a", "k") == KeyValue("2", 400)
    await turn(provider, "a", [key_cleared("a", 5, "k")])
    assert await provider.get_kv_value("a", "k") is None
    assert await live(provider) == {"l": "x"}


async def test_what_is_missing_is_none(provider: Provider) -> None:
    assert await provider.get_kv_value("nobody", "k") is None
    assert await provider.get_kv_all_values("nobody") == {}
    await begin(provider, "a")
    assert await provider.get_kv_value("a", "k") is None


async def test_the_order_within_a_turn_decides(provider: Provider) -> None:
    await begin(
        provider,
        "a",
        [
            key_set("a", 2, "k", "1"),
            key_cleared("a", 3, "k"),
            key_set("a", 4, "k", "2"),
            key_set("a", 5, "gone", "x"),
            keys_cleared("a", 6),
            key_set("a", 7, "after", "y"),
        ],
    )
    assert await live(provider) == {"after": "y"}


async def test_clear_all_hides_keys_of_both_layers(provider: Provider) -> None:
    await begin(provider, "a", [key_set("a", 2, "old", "1")])
    await continue_as_new(provider, "a", 2)
    await turn(provider, "a", [key_set("a", 2, "new", "2", 2)], execution_id=2)
    assert await live(provider) == {"old": "1", "new": "2"}
    await turn(provider, "a", [keys_cleared("a", 3, 2)], execution_id=2)
    assert await live(provider) == {}
    assert await snapshot(provider) == {"old": "1"}


async def test_the_snapshot_of_a_turn_leaves_out_its_own_execution(provider: Provider) -> None:
    await begin(provider, "a", [key_set("a", 2, "k", "1")])
    assert await snapshot(provider) == {}
    assert await live(provider) == {"k": "1"}


@pytest.mark.parametrize("status", ["Completed", "Failed"])
async def test_the_end_of_an_execution_folds_its_changes(provider: Provider, status: str) -> None:
    await begin(provider, "a", [key_set("a", 2, "k", "1"), key_set("a", 3, "l", "2")])
    await turn(provider, "a", [key_cleared("a", 4, "l")])
    await finish(provider, "a", status)
    assert await live(provider) == {"k": "1"}
    assert await snapshot(provider) == {"k": "1"}


async def test_continue_as_new_hands_the_keys_on(provider: Provider) -> None:
    await begin(provider, "a", [key_set("a", 2, "k", "1"), key_set("a", 3, "l", "2")])
    await continue_as_new(provider, "a", 2)
    assert await snapshot(provider) == {"k": "1", "l": "2"}
    item = await fetch(provider)
    await provider.abandon_orchestration_item(item.token)
    await turn(provider, "a", [key_set("a", 2, "k", "10", 2), key_cleared("a", 3, "l", 2)], execution_id=2)
    assert await snapshot(provider) == {"k": "1", "l": "2"}
    assert await live(provider) == {"k": "10"}


async def test_tombstones_are_folded_too(provider: Provider) -> None:
    await begin(provider, "a", [key_set("a", 2, "k", "1")])
    await continue_as_new(provider, "a", 2)
    await turn(provider, "a", [key_cleared("a", 2, "k", 2)], execution_id=2)
    await continue_as_new(provider, "a", 3)
    assert await snapshot(provider) == {}
    assert await live(provider) == {}


async def test_pruning_keeps_the_keys(provider: Provider) -> None:
    await begin(provider, "a", [key_set("a", 2, "k", "1")])
    await continue_as_new(provider, "a", 2)
    assert (await provider.prune_executions("a", PruneOptions())).executions == 1
    assert await live(provider) == {"k": "1"}


async def test_instances_do_not_see_each_other(provider: Provider) -> None:
    await begin(provider, "a", [key_set("a", 2, "k", "1")])
    await begin(provider, "b", [key_set("b", 2, "k", "2")])
    await turn(provider, "b", [keys_cleared("b", 3)])
    assert await live(provider, "a") == {"k": "1"}
    assert await live(provider, "b") == {}


async def test_deleting_an_instance_deletes_its_keys_and_its_childrens(provider: Provider) -> None:
    await begin(provider, "root", [key_set("root", 2, "k", "1")])
    await provider.enqueue_for_orchestrator(start("child", parent_instance="root"))
    item = await fetch(provider)
    commit = TurnCommit(
        execution_id=1,
        history_delta=(started("child"), key_set("child", 2, "k", "2")),
        metadata=told(parent_instance="root"),
    )
    await provider.ack_orchestration_item(item.token, commit)
    await provider.delete_instance("root", force=True)
    assert await live(provider, "root") == {}
    assert await live(provider, "child") == {}


@pytest.mark.parametrize("key", ["", " ", "ключ", "a/b?c=d&e", "'; drop table kv_store; --", "x" * 500, "🔑"])
async def test_any_text_is_a_key(provider: Provider, key: str) -> None:
    await begin(provider, "a", [key_set("a", 2, key, "v")])
    await finish(provider, "a")
    assert await live(provider) == {key: "v"}
    assert await provider.get_kv_value("a", key) == KeyValue("v", 200)


@pytest.mark.parametrize("value", ["", "0", "x" * 65_536, '"\\u0000"'])
async def test_any_text_is_a_value(provider: Provider, value: str) -> None:
    await begin(provider, "a", [key_set("a", 2, "k", value)])
    assert await live(provider) == {"k": value}
