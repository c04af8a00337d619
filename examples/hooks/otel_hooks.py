"""A span of OpenTelemetry for each attempt of a task, in the trace of the push it comes from.

    trace.set_tracer_provider(...)
    watch(app)

What the task itself does in spans, pushes included, is below that span.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from opentelemetry import context, trace

import queen
from queen import telemetry

_attached: ContextVar[Token[context.Context] | None] = ContextVar("attached", default=None)


def watch(app: queen.App) -> None:
    """Trace what the workers of an application do."""
    app.before(begin)
    app.after(succeed)
    app.on_failure(again)
    app.on_dead_letter(give_up)


def begin(running: queen.Running) -> None:
    """Open the span of an attempt; it is the current one until the attempt has ended."""
    message = running.message
    span = trace.get_tracer("tasks").start_span(
        f"task {running.task}",
        context=telemetry.context_of(message.raw),
        attributes={
            "messaging.destination.name": message.queue,
            "messaging.destination.partition.id": message.partition,
            "queen.attempt": running.attempt,
        },
    )
    _attached.set(context.attach(trace.set_span_in_context(span)))


def succeed(running: queen.Running, result: object) -> None:
    """It returned."""
    _end(None)


def again(running: queen.Running, error: Exception, delay: float) -> None:
    """It failed and is tried again."""
    _end(error)


def give_up(running: queen.Running, error: Exception) -> None:
    """It failed for the last time; or it was parked, and there was no attempt."""
    _end(error)


def _end(error: Exception | None) -> None:
    token = _attached.get()
    if token is None:
        return
    span = trace.get_current_span()
    if error is not None:
        span.record_exception(error)
        span.set_status(trace.StatusCode.ERROR, str(error))
    _attached.set(None)
    context.detach(token)
    span.end()
