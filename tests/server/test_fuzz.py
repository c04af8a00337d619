"""Schemathesis over our own description: no 5xx, no hang, no answer that does not match it, whoever asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import httpx2
import jwt
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
from tests.server.conftest import SECRET
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
TOKENS: dict[str, dict[str, Any] | None] = {
    "admin": {"sub": "ann", "role": "admin"},
    "one queue": {"sub": "bob", "role": "admin", "queues": {"push": ["0"], "pop": ["0"], "admin": ["0"]}},
    "nobody": None,
}


def some(count: int) -> Callable[[Any], Any]:
    """The same requests in every run."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def check(case: Any, target: str, token: str | None = None) -> None:
    """Make a request that cannot hang or switch the broker off, and look at the answer."""
    if "maintenance" in case.path:
        case.body = {"enabled": False} if case.method == "POST" else case.body
    if isinstance(case.query, dict):
        case.query.pop("wait", None)
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    case.validate_response(case.call(base_url=target, timeout=20, headers=headers), checks=CHECKS)


@pytest.fixture(scope="module")
def target(shared_broker: Running) -> str:
    return shared_broker.url


@SCHEMA.parametrize()
@some(EXAMPLES)
def test_no_input_breaks_the_contract(case: Any, target: str) -> None:
    check(case, target)


@pytest.fixture(scope="module")
def guarded_target(guarded: Running) -> str:
    return guarded.url


@SCHEMA.parametrize()
@some(max(EXAMPLES // 4, 1))
def test_nor_when_tokens_are_asked_for(case: Any, guarded_target: str) -> None:
    for claims in TOKENS.values():
        check(case, guarded_target, None if claims is None else jwt.encode(claims, SECRET, "HS256"))


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
