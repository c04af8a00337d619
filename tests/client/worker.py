"""A worker process that writes down what it does: `python -m tests.client.worker URL QUEUE FILE SECONDS`."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import queen


async def main(url: str, queue_name: str, file: str, seconds: float) -> None:
    def write(event: str, value: object = None) -> None:
        with Path(file).open("a") as log:
            log.write(json.dumps([event, os.getpid(), value]) + "\n")

    async def work(message: queen.Message[int]) -> None:
        write("begin", message.data)
        await asyncio.sleep(seconds)
        write("end", message.data)

    async with queen.connect(url) as q:
        write("ready")
        consumed = await q.consume(queue_name, work, batch=10, lease=2, poll=5)
        write("stopped", consumed.handled)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
