# mypy: ignore-errors
"""The published client through TLS, with a token that may use one queue only.

    python one_queue.py <broker's address> <token> <the queue> <file for the report>

Runs in the client's own environment: `queen` there is the published package.
"""

from __future__ import annotations

import asyncio
import sys
from json import dumps
from pathlib import Path

from queen import Queen


async def used(client, queue):
    """What works with a queue, and what is said instead."""
    found = {}

    async def attempt(name, work):
        try:
            found[name] = await work
        except Exception as error:  # noqa: BLE001 - the report has them all
            found[name] = {"error": str(error), "status": getattr(error, "status_code", None)}

    await attempt("create", client.queue(queue).create())
    await attempt("push", client.queue(queue).push([{"data": {"n": 1}}, {"data": {"n": 2}}]))
    messages = []
    await attempt("pop", client.queue(queue).batch(2).wait(False).pop())
    if isinstance(found["pop"], list):
        messages, found["pop"] = found["pop"], [message["data"] for message in found["pop"]]
    if messages:
        await attempt("renew", client.renew(messages[0]))
        await attempt("ack", client.ack(messages, True))
        await attempt("left", client.queue(queue).wait(False).pop())
    return found


async def main(url, token, queue):
    async with Queen(url=url, bearer_token=token, retry_attempts=1) as client:
        return {"own": await used(client, queue), "other": await used(client, "other")}


found = asyncio.run(main(*sys.argv[1:4]))
Path(sys.argv[4]).write_text(dumps(found, default=str), encoding="utf-8")
