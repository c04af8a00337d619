"""Messages as the commands that hand them around show them."""

from __future__ import annotations

from typing import Any

import msgspec

from queen.client.message import Delivered
from queen.ids import to_wire


def shown(message: Delivered[Any]) -> dict[str, Any]:
    """A message with every id the other commands and the HTTP routes take."""
    raw = message.raw
    return {
        "queue": raw.queue,
        "partition": raw.partition,
        "seq": raw.seq,
        "created_at": raw.created_at,
        "id": raw.id,
        "transaction_id": raw.transaction_id,
        "trace_id": raw.trace_id,
        "group": raw.group,
        "partition_id": to_wire("partition", raw.partition_id),
        "lease_id": raw.lease_id,
        "data": msgspec.Raw(raw.payload.encode()),
    }


def brief(message: Delivered[Any]) -> dict[str, Any]:
    """What fits on a line."""
    full = shown(message)
    names = ("queue", "partition", "seq", "created_at", "transaction_id", "lease_id", "data")
    return {name: full[name] for name in names}
