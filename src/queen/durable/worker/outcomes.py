"""How a call of an activity ended, whatever it raised: nothing it does may end the worker or get lost."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from queen import telemetry
from queen.durable.activity_context import ActivityContext
from queen.durable.codec import trace_uuid
from queen.durable.provider import ProviderError
from queen.durable.registry import RegisteredActivity


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result as text, or what was raised.

    A step in a transaction has `stored` its result itself; `undecided` when the store did not say whether it has.
    """

    result: str = ""
    error: BaseException | None = None
    stored: bool = False
    undecided: ProviderError | None = None


async def call_async(activity: RegisteredActivity, context: ActivityContext, text: str) -> Outcome:
    """Run an activity on the loop; only its own cancellation by the worker gets through."""
    try:
        with _traced(context):
            made = activity.call(context, text)
            return Outcome(await made if inspect.isawaitable(made) else made)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return Outcome(error=error)
    except BaseException as error:  # noqa: BLE001 sys.exit in an activity is that activity's failure
        return Outcome(error=error)


def call_sync(activity: RegisteredActivity, context: ActivityContext, text: str) -> Outcome:
    """Run an activity on a thread."""
    try:
        with _traced(context):
            made = activity.call(context, text)
            if not isinstance(made, str):
                raise TypeError("a sync activity returned an awaitable; declare it with async def")
            return Outcome(made)
    except BaseException as error:  # noqa: BLE001 a future does not take StopIteration, and a thread no SystemExit
        return Outcome(error=error)


def _traced(context: ActivityContext) -> AbstractContextManager[Any]:
    return telemetry.step(
        context.activity_name, context.instance_id, context.execution_id, context.attempt, trace_uuid(context.trace_id)
    )
