"""The context of the async style: typed, by reference, awaited."""

from __future__ import annotations

import inspect
import random
import uuid
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple, overload

from queen.durable.codec import decode, encode, encode_arguments
from queen.durable.model import ATTRIBUTE_PREFIX, Attribute
from queen.durable.replay import action as actions
from queen.durable.replay import syscalls
from queen.durable.replay.machine import Machine
from queen.durable.replay.promise import ContinueAsNew, Converted, Promise, Task, Winner, gather, race
from queen.durable.retry import RetryPolicy, run_with_retry
from queen.durable.tracing import trace
from queen.durable.updates import Request, Update, update_queue

if TYPE_CHECKING:
    from queen.durable.definition import Activity, Workflow

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
Ts = TypeVarTuple("Ts")

Branch = Promise[T] | Coroutine[Any, Any, T]
_NAMESPACE = uuid.UUID("6f1d3e0c-5a0e-4d2b-9f4e-7b1c9c6f2a11")


class WorkflowContext:
    """The first argument of a workflow: the only way it may touch the world."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._scheduler = machine.scheduler
        self._uuids = 0
        self.instance_id = machine.started.instance
        self.execution_id = machine.started.execution_id
        self.workflow_name = machine.started.name
        self.workflow_version = machine.started.orchestration_version
        self.trace_id = machine.started.trace_id
        self.random = random.Random(f"{self.instance_id}/{machine.seed}")  # noqa: S311 repeatable, not secret

    # -- calls ------------------------------------------------------------------------------------------------

    @overload
    def activity(
        self,
        called: Activity[R, *Ts],
        *arguments: *Ts,
        retry: RetryPolicy | None = None,
        session: str | None = None,
        tag: str | None = None,
        priority: int = 0,
    ) -> Promise[R]: ...
    @overload
    def activity(self, called: Activity[R, *Ts, A], *arguments: *Ts, **options: Any) -> Promise[R]: ...
    @overload
    def activity(self, called: Activity[R, *Ts, A, B], *arguments: *Ts, **options: Any) -> Promise[R]: ...  # type: ignore[overload-cannot-match]
    @overload
    def activity(self, called: Activity[R, *Ts, A, B, C], *arguments: *Ts, **options: Any) -> Promise[R]: ...  # type: ignore[overload-cannot-match]
    def activity(  # type: ignore[misc]
        self,
        called: Any,
        *arguments: Any,
        retry: RetryPolicy | None = None,
        session: str | None = None,
        tag: str | None = None,
        priority: int = 0,
        **keywords: Any,
    ) -> Promise[R]:
        """Schedule an activity now; await the answer for its result. Other keywords are the activity's own."""
        text = called.encode(arguments, keywords)
        action = actions.RunActivity(
            name=called.name,
            input=text,
            session_id=session,
            tag=tag,
            priority=priority,
            place=called.place(arguments, keywords),
        )
        asked = self._machine.run_activity(action) if retry is None else run_with_retry(self._machine, action, retry)
        return self._then(asked, called.decode)

    @overload
    def child(
        self, called: Workflow[R, *Ts], *arguments: *Ts, id: str | None = None, version: str | None = None
    ) -> Promise[R]: ...
    @overload
    def child(self, called: Workflow[R, *Ts, A], *arguments: *Ts, **options: Any) -> Promise[R]: ...
    @overload
    def child(self, called: Workflow[R, *Ts, A, B], *arguments: *Ts, **options: Any) -> Promise[R]: ...  # type: ignore[overload-cannot-match]
    @overload
    def child(self, called: Workflow[R, *Ts, A, B, C], *arguments: *Ts, **options: Any) -> Promise[R]: ...  # type: ignore[overload-cannot-match]
    def child(  # type: ignore[misc]
        self,
        called: Any,
        *arguments: Any,
        id: str | None = None,  # noqa: A002
        version: str | None = None,
        **keywords: Any,
    ) -> Promise[R]:
        """Run another workflow under this one; await the answer for its result.

        A child that still runs when this workflow ends is cancelled. `ChildFailed` when the id is taken.
        """
        action = actions.RunChild(
            name=called.name,
            input=called.encode(arguments, keywords),
            orchestration_version=version or called.pinned_version,
            instance=id,
        )
        return self._then(self._machine.run_child(action), called.decode)

    @overload
    def start(self, called: Workflow[R, *Ts], *arguments: *Ts, id: str, version: str | None = None) -> None: ...
    @overload
    def start(self, called: Workflow[R, *Ts, A], *arguments: *Ts, id: str, **options: Any) -> None: ...
    @overload
    def start(self, called: Workflow[R, *Ts, A, B], *arguments: *Ts, id: str, **options: Any) -> None: ...  # type: ignore[overload-cannot-match]
    @overload
    def start(self, called: Workflow[R, *Ts, A, B, C], *arguments: *Ts, id: str, **options: Any) -> None: ...  # type: ignore[overload-cannot-match]
    def start(  # type: ignore[misc]
        self,
        called: Any,
        *arguments: Any,
        id: str,  # noqa: A002
        version: str | None = None,
        **keywords: Any,
    ) -> None:
        """Start another workflow and forget about it."""
        self._machine.tell(
            actions.StartDetached(
                name=called.name,
                instance=id,
                input=called.encode(arguments, keywords),
                orchestration_version=version or called.pinned_version,
            )
        )

    def start_by_name(
        self,
        name: str,
        input: object = None,  # noqa: A002
        *,
        id: str,  # noqa: A002
        version: str | None = None,
    ) -> None:
        """Start a workflow whose code is not at hand, and forget about it."""
        self._machine.tell(
            actions.StartDetached(name=name, instance=id, input=encode(input), orchestration_version=version)
        )

    def push(self, queue: str, payload: object, *, partition: str = "Default") -> None:
        """Push to a Queen queue in the same transaction that commits this turn. PostgreSQL only."""
        self._machine.tell(
            actions.PushMessage(queue=queue, partition=partition, payload=encode(payload), seed=self._machine.seed)
        )

    def send(self, instance: str, queue: str, data: object = None) -> None:
        """Send to a queue of another instance, which takes it with `ctx.receive`."""
        self._machine.tell(actions.SendMessage(target=instance, queue=queue, data=encode(data)))

    # -- waiting ----------------------------------------------------------------------------------------------

    def sleep(self, duration: timedelta | float) -> Promise[None]:
        """Wait durably; a number is seconds."""
        delay = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
        return self._machine.start_timer(actions.StartTimer(delay_ms=max(0, _ms(delay))))

    def sleep_until(self, moment: datetime) -> Promise[None]:
        """Wait durably until a moment (with a time zone)."""
        if moment.tzinfo is None:
            raise ValueError("sleep_until needs a datetime with a time zone")
        return self._machine.start_timer(actions.StartTimer(until_ms=_ms(moment - _EPOCH)))

    @overload
    def event(self, name: str, kind: type[T], *, buffered: bool = False) -> Promise[T]: ...
    @overload
    def event(self, name: str, *, buffered: bool = False) -> Promise[Any]: ...
    def event(self, name: str, kind: Any = Any, *, buffered: bool = False) -> Promise[Any]:
        """Wait for an external event; `buffered` also takes one that was raised before the wait."""
        asked = self._machine.wait_event(actions.AwaitEvent(name=name, buffered=buffered))
        return self._then(asked, lambda text: decode(text, kind))

    @overload
    def receive(self, queue: str, kind: type[T]) -> Promise[T]: ...
    @overload
    def receive(self, queue: str) -> Promise[Any]: ...
    def receive(self, queue: str, kind: Any = Any) -> Promise[Any]:
        """Take the next message of one of this instance's queues; none is ever lost."""
        asked = self._machine.dequeue(actions.Dequeue(name=queue))
        return self._then(asked, lambda text: decode(text, kind))

    @overload
    def update(self, name: str, kind: type[T]) -> Promise[Update[T]]: ...
    @overload
    def update(self, name: str) -> Promise[Update[Any]]: ...
    def update(self, name: str, kind: Any = Any) -> Promise[Update[Any]]:
        """Take the next update of a name; its sender waits until you `answer` or `refuse` it."""
        asked = self._machine.dequeue(actions.Dequeue(name=update_queue(name)))
        return self._then(asked, lambda text: Update(self._machine, decode(text, Request), kind))

    def on_query(self, name: str, answer: Callable[..., Any]) -> None:
        """Let clients ask: `answer` is called with their arguments, and must only look."""
        self._machine.queries[name] = answer

    def read_key_of(self, instance: str, key: str) -> Promise[Any]:
        """A key of another instance, as it is now."""
        wanted = encode({"instance_id": instance, "key": key})
        asked = self._machine.run_activity(actions.RunActivity(name=syscalls.GET_KV_VALUE, input=wanted))
        return self._then(asked, _decode_key)

    # -- together ---------------------------------------------------------------------------------------------

    @overload
    def gather(self, first: Branch[A], second: Branch[B], /) -> Promise[tuple[A, B]]: ...
    @overload
    def gather(self, first: Branch[A], second: Branch[B], third: Branch[C], /) -> Promise[tuple[A, B, C]]: ...
    @overload
    def gather(self, *branches: Branch[T]) -> Promise[tuple[T, ...]]: ...
    def gather(self, *branches: Branch[Any]) -> Promise[Any]:
        """All results in order; the first failure raises, the other branches go on."""
        joined = gather(self._scheduler, [self.spawn(each) for each in branches], collect=False)
        return self._then(joined, tuple)

    def settle(self, *branches: Branch[T]) -> Promise[tuple[T | BaseException, ...]]:
        """All results in order, failures as exception objects."""
        joined = gather(self._scheduler, [self.spawn(each) for each in branches], collect=True)
        return self._then(joined, tuple)

    def race(self, *branches: Branch[Any]) -> Promise[Winner]:
        """The first to finish, as `Winner(index, value)`; all others are cancelled. Any number, nested or not."""
        if not branches:
            raise ValueError("race needs at least one branch")
        return race(self._scheduler, [self.spawn(each) for each in branches])

    async def wait(self, branch: Branch[T], timeout: timedelta | float) -> T:
        """The result of `branch`, or `TimeoutError`; a branch too slow is cancelled."""
        winner = await self.race(branch, self.sleep(timeout))
        if winner.index == 1:
            raise TimeoutError(f"nothing came within {timeout}")
        value: T = winner.value
        return value

    def spawn(self, branch: Branch[T]) -> Promise[T]:
        """Let a coroutine run beside this one; await the answer, or let it be."""
        if isinstance(branch, Promise):
            return branch
        if not inspect.iscoroutine(branch):
            raise TypeError(f"a branch is a coroutine or what the context returns, not {type(branch).__name__}")
        return Task(self._scheduler, branch).start()

    # -- deterministic values ---------------------------------------------------------------------------------

    def now(self) -> datetime:
        """The time of the event being handled: the same in every replay, at no cost in history."""
        return datetime.fromtimestamp(self._machine.now_ms / 1000, UTC)

    def uuid(self) -> uuid.UUID:
        """A new id, the same in every replay."""
        self._uuids += 1
        return uuid.uuid5(_NAMESPACE, f"{self.instance_id}/{self._machine.seed}/{self._uuids}")

    def patched(self, name: str) -> bool:
        """Whether to take a branch that code of the time before did not have.

        True in instances that come here for the first time, false in those that came by before the branch was
        there; always the same answer within one execution. Remove the old branch when none of them runs.
        """
        return self._machine.patched(name)

    @property
    def is_replaying(self) -> bool:
        """Whether the code being run has run before."""
        return self._machine.replaying

    # -- state clients can see --------------------------------------------------------------------------------

    @property
    def status(self) -> Any:
        """The custom status, shown to clients as it changes."""
        text = self._machine.custom_status
        return None if text is None else decode(text, Any)

    @status.setter
    def status(self, value: object) -> None:
        self._machine.set_status(None if value is None else encode(value))

    def set_key(self, key: str, value: object) -> None:
        """Set a key clients and later executions can read."""
        self._machine.set_key(key, encode(value))

    def get_key(self, key: str) -> Any:
        """A key of this instance, or None."""
        text = self._machine.keys.get(key)
        return None if text is None else decode(text, Any)

    def set_attribute(self, name: str, value: Attribute | None) -> None:
        """Set what the instance can be found by in lists; None takes it away."""
        if value is None:
            self._machine.clear_key(f"{ATTRIBUTE_PREFIX}{name}")
        else:
            self._machine.set_attribute(name, encode(value))

    def clear_key(self, key: str) -> None:
        """Forget a key."""
        self._machine.clear_key(key)

    def log(self, message: str, level: str = "info") -> None:
        """Log once, not again in replay."""
        if not self._machine.replaying:
            trace(level, message, self.instance_id, self.execution_id, self.workflow_name)

    # -- starting over ----------------------------------------------------------------------------------------

    def continue_as_new(self, *arguments: object, version: str | None = None) -> NoReturn:
        """End this execution and begin the next with a fresh history; unread messages come along."""
        raise ContinueAsNew(encode_arguments(arguments), version)

    @staticmethod
    def _then(asked: Promise[Any], convert: Callable[[Any], R]) -> Promise[R]:
        return Converted(asked, convert)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _decode_key(text: str) -> Any:
    found = decode(text, str | None)
    return None if found is None else decode(found, Any)


def _ms(value: timedelta) -> int:
    return round(value / timedelta(milliseconds=1))
