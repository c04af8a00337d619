"""For the tests of applications that use Queen: a ready, empty Queen in milliseconds, a clock, and draining.

With `queen-pg` installed pytest finds the fixtures by itself:

    async def test_billing(queen_client, queen_clock):
        await queen_client.push("orders", {"id": 1})
        await queen_client.consume("orders", bill, limit=1, signals=False)
        queen_clock.advance(seconds=3600)
        assert [m.data for m in await drain(queen_client, "invoices")] == [{"of": 1}]
"""

from __future__ import annotations

from queen.testing.clock import Clock
from queen.testing.drain import drain, drain_sync
from queen.testing.server import TestServer

__all__ = ["Clock", "TestServer", "drain", "drain_sync"]
