"""Runs a generator orchestration on the replay machine: what it yields becomes promises of the machine."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any

from queen.durable.codec import dump, load
from queen.durable.duroxide.context import OrchestrationContext
from queen.durable.errors import CallFailed, OrchestrationRaised
from queen.durable.replay import action as actions
from queen.durable.replay import syscalls
from queen.durable.replay.machine import Entry, Machine
from queen.durable.replay.promise import ContinueAsNew, Promise, gather, race
from queen.durable.retry import RetryPolicy, run_with_retry

Orchestrator = Callable[[OrchestrationContext, Any], Any]
Build = Callable[[Machine, Mapping[str, Any]], Promise[Any]]

_NO_BRANCH = frozenset({"newGuid", "utcNow", "continueAsNew", "continueAsNewVersioned"})
_NO_BRANCH_EITHER = frozenset({"orchestration", "orchestrationVersioned"})


def generator_entry(function: Orchestrator) -> Entry:
    """Make a plain or generator function runnable by the replay machine."""

    def begin(machine: Machine) -> Coroutine[Any, None, str]:
        return _run(function, machine)

    return begin


async def _run(function: Orchestrator, machine: Machine) -> str:
    started = machine.started
    context = OrchestrationContext(
        {
            "instanceId": started.instance,
            "executionId": started.execution_id,
            "orchestrationName": started.name,
            "orchestrationVersion": started.orchestration_version,
        },
        machine,
    )
    try:
        made = function(context, load(started.input))
        result = await _drive(made, machine) if inspect.isgenerator(made) else made
        return dump(result)
    except OrchestrationRaised:
        raise
    except Exception as error:
        raise OrchestrationRaised(_traceback(error)) from error


async def _drive(generator: Generator[Any, Any, Any], machine: Machine) -> Any:
    value: Any = None
    error: Exception | None = None
    try:
        while True:
            try:
                wanted = generator.send(value) if error is None else generator.throw(error)
            except StopIteration as stop:
                return stop.value
            try:
                value, error = await _answer(wanted, machine), None
            except CallFailed as failed:
                value, error = None, Exception(str(failed))
            except _RefusedError as refused:
                value, error = None, Exception(str(refused))
    finally:
        generator.close()


def _traceback(error: Exception) -> str:
    """The traceback from the first line of the user's own code on."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None and where.tb_frame.f_code.co_filename == __file__:
        where = where.tb_next
    return "".join(traceback.format_exception(type(error), error, where))


class _RefusedError(Exception):
    """A description that cannot be used where it stands."""


async def _answer(wanted: Any, machine: Machine) -> Any:
    kind = wanted.get("type") if isinstance(wanted, Mapping) else None
    if kind == "join":
        return await _join(wanted, machine)
    if kind == "select":
        return await _select(wanted, machine)
    if kind in ("continueAsNew", "continueAsNewVersioned"):
        raise ContinueAsNew(wanted["input"], wanted.get("version"))
    build = _BUILDERS.get(kind or "")
    if build is None:
        raise OrchestrationRaised(f"Invalid generator step result: {_describe(wanted)}")
    return load_answer(await build(machine, wanted))


async def _join(wanted: Mapping[str, Any], machine: Machine) -> list[Any]:
    tasks = wanted["tasks"]
    if any(_kind(task) in ("join", "select") for task in tasks):
        raise _RefusedError("nested join/select inside join is not supported")
    branches = [_branch(machine, task) for task in tasks]
    results = await gather(machine.scheduler, branches, collect=True)
    unwrap = bool(wanted.get("_typed_all"))
    return [_outcome(result, unwrap=unwrap) for result in results]


async def _select(wanted: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    tasks = wanted["tasks"]
    if len(tasks) != 2:
        raise _RefusedError("select currently supports exactly 2 tasks")
    if any(_kind(task) in ("join", "select") for task in tasks):
        raise _RefusedError("nested join/select inside select is not supported")
    if any(_kind(task) in _NO_BRANCH | _NO_BRANCH_EITHER for task in tasks):
        raise _RefusedError("unsupported task in select")
    winner = await race(machine.scheduler, [_branch(machine, task) for task in tasks])
    return {"index": winner.index, "value": load_answer(winner.value)}


def _branch(machine: Machine, task: Any) -> Promise[Any]:
    kind = _kind(task)
    if kind in _NO_BRANCH | _NO_BRANCH_EITHER:
        refused: Promise[Any] = Promise(machine.scheduler)
        refused.reject(_RefusedError("unsupported task in join"))
        return refused
    build = _BUILDERS.get(kind)
    if build is None:
        raise OrchestrationRaised(f"Invalid generator step result: {_describe(task)}")
    return build(machine, task)


def _outcome(result: Any, *, unwrap: bool) -> Any:
    if isinstance(result, BaseException):
        return {"err": str(result)}
    value = load_answer(result)
    return value if unwrap else {"ok": value}


def load_answer(text: Any) -> Any:
    """Results arrive as JSON text; timers and detached starts have none."""
    return load(text) if isinstance(text, str) else text


def _kind(task: Any) -> str:
    return str(task.get("type", "")) if isinstance(task, Mapping) else ""


def _describe(wanted: Any) -> str:
    if isinstance(wanted, Mapping):
        return f"unknown variant `{wanted.get('type')}`, expected one of {', '.join(sorted(_ALL_KINDS))}"
    return f"a {type(wanted).__name__} was yielded, expected what the context's schedule functions return"


def _activity(machine: Machine, task: Mapping[str, Any]) -> Promise[Any]:
    action = actions.RunActivity(
        name=task["name"], input=task["input"], session_id=task.get("sessionId"), tag=task.get("tag")
    )
    if task.get("retry") is not None:
        return run_with_retry(machine, action, RetryPolicy.from_mapping(task["retry"]))
    return machine.run_activity(action)


def _timer(machine: Machine, task: Mapping[str, Any]) -> Promise[Any]:
    return machine.start_timer(actions.StartTimer(delay_ms=max(0, int(task["delayMs"]))))


def _wait(machine: Machine, task: Mapping[str, Any]) -> Promise[Any]:
    return machine.wait_event(actions.AwaitEvent(name=task["name"]))


def _dequeue(machine: Machine, task: Mapping[str, Any]) -> Promise[Any]:
    return machine.dequeue(actions.Dequeue(name=task["queueName"]))


def _child(machine: Machine, task: Mapping[str, Any]) -> Promise[Any]:
    return machine.run_child(
        actions.RunChild(
            name=task["name"],
            input=task["input"],
            orchestration_version=task.get("version"),
            instance=task.get("instanceId"),
        )
    )


def _detached(machine: Machine, task: Mapping[str, Any]) -> Promise[Any]:
    machine.tell(
        actions.StartDetached(
            name=task["name"],
            instance=task["instanceId"],
            input=task["input"],
            orchestration_version=task.get("version"),
        )
    )
    started: Promise[Any] = Promise(machine.scheduler)
    started.resolve(None)
    return started


def _now(machine: Machine, _task: Mapping[str, Any]) -> Promise[Any]:
    return machine.run_activity(actions.RunActivity(name=syscalls.UTC_NOW, input="null"))


def _guid(machine: Machine, _task: Mapping[str, Any]) -> Promise[Any]:
    return machine.run_activity(actions.RunActivity(name=syscalls.NEW_GUID, input="null"))


_BUILDERS: Mapping[str, Build] = {
    "activity": _activity,
    "activityWithSession": _activity,
    "activityWithRetry": _activity,
    "activityWithRetryOnSession": _activity,
    "timer": _timer,
    "waitEvent": _wait,
    "dequeueEvent": _dequeue,
    "subOrchestration": _child,
    "subOrchestrationWithId": _child,
    "subOrchestrationVersioned": _child,
    "subOrchestrationVersionedWithId": _child,
    "orchestration": _detached,
    "orchestrationVersioned": _detached,
    "newGuid": _guid,
    "utcNow": _now,
}
_ALL_KINDS = {*_BUILDERS, "continueAsNew", "continueAsNewVersioned", "join", "select"}
