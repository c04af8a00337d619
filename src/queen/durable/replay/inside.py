"""Whether the code running now is that of a workflow, which may be run again at any time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token

_inside: ContextVar[bool] = ContextVar("queen_durable_inside_turn", default=False)


def is_inside_turn() -> bool:
    """Whether a workflow's code is being run, or replayed, here."""
    return _inside.get()


def enter_turn() -> Token[bool]:
    """What follows runs code of a workflow, until `leave_turn`. Once per event: a context manager would cost more."""
    return _inside.set(True)


def leave_turn(entered: Token[bool]) -> None:
    """What follows is as it was before."""
    _inside.reset(entered)


@contextmanager
def inside_turn() -> Iterator[None]:
    """The block runs code of a workflow."""
    entered = enter_turn()
    try:
        yield
    finally:
        leave_turn(entered)
