"""connect: a synchronous client for an address."""

# Written by scripts/sync_client.py from src/queen/client/connect.py; change that instead.

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import httpx2

from queen.client._sync.client import Client
from queen.client._sync.message import Message
from queen.client.connect import connect as _connect
from queen.client.http import Timeouts
from queen.client.portal import Portal
from queen.client.retry import Retry
from queen.client.transport import Transport


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
) -> Client:
    """A client for brokers (`http://...`, several for failover) or for a database (`postgresql://...`).

    Without an address, the one in QUEEN_URL or QUEEN_DATABASE_URL is used; without that, the embedded
    server in `data_dir`, with its schema made ready. `token` and `timeouts` are for brokers;
    `encryption_keys` (QUEEN_ENCRYPTION_KEY unless given), `pool_size`, `pooler` and `listen_url` for a
    database. `transport` is for tests: what to use instead of the network.

        with queen.connect_sync("http://localhost:6632") as q:
            q.push("orders", {"orderId": 123}, partition="customer-456")
    """
    portal = Portal()
    return Client(
        portal,
        portal.call(
            lambda: _connect(
                url,
                token=token,
                retry=retry,
                encryption_keys=encryption_keys,
                pool_size=pool_size,
                pooler=pooler,
                listen_url=listen_url,
                data_dir=data_dir,
                timeouts=timeouts,
                transport=transport,
                message_type=Message,
            )
        ),
    )
