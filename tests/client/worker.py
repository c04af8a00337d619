"""A worker that writes down what it does: `python -m tests.client.worker URL QUEUE FILE SECONDS [sync|lifespan]`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn

import queen


def write(event: str, value: object = None) -> None:
    with Path(sys.argv[3]).open("a") as log:
        log.write(json.dumps([event, os.getpid(), value]) + "\n")


def main_sync(url: str, queue_name: str, seconds: float) -> None:
    def work(message: queen.SyncMessage[int]) -> None:
        write("begin", message.data)
        time.sleep(seconds)
        write("end", message.data)

    with queen.connect_sync(url) as q:
        write("stopped", q.consume(queue_name, work, prefetch=10, lease=2, poll=5).handled)


def main_lifespan(url: str, queue_name: str) -> None:
    """A web application that consumes as long as it lives; its server is who handles the signals."""

    async def work(message: queen.Message[int]) -> None:
        write("begin", message.data)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan"
        await receive()
        async with queen.connect(url) as q:
            consuming = asyncio.create_task(q.consume(queue_name, work, poll=5))
            await send({"type": "lifespan.startup.complete"})
            await receive()
            q.stop()
            write("stopped", (await consuming).handled)
        await send({"type": "lifespan.shutdown.complete"})

    uvicorn.run(app, port=0, lifespan="on", log_level="warning")


async def main(url: str, queue_name: str, seconds: float) -> None:
    async def work(message: queen.Message[int]) -> None:
        write("begin", message.data)
        await asyncio.sleep(seconds)
        write("end", message.data)

    async with queen.connect(url) as q:
        consumed = await q.consume(queue_name, work, prefetch=10, lease=2, poll=5)
        write("stopped", consumed.handled)


if __name__ == "__main__":
    given = (sys.argv[1], sys.argv[2], float(sys.argv[4]))
    if sys.argv[5:] == ["sync"]:
        main_sync(*given)
    elif sys.argv[5:] == ["lifespan"]:
        main_lifespan(*given[:2])
    else:
        asyncio.run(main(*given))
