"""Updates: messages to a running workflow that get an answer.

A request travels like any message of the instance's queues, and the answer is kept as a key of the instance, so both
survive crashes and continue-as-new. Of the answers the last hundred are kept.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from queen.durable.codec import decode, encode
from queen.durable.replay.keys import ANSWER_PREFIX
from queen.durable.replay.machine import Machine

__all__ = ["Answer", "Request", "Update", "answer_key", "update_queue"]

T = TypeVar("T")

_KEPT_ANSWERS = 100


class Request(msgspec.Struct, frozen=True):
    """An update on its way to the workflow."""

    id: str
    data: Any = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of it: a value, or why it was refused."""

    value: Any = None
    refused: str | None = None


def update_queue(name: str) -> str:
    """The queue of the instance that the updates of a name travel through."""
    return f"queen.update:{name}"


def answer_key(update_id: str) -> str:
    """The key of the instance that holds the answer."""
    return f"{ANSWER_PREFIX}{update_id}"


class Update(Generic[T]):
    """A request a workflow has taken with `ctx.update`: its `value`, and the means to answer."""

    def __init__(self, machine: Machine, request: Request, kind: Any) -> None:
        self.id = request.id
        self.value: T = decode(encode(request.data), kind)
        self._machine = machine

    def answer(self, value: object = None) -> None:
        """Whoever sent the update gets this."""
        self._store(Answer(value=value))

    def refuse(self, why: str) -> None:
        """Whoever sent the update gets `UpdateRefused`."""
        self._store(Answer(refused=why))

    def _store(self, answer: Answer) -> None:
        kept = self._machine.keys.answers()
        for key in kept[: max(0, len(kept) - _KEPT_ANSWERS + 1)]:
            self._machine.clear_key(key)
        self._machine.set_key(answer_key(self.id), encode(answer))
