"""Values that arrive later, and the deterministic scheduler that runs code waiting for them.

No clock, no thread, no asyncio: the only things that move a task are promises settled by the replay
machine, one recorded event at a time, so the same events always drive the same code the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Step = Callable[[], None]


class Cancelled(BaseException):
    """Thrown into a branch that lost a race, or into a workflow somebody cancelled, at its current `await`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ContinueAsNew(BaseException):
    """Ends the execution and starts the next one; user code must not catch it by accident."""

    def __init__(self, input: str, version: str | None = None) -> None:  # noqa: A002
        super().__init__("continue as new")
        self.input = input
        self.version = version


class Dropped(Exception):
    """Raised where code awaits a branch again that lost a race and was given up."""

    def __init__(self) -> None:
        super().__init__("this branch lost a race and was dropped; ask for it again instead of awaiting it again")


class _State(Enum):
    PENDING = 0
    VALUE = 1
    ERROR = 2
    CANCELLED = 3


class Scheduler:
    """A first-in first-out list of steps that are ready to run."""

    __slots__ = ("_ready", "_running")

    def __init__(self) -> None:
        self._ready: deque[Step] = deque()
        self._running = False

    def call(self, step: Step) -> None:
        """Run `step` after everything that became ready before it."""
        self._ready.append(step)

    def drain(self) -> None:
        """Run until nothing is ready. A drain inside a drain leaves the work to the outer one."""
        if self._running:
            return
        self._running = True
        try:
            while self._ready:
                self._ready.popleft()()
        finally:
            self._running = False


class Promise(Generic[T]):
    """One awaitable result. `on_cancel` is told when the promise is dropped before anyone read it.

    `on_return` is told when somebody wants a dropped promise after all: it asks anew. Without it a dropped
    promise raises `Dropped`.
    """

    __slots__ = ("_error", "_on_cancel", "_on_return", "_read", "_state", "_value", "_waiters", "scheduler")

    def __init__(self, scheduler: Scheduler, on_cancel: Step | None = None, on_return: Step | None = None) -> None:
        self.scheduler = scheduler
        self._on_cancel = on_cancel
        self._on_return = on_return
        self._read = False
        self._state = _State.PENDING
        self._value: T | None = None
        self._error: BaseException | None = None
        self._waiters: list[Step] = []

    @property
    def pending(self) -> bool:
        """True until settled or cancelled."""
        return self._state is _State.PENDING

    @property
    def settled(self) -> bool:
        """True once there is a value or an error."""
        return self._state in (_State.VALUE, _State.ERROR)

    @property
    def error(self) -> BaseException | None:
        """The error, when that is how it ended."""
        return self._error

    def resolve(self, value: T) -> None:
        """Settle with a value; ignored when no longer pending."""
        self._settle(_State.VALUE, value, None)

    def reject(self, error: BaseException) -> None:
        """Settle with an error; ignored when no longer pending."""
        self._settle(_State.ERROR, None, error)

    def result(self) -> T:
        """The value, or raise the error."""
        self._read = True
        if self._state is _State.ERROR:
            assert self._error is not None, "a rejected promise carries its error"
            raise self._error
        if self._state is not _State.VALUE:
            raise Dropped
        return self._value  # type: ignore[return-value]

    def cancel(self) -> None:
        """Drop the promise: nobody will look at its result any more. Without effect once the result was read."""
        if self._read or self._state is _State.CANCELLED or (self.settled and self._on_return is None):
            return
        self._state = _State.CANCELLED
        self._waiters.clear()
        if self._on_cancel is not None:
            self._on_cancel()

    def watch(self, step: Step) -> None:
        """Call `step` when settled; at the scheduler's next chance when it already is."""
        self._return()
        if self.pending:
            self._waiters.append(step)
        else:
            self.scheduler.call(step)

    def unwatch(self, step: Step) -> bool:
        """Stop watching; true when nobody is left who watches."""
        self._waiters = [each for each in self._waiters if each != step]
        return not self._waiters

    def leave(self, step: Step) -> None:
        """Stop watching, and drop the promise when nobody else wants it."""
        if self.unwatch(step):
            self.cancel()

    def __await__(self) -> Generator[Promise[Any], None, T]:
        self._return()
        if self.pending:
            yield self
        return self.result()

    def _return(self) -> None:
        if self._state is not _State.CANCELLED:
            return
        if self._on_return is None:
            self._state, self._error = _State.ERROR, Dropped()
        else:
            self._state = _State.PENDING
            self._on_return()

    def _settle(self, state: _State, value: T | None, error: BaseException | None) -> None:
        if not self.pending:
            return
        self._state, self._value, self._error = state, value, error
        waiters, self._waiters = self._waiters, []
        for step in waiters:
            self.scheduler.call(step)


class Task(Promise[T]):
    """A coroutine run step by step; its return value or exception settles the task."""

    __slots__ = ("_awaiting", "_coroutine", "_dropped")

    def __init__(self, scheduler: Scheduler, coroutine: Coroutine[Any, None, T]) -> None:
        super().__init__(scheduler)
        self._coroutine = coroutine
        self._awaiting: Promise[Any] | None = None
        self._dropped = False

    def start(self) -> Task[T]:
        """Run to the first `await` that has to wait."""
        self._advance(None)
        return self

    def cancel(self) -> None:
        """Drop the branch: what it waits for is dropped, and its clean-up code runs."""
        if self.pending and not self._dropped:
            self._dropped = True
            self.interrupt(Cancelled("the branch lost a race"))

    def interrupt(self, reason: BaseException) -> None:
        """Throw `reason` into the coroutine where it waits. Clean-up may wait again and go on."""
        awaited, self._awaiting = self._awaiting, None
        if awaited is not None:
            awaited.leave(self._resume)
        self._advance(reason)

    def close(self) -> None:
        """Forget the coroutine; whatever its clean-up raises no longer matters."""
        if self._awaiting is not None:
            self._awaiting.unwatch(self._resume)
        with suppress(BaseException):
            self._coroutine.close()

    def _resume(self) -> None:
        self._awaiting = None
        self._advance(None)

    def _advance(self, error: BaseException | None) -> None:
        try:
            awaited = self._coroutine.send(None) if error is None else self._coroutine.throw(error)
        except StopIteration as stop:
            self._finish(partial(self.resolve, stop.value))
        except BaseException as raised:  # noqa: BLE001 the task's failure is its result
            self._finish(partial(self.reject, raised))
        else:
            self._wait_for(awaited)

    def _finish(self, settle: Step) -> None:
        if not self._dropped:
            settle()
        elif self._waiters:
            self.reject(Dropped())
        else:
            super().cancel()

    def _wait_for(self, awaited: object) -> None:
        if not isinstance(awaited, Promise):
            self._advance(
                TypeError(
                    f"a workflow can only await what its context gives it, not {type(awaited).__name__}; "
                    "put other waiting into an activity"
                )
            )
            return
        self._awaiting = awaited
        awaited.watch(self._resume)


class Converted(Promise[T]):
    """What another promise holds, converted; a conversion that raises is the result."""

    __slots__ = ("_convert", "_source")

    def __init__(self, source: Promise[Any], convert: Callable[[Any], T]) -> None:
        super().__init__(source.scheduler, self._drop, self._watch)
        self._source = source
        self._convert = convert
        self._watch()

    def _watch(self) -> None:
        self._source.watch(self._arrived)

    def _drop(self) -> None:
        self._source.leave(self._arrived)

    def _arrived(self) -> None:
        try:
            self.resolve(self._convert(self._source.result()))
        except BaseException as raised:  # noqa: BLE001 the failure is the result
            self.reject(raised)


@dataclass(frozen=True, slots=True)
class Winner:
    """Which branch of a race came first, and its value."""

    index: int
    value: Any


def gather(scheduler: Scheduler, branches: Sequence[Promise[Any]], *, collect: bool) -> Promise[list[Any]]:
    """All results in order. With `collect` errors are part of the list; otherwise the first one raises."""
    missing = dict(enumerate(branches))

    def one(index: int) -> None:
        branch = missing.pop(index)
        if branch.error is not None and not collect:
            joined.reject(branch.error)
        elif not missing:
            joined.resolve([each.error if each.error is not None else each.result() for each in branches])

    steps = [partial(one, index) for index in range(len(branches))]

    def watch() -> None:
        for index, branch in list(missing.items()):
            branch.watch(steps[index])

    def drop() -> None:
        for index, branch in enumerate(branches):
            branch.leave(steps[index])

    joined: Promise[list[Any]] = Promise(scheduler, drop, watch)
    watch()
    if not branches:
        joined.resolve([])
    return joined


def race(scheduler: Scheduler, branches: Sequence[Promise[Any]]) -> Promise[Winner]:
    """The first branch to settle wins; when several are ready, the first by position. Others are dropped."""

    def decide() -> None:
        if not finished.pending:
            return
        index, winner = next((n, each) for n, each in enumerate(branches) if each.settled)
        for loser in branches:
            if loser is not winner:
                loser.leave(decide)
        if winner.error is not None:
            finished.reject(winner.error)
        else:
            finished.resolve(Winner(index, winner.result()))

    def watch() -> None:
        for branch in branches:
            branch.watch(decide)

    def drop() -> None:
        for branch in branches:
            branch.leave(decide)

    finished: Promise[Winner] = Promise(scheduler, drop, watch)
    watch()
    return finished
