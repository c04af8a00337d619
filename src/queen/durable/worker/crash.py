"""Named points at which a test may stop the world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

CrashPoint = Literal[
    "turn.before",
    "turn.before_ack",
    "turn.after_ack",
    "activity.before",
    "activity.before_ack",
    "activity.after_ack",
]


class CrashPoints:
    """Calls what a test hung on a point; nothing hangs anywhere by default."""

    __slots__ = ("_hooks",)

    def __init__(self, hooks: Mapping[CrashPoint, Callable[[], None]] | None = None) -> None:
        self._hooks = dict(hooks or {})

    def reach(self, point: CrashPoint) -> None:
        """The worker is now at `point`."""
        hook = self._hooks.get(point)
        if hook is not None:
            hook()
