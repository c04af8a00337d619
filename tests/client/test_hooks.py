"""The recipes for Sentry and OpenTelemetry, with what their own packages have for tests in place of a server."""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import Any

import pytest
import sentry_sdk
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import queen
from tests.client.test_app import FAST, work
from tests.support.tree import ROOT


def recipe(name: str) -> ModuleType:
    """A module of examples/hooks, as somebody copies it."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / "hooks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def events() -> Iterator[list[dict[str, Any]]]:
    """Sentry, set up as a worker would; what it is about to send is kept instead."""
    kept: list[Any] = []
    sentry_sdk.init(dsn="https://key@sentry.invalid/1", before_send=lambda event, _: kept.append(event))
    yield kept
    sentry_sdk.get_client().close(timeout=1)
    sentry_sdk.get_global_scope().set_client(None)


@pytest.fixture
async def app(database: str) -> AsyncIterator[queen.App]:
    async with queen.App(database) as made:
        yield made


async def test_what_is_given_up_is_an_event_in_sentry(app: queen.App, events: list[dict[str, Any]]) -> None:
    @app.task(retry=FAST)
    def charge(card: str) -> None:
        raise LookupError("no such card")

    recipe("sentry_hooks").watch(app)
    await charge.push("4111-1111", partition="ada")
    await (await app.opened()).push("tasks", {"task": "chrge", "args": {}})
    await work(app, lambda: len(events) == 2)
    by_task = {event["tags"]["queen.task"]: event for event in events}
    event = by_task["charge"]
    (raised,) = event["exception"]["values"]
    assert (raised["type"], raised["value"]) == ("LookupError", "no such card")
    assert raised["stacktrace"]["frames"][-1]["function"] == "charge"
    told = event["contexts"]["message"]
    assert (told["partition"], told["attempt"], told["arguments"]) == ("ada", 3, ["card"])
    earlier = [one["message"] for one in event["breadcrumbs"]["values"] if one.get("category") == "queen.client"]
    assert sum("tried again" in text for text in earlier) == 2
    assert "no task 'chrge'" in by_task["chrge"]["exception"]["values"][-1]["value"]


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """A provider is set for the length of a test."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


async def test_every_attempt_is_a_span_in_the_trace_of_its_push(app: queen.App, exported: InMemorySpanExporter) -> None:
    failures = Counter(first=1, later=1)

    @app.task(retry=FAST)
    async def first(number: int) -> None:
        if failures["first"]:
            failures["first"] -= 1
            raise RuntimeError("once")
        await second.push(number)

    @app.task(retry=queen.Backoff(attempts=1))
    def second(number: int) -> None:
        with trace.get_tracer("shop").start_as_current_span("inside"):
            if failures["later"]:
                failures["later"] -= 1
                raise queen.HandBack(delay=0.01)
            raise LookupError("dead")

    recipe("otel_hooks").watch(app)
    with trace.get_tracer("shop").start_as_current_span("order"):
        await first.push(1)
    await work(app, lambda: bool(app.progress) and app.progress["tasks"].failed == 2)

    def spans(name: str) -> list[ReadableSpan]:
        return [span for span in exported.get_finished_spans() if span.name == name]

    (order,) = spans("order")
    assert order.context is not None
    tasks = spans("task first") + spans("task second")
    assert [(span.attributes or {})["queen.attempt"] for span in tasks] == [1, 2, 1, 1]
    assert [span.status.status_code.name for span in tasks] == ["ERROR", "UNSET", "ERROR", "ERROR"]
    assert {span.context.trace_id for span in tasks if span.context} == {order.context.trace_id}
    assert tasks[0].events[0].name == "exception"
    inside = spans("inside")
    assert [span.parent.span_id for span in inside if span.parent] == [
        span.context.span_id for span in tasks[2:] if span.context
    ]
