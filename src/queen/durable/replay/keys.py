"""The key-value pairs of one instance as its code sees them during a turn."""

from __future__ import annotations

from collections.abc import Mapping

from queen.durable.model import ATTRIBUTE_PREFIX, KeyValue

ANSWER_PREFIX = "queen.answer:"
OWN_PREFIXES = (ANSWER_PREFIX, ATTRIBUTE_PREFIX)


class Keys:
    """Starts from what earlier executions left behind; the replayed code rebuilds the rest."""

    def __init__(self, snapshot: Mapping[str, KeyValue]) -> None:
        self._live: dict[str, KeyValue] = dict(snapshot)

    def __len__(self) -> int:
        """How many keys the workflow has set itself."""
        return sum(not key.startswith(OWN_PREFIXES) for key in self._live)

    def attributes(self) -> int:
        """How many attributes it has set."""
        return sum(key.startswith(ATTRIBUTE_PREFIX) for key in self._live)

    def answers(self) -> list[str]:
        """The keys that hold answers to updates, oldest first."""
        found = [(each.updated_at_ms, key) for key, each in self._live.items() if key.startswith(ANSWER_PREFIX)]
        return [key for _, key in sorted(found)]

    def get(self, key: str) -> str | None:
        """The value of one key."""
        found = self._live.get(key)
        return None if found is None else found.value

    def all(self) -> dict[str, str]:
        """Every live key and its value."""
        return {key: each.value for key, each in self._live.items() if not key.startswith(OWN_PREFIXES)}

    def set(self, key: str, value: str, updated_at_ms: int) -> None:
        """Set one key."""
        self._live[key] = KeyValue(value, updated_at_ms)

    def clear(self, key: str) -> None:
        """Forget one key; unknown keys are fine."""
        self._live.pop(key, None)

    def clear_all(self) -> None:
        """Forget every key."""
        self._live.clear()

    def updated_before(self, moment_ms: int) -> list[str]:
        """Keys last written before `moment_ms`, in a stable order."""
        return sorted(key for key, each in self._live.items() if each.updated_at_ms < moment_ms)
