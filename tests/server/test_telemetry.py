"""Spans: one trace from a push to its delivery and acknowledgement, one for a workflow's steps; or nothing at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import queen
from queen import telemetry
from queen.durable import ActivityContext, Worker, WorkflowClient, WorkflowContext, activity, open_provider, workflow
from queen.engine import Engine
from queen.model import NewMessage, PopRequest
from tests.server.calls import ack_batch, configure, pop, push
from tests.server.running import Running

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
CARRIED = {"traceparent": f"00-{TRACE:032x}-{SPAN:016x}-01"}


class Spans:
    """What was exported."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def __call__(self, start: str = "") -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name.startswith(start)]


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """A provider is set for the length of a test."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return Spans(exporter)


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


def test_one_trace_from_push_to_ack(api: httpx2.Client, queue: str, spans: Spans) -> None:
    body = {"items": [{"queue": queue, "payload": 1}]}
    assert api.post("/api/v1/push", json=body, headers=CARRIED).status_code == 201
    (message,) = pop(api, queue)
    assert message["traceId"] == str(UUID(int=TRACE))
    ack_batch(api, [message])
    (pushed,), (delivered,), (acked,) = spans("push"), spans("deliver"), spans("ack")
    assert pushed.name == f"push {queue}"
    assert pushed.parent is not None
    assert (pushed.parent.span_id, pushed.kind) == (SPAN, trace.SpanKind.PRODUCER)
    assert [trace_of(span) for span in (pushed, delivered, acked)] == [TRACE] * 3
    assert dict(delivered.attributes or {}) == {
        "messaging.system": "queen",
        "messaging.destination.name": queue,
        "messaging.destination.partition.id": "Default",
        "messaging.consumer.group.name": "__QUEUE_MODE__",
        "messaging.batch.message_count": 1,
        "messaging.message.id": message["id"],
    }
    assert delivered.parent is not None
    assert delivered.parent.span_id == UUID(message["id"]).int & (2**64 - 1)


def test_a_batch_of_several_traces_is_linked_to_them(api: httpx2.Client, queue: str, spans: Spans) -> None:
    configure(api, queue)
    traces = [UUID(int=number) for number in (5, 6)]
    for number in traces:
        push(api, queue, 1, traceId=str(number))
    assert len(pop(api, queue, batch=10)) == 2
    (delivered,) = spans("deliver")
    assert delivered.parent is None
    assert [link.context.trace_id for link in delivered.links] == [5, 6]
    assert pop(api, queue) == []
    assert len(spans("deliver")) == 1, "nothing was delivered"


async def test_the_client_carries_the_trace_over_http(shared_broker: Running, queue: str, spans: Spans) -> None:
    async with queen.connect(shared_broker.url) as client:
        with trace.get_tracer("app").start_as_current_span("order") as order:
            await client.push(queue, {"n": 1})
        (message,) = await client.pop(queue)
    (pushed,) = spans("push")
    assert pushed.parent is not None
    assert pushed.parent.span_id == order.get_span_context().span_id
    assert message.trace_id == UUID(int=order.get_span_context().trace_id)


async def test_work_on_a_message_is_in_its_trace(database: str, spans: Spans) -> None:
    async with Engine.connect(database) as engine:
        with trace.get_tracer("app").start_as_current_span("order") as order:
            await engine.push(
                [NewMessage(queue="q", payload="1"), NewMessage(queue="q", payload="2", trace_id=UUID(int=9))]
            )
        one, two = await engine.pop(PopRequest(queue="q", batch=2))
    assert (one.trace_id, two.trace_id) == (UUID(int=order.get_span_context().trace_id), UUID(int=9))
    with trace.get_tracer("app").start_as_current_span("work", context=telemetry.context_of(one)):
        pass
    (work,) = spans("work")
    assert trace_of(work) == order.get_span_context().trace_id


@activity
async def greet(ctx: ActivityContext, name: str) -> str:
    return f"Hello {name}"


@activity
def broken(ctx: ActivityContext) -> str:
    raise ValueError("no luck")


@workflow
async def greeting(ctx: WorkflowContext, name: str) -> str:
    said: str = await ctx.activity(greet, name)
    try:
        await ctx.activity(broken)
    except Exception:  # noqa: BLE001 - what a step raised, whatever it is called here
        return said
    return "?"


async def test_steps_of_a_workflow_are_in_one_trace(tmp_path: Path, spans: Spans) -> None:
    async with (
        await open_provider(f"sqlite:///{tmp_path}/w.db") as provider,
        Worker(provider, workflows=[greeting], activities=[greet, broken]),
    ):
        client: Any = WorkflowClient(provider)
        assert await (await client.start(greeting, "Ann", id="g-1")).result(30) == "Hello Ann"
    one, two = spans("step")
    assert (one.name, two.name) == ("step greet", "step broken")
    assert trace_of(one) == trace_of(two)
    assert (one.attributes or {})["queen.instance"] == "g-1"
    assert (one.status.status_code, two.status.status_code) == (trace.StatusCode.UNSET, trace.StatusCode.ERROR)


async def test_nothing_unless_it_is_configured(api: httpx2.Client, queue: str) -> None:
    assert not telemetry.is_on()
    assert (
        api.post("/api/v1/push", json={"items": [{"queue": queue, "payload": 1}]}, headers=CARRIED).status_code == 201
    )
    (message,) = pop(api, queue)
    assert message["traceId"] is None
    assert telemetry.headers() == {}


def test_nothing_unless_it_is_installed(monkeypatch: pytest.MonkeyPatch, spans: Spans) -> None:
    monkeypatch.setattr(telemetry, "_INSTALLED", False)
    assert not telemetry.is_on()
    with telemetry.caller({b"traceparent": b"x"}), telemetry.acknowledging(1), telemetry.step("s", "i", 1, 1, None):
        pass
    assert spans() == []
