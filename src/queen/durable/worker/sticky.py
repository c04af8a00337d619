"""Instances a worker keeps in memory between their turns, so that a turn replays only what is new."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from queen.durable.model import OrchestrationItem
from queen.durable.replay.arrivals import Memory


@dataclass(slots=True)
class _Kept:
    identity: int
    execution_id: int
    memory: Memory


class Sticky:
    """At most `instances` of them, with `events` events in all; the longest unused goes first.

    Who takes an instance has it alone: it comes back only after its turn was committed. The store fences what is
    stale: a memory is good if we committed the last turn, or if the same instance went on elsewhere since.
    """

    def __init__(self, instances: int, events: int) -> None:
        self._instances = instances
        self._events = events
        self._held = 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def is_on(self) -> bool:
        """Whether anything is kept at all."""
        return self._instances > 0

    def take(self, item: OrchestrationItem) -> Memory | None:
        """The memory of the execution an item belongs to, if it is still true."""
        kept = self._pop(item.instance)
        if kept is None:
            return None
        memory, last = kept.memory, item.last_event_id
        same = kept.execution_id == item.execution_id and item.status == "Running"
        ours = item.owned and memory.last_event_id == last
        elsewhere = kept.identity == item.identity != 0 and memory.last_event_id <= last
        if memory.machine is not None and same and (ours or elsewhere):
            return memory
        memory.close()
        return None

    def put(self, item: OrchestrationItem, execution_id: int, memory: Memory) -> None:
        """Keep an instance whose turn was committed."""
        if memory.machine is None:
            return
        if memory.last_event_id > self._events:
            memory.close()
            return
        self._drop(item.instance)
        self._kept[item.instance] = _Kept(item.identity, execution_id, memory)
        self._held += memory.last_event_id
        while len(self._kept) > self._instances or self._held > self._events:
            self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Let go of everything."""
        for instance in list(self._kept):
            self._drop(instance)

    def _drop(self, instance: str) -> None:
        kept = self._pop(instance)
        if kept is not None:
            kept.memory.close()

    def _pop(self, instance: str) -> _Kept | None:
        kept = self._kept.pop(instance, None)
        if kept is not None:
            self._held -= kept.memory.last_event_id
        return kept
