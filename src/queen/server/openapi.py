"""OpenAPI 3.1, derived from the route table and its structs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from queen.server.routing import Query, Route
from queen.server.wire import Refusal

_REF: Final = "#/components/schemas/{name}"
_REASONS: Final = {
    201: "Done",
    204: "Nothing to give",
    400: "The request cannot be carried out as it is",
    401: "No token, or one that does not count",
    403: "The token's role is not enough",
    404: "There is no such thing",
    409: "Something else is in the way",
    413: "The body is too large",
    429: "A queue is full; try again later",
    503: "The database cannot be reached; try again later",
}
_ROLES: Final = {"read": "read-only", "write": "read-write", "admin": "admin"}


def describe(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """The description of all routes that are listed."""
    listed = [route for route in routes if route.listed and route.method != "WS"]
    types = [kind for route in listed for kind in (route.body, route.answer) if kind is not None]
    schemas, components = msgspec.json.schema_components([*types, Refusal], ref_template=_REF)
    found = iter(schemas)
    paths: dict[str, dict[str, Any]] = {}
    for route in listed:
        body = next(found) if route.body is not None else None
        answer = next(found) if route.answer is not None else None
        path = re.sub(r":(\w+)", r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, body, answer)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Queen", "version": version, "description": "Ordered queues on PostgreSQL."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _operation(route: Route, body: Any, answer: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": f"{route.call.__module__.rpartition('.')[2]}.{route.call.__name__}",
        "tags": [route.call.__module__.rpartition(".")[2]],
        "parameters": [*_path_parameters(route), *map(_query_parameter, route.query)],
        "responses": _responses(route, answer),
    }
    if body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": body}}}
    if route.role in _ROLES:
        operation["security"] = [{"token": []}]
        operation["description"] = f"With authentication on, needs the role {_ROLES[route.role]}."
    return operation


def _path_parameters(route: Route) -> Iterator[dict[str, Any]]:
    for name in route.parameters:
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameter(query: Query) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": query.kind}
    if query.default is not None:
        schema["default"] = query.default
    return {
        "name": query.name,
        "in": "query",
        "required": query.required,
        "description": query.description,
        "schema": schema,
    }


def _responses(route: Route, answer: Any) -> dict[str, Any]:
    good: dict[str, Any] = {"description": _REASONS.get(route.status, "Done")}
    good["content"] = {route.media: {"schema": answer if answer is not None else {}}}
    responses = {str(route.status): good}
    if route.empty is not None:
        responses[str(route.empty)] = {"description": _REASONS[route.empty]}
    refusal = {"application/json": {"schema": {"$ref": _REF.format(name="Refusal")}}}
    statuses = {400, *route.others, *((401, 403) if route.role in _ROLES else ())}
    for status in sorted(statuses):
        responses[str(status)] = {"description": _REASONS[status], "content": refusal}
    responses["default"] = {"description": "Any other refusal", "content": refusal}
    return responses
