"""Durable workflows over a broker: the calls of `WorkflowAdmin` that it has routes for."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote

import click
import msgspec

from queen.client.http import HttpCalls
from queen.durable.admin import Begun, Started, WorkflowDetail, WorkflowHistory, WorkflowPage
from queen.durable.model import InstanceQuery

T = TypeVar("T")


class WorkflowsOverHttp:
    """Look at and steer the workflows in the database of a broker."""

    def __init__(self, calls: HttpCalls) -> None:
        self._calls = calls

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[WorkflowsOverHttp]:
        """Those of the broker, or of several that are one, at this address."""
        calls = HttpCalls([part.strip() for part in url.split(",")], token=os.environ.get("QUEEN_TOKEN"))
        await calls.open()
        try:
            yield cls(calls)
        finally:
            await calls.close()

    async def list(self, query: InstanceQuery) -> WorkflowPage:
        """One page of instances, newest first."""
        if len(query.attributes) > 1:
            raise click.UsageError("a broker looks for one --attribute at a time")
        attribute = [f"{name}={json.dumps(value)}" for name, value in query.attributes.items()]
        given = {
            "name": query.name,
            "status": query.status,
            "idPrefix": query.id_prefix,
            "traceId": query.trace_id,
            "attribute": attribute[0] if attribute else None,
            "from": _time(query.created_from_ms),
            "to": _time(query.created_before_ms),
            "limit": query.limit,
            "cursor": query.cursor,
        }
        return await self._get("", WorkflowPage, given)

    async def show(self, instance: str) -> WorkflowDetail:
        """One instance."""
        return await self._get(f"/{_named(instance)}", WorkflowDetail, {})

    async def history(self, instance: str, execution_id: int | None = None) -> WorkflowHistory:
        """The events of one execution, of the current one unless given."""
        return await self._get(f"/{_named(instance)}/history", WorkflowHistory, {"execution": execution_id})

    async def start(self, name: str, value: Any, **given: Any) -> Started:
        """Ask for an instance."""
        return await self._post("/start", Started, {"name": name, "input": value, **given})

    async def raise_event(self, instance: str, name: str, data: Any) -> None:
        """Raise an external event."""
        await self._post(f"/{_named(instance)}/raise", msgspec.Raw, {"name": name, "data": data})

    async def cancel(self, instance: str, reason: str | None, *, force: bool) -> None:
        """Ask an instance to end."""
        await self._post(f"/{_named(instance)}/cancel", msgspec.Raw, {"reason": reason, "force": force})

    async def retry(self, instance: str, **given: Any) -> Begun:
        """Try a parked instance at once, or run what failed last again."""
        return await self._post(f"/{_named(instance)}/retry", Begun, given)

    async def reset(self, instance: str, **given: Any) -> Begun:
        """Begin a new execution from a step of the current one, or from its start."""
        return await self._post(f"/{_named(instance)}/reset", Begun, given)

    async def fork(self, instance: str, new_id: str | None, **given: Any) -> Begun:
        """Start another instance that goes on from a step of this one."""
        return await self._post(f"/{_named(instance)}/fork", Begun, {"id": new_id, **given})

    async def _get(self, path: str, kind: type[T], query: Mapping[str, Any]) -> T:
        asked = {name: value for name, value in query.items() if value is not None}
        found = await self._calls.call("GET", f"/api/v1/workflows{path}", kind, query=asked)
        assert found is not None
        return found

    async def _post(self, path: str, kind: type[T], given: Mapping[str, Any]) -> T:
        body = {_camel(name): value for name, value in given.items() if value is not None}
        found = await self._calls.call("POST", f"/api/v1/workflows{path}", kind, body=body)
        assert found is not None
        return found


def _named(instance: str) -> str:
    return quote(instance, safe="")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _time(moment_ms: int | None) -> str | None:
    return None if moment_ms is None else datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat()
