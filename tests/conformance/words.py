# mypy: ignore-errors
"""Words the scenarios share.

Runs in the client's own environment: `queen` here is the published package.
"""

from __future__ import annotations

import asyncio
from uuid import uuid4


def fresh(name):
    return f"{name}-{uuid4().hex[:10]}"


def teller(into, choose=lambda *args: args[0]):
    """A callback that remembers what it was told; the client awaits its callbacks."""

    async def tell(*args):
        into.append(choose(*args))

    return tell


def said(*args):
    return str(args[-1])


async def refusal(call):
    """What the client says when it raises; it must."""
    try:
        await call
    except Exception as error:  # noqa: BLE001 - the client raises plain exceptions
        return str(error)
    raise AssertionError("this must be refused")


async def now(builder):
    """What can be popped at once; the client waits unless told otherwise."""
    return await builder.wait(False).pop()


def values(messages):
    return [message["data"] for message in messages]


async def eventually(condition, limit=20.0):
    deadline = asyncio.get_running_loop().time() + limit
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.02)
