"""New executions from old histories: what `retry`, `reset` and `fork` have in common."""

from __future__ import annotations

from queen.durable.errors import StepNotFound
from queen.durable.events import OrchestrationStarted
from queen.durable.provider import Provider
from queen.durable.providers.delta import Delta

Keys = tuple[tuple[str, str, int], ...]


async def keys_before(provider: Provider, instance: str, execution_id: int) -> Keys:
    """The keys an instance had when an execution began, from what the executions before it set."""
    live: dict[str, tuple[str, int]] = {}
    for earlier in range(1, execution_id + 1):
        history = await provider.read_with_execution(instance, earlier)
        started = history[0] if history else None
        if not isinstance(started, OrchestrationStarted):
            raise StepNotFound(f"execution {earlier} of {instance!r} is gone: the keys it left are not known")
        if started.initial_keys is not None:
            live = {key: (value, at) for key, value, at in started.initial_keys}
        if earlier < execution_id:
            delta = Delta.of(history)
            if delta.kv_cleared:
                live.clear()
            for key, (value, at) in delta.kv.items():
                live.pop(key, None)
                if value is not None:
                    live[key] = value, at
    return tuple((key, value, at) for key, (value, at) in live.items())
