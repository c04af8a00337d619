"""A worker process that writes down what it does: `python -m tests.client.worker URL QUEUE FILE SECONDS [sync]`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

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
    else:
        asyncio.run(main(*given))
