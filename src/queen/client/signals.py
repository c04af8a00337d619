"""SIGTERM and SIGINT end consumers, unless a framework around them handles these signals itself."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

_NUMBERS: Final = (signal.SIGTERM, signal.SIGINT)


class _Stop:
    """Our handler of a signal; several consumers of a process are told one after the other."""

    def __init__(self, stop: Callable[[], object], before: Any) -> None:
        self.stop = stop
        self.before = before
        self.active = True

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.active:
            self.stop()
        if isinstance(self.before, _Stop):
            self.before(number, frame)


@contextmanager
def stopping_on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """While the block runs, both signals call `stop`, from the main thread.

    Where somebody else handles SIGTERM, such as the web server whose lifespan this runs in, nothing is changed: that
    one decides when to stop.
    """
    found = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or not (
        found is signal.SIG_DFL or isinstance(found, _Stop)
    ):
        yield
        return
    ours = {number: _Stop(stop, signal.getsignal(number)) for number in _NUMBERS}
    for number, own in ours.items():
        signal.signal(number, own)
    try:
        yield
    finally:
        for number, own in ours.items():
            own.active = False
            before = _still_active(own.before)
            if signal.getsignal(number) is own:
                signal.signal(number, before)


def _still_active(found: Any) -> Any:
    while isinstance(found, _Stop) and not found.active:
        found = found.before
    return found
