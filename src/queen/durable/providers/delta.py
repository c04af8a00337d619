"""The read models a turn's delta changes: custom status and key-values."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from queen.durable.events import (
    CustomStatusUpdated,
    Event,
    KeyValueCleared,
    KeyValuesCleared,
    KeyValueSet,
    OrchestrationStarted,
)
from queen.durable.model import ATTRIBUTE_PREFIX

__all__ = ["Delta"]


@dataclass(slots=True)
class Delta:
    """Net effect of a turn. ``kv_cleared`` comes before ``kv``; a ``None`` value clears its key."""

    status_changed: bool = False
    status: str | None = None
    kv_cleared: bool = False
    kv: dict[str, tuple[str | None, int]] = field(default_factory=dict)

    def begin(self, event: OrchestrationStarted) -> None:
        """The keys an execution begins with, where they are not those the one before left."""
        if event.initial_keys is not None:
            self.kv_cleared = True
            self.kv = {key: (value, at) for key, value, at in event.initial_keys}
        for name, value in event.attributes.items():
            self.kv[f"{ATTRIBUTE_PREFIX}{name}"] = value, event.timestamp_ms

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Delta":
        """Fold events in order."""
        delta = cls()
        for event in events:
            match event:
                case OrchestrationStarted():
                    delta.begin(event)
                case CustomStatusUpdated():
                    delta.status_changed, delta.status = True, event.value
                case KeyValueSet():
                    delta.kv[event.key] = (event.value, event.updated_at_ms)
                case KeyValueCleared():
                    delta.kv[event.key] = (None, event.timestamp_ms)
                case KeyValuesCleared():
                    delta.kv_cleared = True
                    delta.kv.clear()
                case _:
                    pass
        return delta
