"""connect: a client for an address."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import httpx2

from queen.client.client import Client
from queen.client.direct import DirectTransport
from queen.client.http import Timeouts
from queen.client.http_admin import HttpTransport
from queen.client.message import Delivered, Message
from queen.client.retry import Retry
from queen.client.transport import Transport
from queen.db.pool import PoolOptions
from queen.errors import InvalidRequest


def connect(
    url: str | Sequence[str] | None = None,
    *,
    token: str | None = None,
    retry: Retry | None = None,
    encryption_keys: Sequence[str] | None = None,
    pool_size: int = 10,
    pooler: Literal["session", "transaction"] = "session",
    listen_url: str | None = None,
    data_dir: str | Path = ".queen",
    timeouts: Timeouts | None = None,
    transport: Transport | httpx2.AsyncBaseTransport | None = None,
    message_type: type[Delivered[Any]] = Message,
) -> Client:
    """A client for brokers (`http://...`, several for failover) or for a database (`postgresql://...`).

    Without an address, the one in QUEEN_URL or QUEEN_DATABASE_URL is used; without that, the embedded
    server in `data_dir`, with its schema made ready. `token` and `timeouts` are for brokers;
    `encryption_keys` (QUEEN_ENCRYPTION_KEY unless given), `pool_size`, `pooler` and `listen_url` for a
    database. `transport` is for tests: what to use instead of the network.

        async with queen.connect("http://localhost:6632") as q:
            await q.push("orders", {"orderId": 123}, partition="customer-456")
    """
    if transport is None or isinstance(transport, httpx2.AsyncBaseTransport):
        found = _addresses(url, os.environ)
        if transport is not None or (found and found[0].startswith("http")):
            bearer = token or os.environ.get("QUEEN_TOKEN")
            transport = HttpTransport(found, token=bearer, timeouts=timeouts, transport=transport)
        else:
            transport = DirectTransport(
                found[0] if found else None,
                data_dir=Path(data_dir),
                keys=_keys(os.environ) if encryption_keys is None else encryption_keys,
                options=PoolOptions(size=pool_size, pooler=pooler),
                listen_url=listen_url,
            )
    return Client(transport, retry=retry, message_type=message_type)


def _addresses(url: str | Sequence[str] | None, environment: Mapping[str, str]) -> list[str]:
    given = url or environment.get("QUEEN_URL") or environment.get("QUEEN_DATABASE_URL") or []
    found = [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)
    kinds = {address.partition("://")[0] for address in found}
    if not kinds <= {"http", "https"} and not (kinds <= {"postgresql", "postgres"} and len(found) == 1):
        raise InvalidRequest("url", "url must be one postgresql:// address, or one or more http:// or https:// ones")
    return found


def _keys(environment: Mapping[str, str]) -> list[str]:
    text = environment.get("QUEEN_ENCRYPTION_KEYS") or environment.get("QUEEN_ENCRYPTION_KEY") or ""
    return [part.strip() for part in text.split(",") if part.strip()]
