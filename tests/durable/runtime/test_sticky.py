"""What a worker remembers of instances, and when it is still true."""

from __future__ import annotations

from queen.durable import Provider
from queen.durable.duroxide.generators import generator_entry
from queen.durable.model import OrchestrationItem
from queen.durable.replay.arrivals import Memory
from queen.durable.replay.machine import Machine
from queen.durable.worker.sticky import Sticky
from tests.durable.conformance.story import begin, fetch, raised, started, told


def remembered() -> Memory:
    """The memory of an instance that has one event."""
    return Memory(last=started("a"), machine=Machine(generator_entry(lambda _ctx, _value: iter(()))))


async def woken(provider: Provider) -> OrchestrationItem:
    """The instance as it is handed out next."""
    await provider.enqueue_for_orchestrator(raised("a"))
    item = await fetch(provider)
    await provider.abandon_orchestration_item(item.token)
    return item


async def test_a_memory_is_that_of_this_very_instance(provider: Provider) -> None:
    """Another worker made it again, with as many events as the one that we remember."""
    sticky = Sticky(instances=8, events=100)
    await begin(provider, "a", metadata=told(status="Running"))
    first = await woken(provider)
    memory = remembered()
    sticky.put(first, 1, memory)
    assert sticky.take(first) is memory, "nobody has changed anything"
    sticky.put(first, 1, memory)
    await provider.delete_instance("a", force=True)
    await begin(provider, "a", metadata=told(status="Running"))
    second = await woken(provider)
    assert (second.instance, second.last_event_id) == (first.instance, first.last_event_id)
    assert sticky.take(second) is None
