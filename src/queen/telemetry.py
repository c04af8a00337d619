"""Spans for OpenTelemetry where its API is installed and a provider is set; otherwise nothing, at the cost of a look.

    with tracer.start_as_current_span("order"):             # the trace id travels with the message as its trace_id
        await queen.push("orders", {"id": 1})

    with tracer.start_as_current_span("work", context=telemetry.context_of(message)):
        ...                                                 # in the trace of the push, under the message

There are spans `push`, `deliver` and `ack` of the engine, hence of brokers and of clients straight on the database, and
`step` of workers. A message has its trace's id; the span it belongs under is named by the end of its own id. All steps
of an execution of a workflow are in one trace: that of the workflow if it was started with one, or one of its own.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final
from uuid import UUID

from msgspec import structs

from queen.model import Message, NewMessage

try:
    from opentelemetry import context as contexts
    from opentelemetry import propagate, trace
except ImportError:  # pragma: no cover - the tests have it
    _INSTALLED = False
else:
    _INSTALLED = True

SYSTEM: Final = "queen"
_LINKS: Final = 128
_NOTHING: Final[AbstractContextManager[Any]] = nullcontext()


def is_on() -> bool:
    """Whether somebody wants spans."""
    return _INSTALLED and not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def context_of(message: Message) -> Any:
    """A context to start spans in that belong to a message; None when it has no trace or nobody wants spans."""
    if message.trace_id is None or not is_on():
        return None
    return _context(message.trace_id.int, message.id.int & (2**64 - 1))


def caller(headers: Mapping[bytes, bytes]) -> AbstractContextManager[Any]:
    """The trace a request says it belongs to (`traceparent`) is the current one within the block."""
    if b"traceparent" not in headers or not is_on():
        return _NOTHING
    names = (b"traceparent", b"tracestate", b"baggage")
    carried = {name.decode(): headers[name].decode("latin-1") for name in names if name in headers}
    return _within(propagate.extract(carried))


def headers() -> dict[str, str]:
    """What a request carries so that its receiver works in the current trace."""
    found: dict[str, str] = {}
    if is_on():
        propagate.inject(found)
    return found


def about(message: Message) -> AbstractContextManager[Any]:
    """The trace of a message is the current one within the block, unless there is one."""
    if message.trace_id is None or not is_on() or trace.get_current_span().get_span_context().is_valid:
        return _NOTHING
    return _within(context_of(message))


@contextmanager
def pushing(items: Sequence[NewMessage]) -> Iterator[Sequence[NewMessage]]:
    """A span for a push; gives the items, of which those without a trace id have that of the span."""
    names = {item.queue for item in items}
    with _current(_named("push", names), kind=trace.SpanKind.PRODUCER, attributes=_about(names, len(items))) as span:
        found = span.get_span_context()
        if found.trace_flags.sampled:
            own = UUID(int=found.trace_id)
            items = [item if item.trace_id is not None else structs.replace(item, trace_id=own) for item in items]
        yield items


def delivered(messages: Sequence[Message], began: int) -> None:
    """A span for messages that are handed out: in their trace if they have one in common, linked to theirs if not."""
    if not messages:
        return
    first = messages[0]
    traces = {message.trace_id: message for message in messages if message.trace_id is not None}
    alone = len(traces) == 1 and all(message.trace_id is not None for message in messages)
    found = [trace.get_current_span(context_of(message)).get_span_context() for message in traces.values()]
    attributes = _about({first.queue}, len(messages))
    attributes["messaging.consumer.group.name"] = first.group
    attributes["messaging.destination.partition.id"] = first.partition
    if len(messages) == 1:
        attributes["messaging.message.id"] = str(first.id)
    _tracer().start_span(
        _named("deliver", {first.queue}),
        context=context_of(first) if alone else None,
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
        links=None if alone else [trace.Link(each) for each in found[:_LINKS]],
        start_time=began,
    ).end()


def acknowledging(count: int) -> AbstractContextManager[Any]:
    """A span for an acknowledgement."""
    if not is_on():
        return _NOTHING
    attributes = {"messaging.system": SYSTEM, "messaging.batch.message_count": count}
    return _current("ack", kind=trace.SpanKind.CLIENT, attributes=attributes)


def step(name: str, instance: str, execution: int, attempt: int, trace_id: str | None) -> AbstractContextManager[Any]:
    """A span for a step of a workflow, which fails with what is raised in the block."""
    if not is_on():
        return _NOTHING
    digest = hashlib.blake2b(f"{execution} {instance}".encode(), digest_size=24).digest()
    own = UUID(bytes=digest[:16]) if trace_id is None else UUID(trace_id)
    return _current(
        f"step {name}",
        context=_context(own.int, int.from_bytes(digest[16:])),
        attributes={"queen.instance": instance, "queen.execution": execution, "queen.attempt": attempt},
    )


def now() -> int:
    """The time as spans have it."""
    return time.time_ns()


def _tracer() -> Any:
    return trace.get_tracer("queen")


def _current(name: str, **options: Any) -> AbstractContextManager[Any]:
    found: AbstractContextManager[Any] = _tracer().start_as_current_span(name, **options)
    return found


def _context(trace_id: int, span_id: int) -> Any:
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    found = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=sampled)
    return trace.set_span_in_context(trace.NonRecordingSpan(found))


@contextmanager
def _within(context: Any) -> Iterator[None]:
    token = contexts.attach(context)
    try:
        yield
    finally:
        contexts.detach(token)


def _named(verb: str, queues: set[str]) -> str:
    return f"{verb} {next(iter(queues))}" if len(queues) == 1 else verb


def _about(queues: set[str], count: int) -> dict[str, Any]:
    found: dict[str, Any] = {"messaging.system": SYSTEM, "messaging.batch.message_count": count}
    if len(queues) == 1:
        found["messaging.destination.name"] = next(iter(queues))
    return found
