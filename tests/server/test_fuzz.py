"""Schemathesis over our own description: no 5xx, no hang, no answer that does not match it."""

from __future__ import annotations

import os
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from queen import __version__
from queen.server.app import gather
from queen.server.openapi import describe
from tests.server.running import Running

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = int(os.environ.get("QUEEN_FUZZ_EXAMPLES", "4"))
SCHEMA = schemathesis.openapi.from_dict(describe(gather(), __version__))


@pytest.fixture(scope="module")
def target(shared_broker: Running) -> str:
    return shared_broker.url


@SCHEMA.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_input_breaks_the_contract(case: Any, target: str) -> None:
    if "maintenance" in case.path:
        case.body = {"enabled": False} if case.method == "POST" else case.body
    if isinstance(case.query, dict):
        case.query.pop("wait", None)
    answer = case.call(base_url=target, timeout=20)
    # The contract has one 500 of its own: a trace for a message that is not there.
    if case.path == "/api/v1/traces" and answer.status_code == 500:
        assert answer.json() == {"success": False, "error": "Message not found"}
        return
    case.validate_response(answer, checks=CHECKS)


def test_the_description_is_complete(api: httpx2.Client) -> None:
    document = api.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    listed = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    routes = {
        (route.method, "/".join(f"{{{part[1:]}}}" if part.startswith(":") else part for part in route.path.split("/")))
        for route in gather()
        if route.listed and route.method != "WS"
    }
    assert listed == routes
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))
    assert "<title>Queen" in api.get("/docs").text
