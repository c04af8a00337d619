"""A crowd that means no good, as a process of its own: `python -m tests.server.crowd HOST PORT IDLE HALF SLOW QUEUE`.

Idle ones connect and say nothing, half ones send half a head again and again, slow ones pop something large, each for a
group of its own, and read a few bytes at a time. Says `ready` when all are there, and what it saw when its input ends.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections import Counter


class Crowd:
    """The three kinds."""

    def __init__(self, host: str, port: int, queue: str) -> None:
        self._address, self._queue = (host, port), queue
        self.seen: Counter[str] = Counter()
        self.arrived = 0

    async def _connect(self, unread: int = 0) -> socket.socket:
        connection = socket.socket()
        connection.setblocking(False)
        if unread:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, unread)
        await asyncio.get_running_loop().sock_connect(connection, self._address)
        return connection

    async def idle(self) -> None:
        """Say nothing until the broker hangs up; then again."""
        loop = asyncio.get_running_loop()
        while True:
            with await self._connect() as connection:
                self.arrived += 1
                await loop.sock_recv(connection, 1000)
            self.seen["idle turned away"] += 1

    async def half(self) -> None:
        """Send half a head; when that is answered, again."""
        loop = asyncio.get_running_loop()
        while True:
            with await self._connect() as connection:
                await loop.sock_sendall(connection, b"GET /health/live HTTP/1.1\r\nhost: x\r\nx-half: ")
                self.arrived += 1
                answer = await loop.sock_recv(connection, 1000)
            self.seen[answer[9:12].decode() or "half head without an answer"] += 1

    async def slow(self, number: int) -> None:
        """Pop, and read the answer a few bytes at a time."""
        loop = asyncio.get_running_loop()
        path = f"/api/v1/pop/queue/{self._queue}?consumerGroup=slow{number}"
        with await self._connect(unread=4096) as connection:
            await loop.sock_sendall(connection, f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            assert (await loop.sock_recv(connection, 64)).startswith(b"HTTP/1.1 200")
            self.arrived += 1
            heard = b"some"
            while heard:
                heard = await loop.sock_recv(connection, 64)
                await asyncio.sleep(0.2)


async def main(host: str, port: str, idle: str, half: str, slow: str, queue: str) -> None:
    """All of them until the input ends."""
    crowd = Crowd(host, int(port), queue)
    wanted = int(idle) + int(half) + int(slow)
    tasks = [asyncio.create_task(crowd.slow(number)) for number in range(int(slow))]
    for number in range(int(idle) + int(half)):
        tasks.append(asyncio.create_task(crowd.idle() if number < int(idle) else crowd.half()))
        if number % 100 == 99:
            await asyncio.sleep(0.05)
    while crowd.arrived < wanted:
        await asyncio.sleep(0.05)
        for task in tasks:
            if task.done():
                task.result()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    crowd.seen.update(type(error).__name__ for error in ended if not isinstance(error, asyncio.CancelledError))
    sys.stdout.write(f"{dict(crowd.seen)}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
