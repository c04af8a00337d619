"""Whether the code running now is that of a workflow, which may be run again at any time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_inside: ContextVar[bool] = ContextVar("queen_durable_inside_turn", default=False)


def is_inside_turn() -> bool:
    """Whether a workflow's code is being run, or replayed, here."""
    return _inside.get()


@contextmanager
def inside_turn() -> Iterator[None]:
    """The block runs code of a workflow."""
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)
