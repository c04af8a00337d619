"""The loads of `bench/broker.py`: keep-alive connections that do as little as they can beside the broker they measure.

What a connection says is a plain generator: it yields the bytes of a request and is sent the answer's status and
body. The protocol drives it from inside the event loop's callback, so no task is switched between an answer and
the next request, and requests are joined from parts made beforehand.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import deque
from collections.abc import Callable, Generator
from itertools import count
from typing import Final, cast
from urllib.parse import urlsplit

from loads import GROUP, PARTITIONS, PAYLOAD, QUEUE

Answer = tuple[int, bytes]
Script = Generator[bytes, Answer, int]

CONNECTIONS: Final = 64
CONSUMERS: Final = 16
LANES: Final = 50
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NAMES: Final = re.compile(rb'"transactionId":\s*"([^"]+)"')
_PARTITION: Final = re.compile(rb'"partitionId":\s*"([^"]+)"')
_LEASE: Final = re.compile(rb'"leaseId":\s*"([^"]+)"')


class Connection(asyncio.Protocol):
    """One keep-alive connection that follows a script; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._script: Script | None = None
        self._ended: asyncio.Future[int] | None = None
        self._parts: list[bytes] = []
        self._missing = -1
        self._status = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def follow(self, script: Script) -> asyncio.Future[int]:
        """Begin a script; the future has what it returns."""
        assert self._transport is not None
        self._script = script
        self._ended = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(next(script))
        except StopIteration as end:
            self._ended.set_result(end.value)
        return self._ended

    def data_received(self, data: bytes) -> None:
        if self._missing < 0:
            if self._parts:
                data = b"".join((*self._parts, data))
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                self._parts = [data]
                return
            self._status = int(data[9:12])
            length = _LENGTH.search(data, 0, end)
            self._missing = int(length[1]) if length else 0
            data = data[end:]
            self._parts = []
        self._missing -= len(data)
        if self._missing > 0:
            self._parts.append(data)
            return
        body = b"".join((*self._parts, data)) if self._parts else data
        self._parts, self._missing = [], -1
        self._go_on((self._status, body))

    def _go_on(self, answer: Answer) -> None:
        assert self._script is not None
        assert self._ended is not None
        assert self._transport is not None
        try:
            self._transport.write(self._script.send(answer))
        except StopIteration as end:
            self._ended.set_result(end.value)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to whoever waits for the script
            self._ended.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(exc or ConnectionResetError("the broker closed the connection"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Items:
    """Bodies of pushes, joined from parts: only the numbers that end the transaction ids are new each time."""

    def __init__(self, queue: str, partitions: int) -> None:
        run = secrets.token_hex(12)
        start = f"{run[:8]}-{run[8:12]}-7{run[12:15]}-8{run[15:18]}-"
        self._numbers = count(10**11)
        self._first = [
            f'{{"queue":"{queue}","partition":"p{number}","payload":{PAYLOAD},"transactionId":"{start}'.encode()
            for number in range(partitions)
        ]

    def body(self, partition: int, batch: int) -> bytes:
        first = self._first[partition % len(self._first)]
        items = (b'"},' + first).join([b"%d" % next(self._numbers) for _ in range(batch)])
        return b'{"items":[%s%s"}]}' % (first, items)


class Broker:
    """The contract's verbs as loads, against any broker that speaks it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port or 80
        self._head = b" HTTP/1.1\r\nhost: %s\r\n" % parts.netloc.encode()
        self._json = self._head + b"content-type: application/json\r\ncontent-length: "
        self._items = Items(QUEUE, PARTITIONS)

    def get(self, path: str) -> bytes:
        return b"GET %s%s\r\n" % (path.encode(), self._head)

    def post(self, path: bytes, body: bytes) -> bytes:
        return b"POST %s%s%d\r\n\r\n%s" % (path, self._json, len(body), body)

    async def connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(Connection, self._host, self._port))[1]

    async def run(self, *scripts: Script) -> tuple[int, float]:
        """Let each script have a connection of its own; returns the sum of what they return, and the time it took."""
        opened = [(script, await self.connect()) for script in scripts]
        started = time.perf_counter()
        done = await asyncio.gather(*(connection.follow(script) for script, connection in opened))
        spent = time.perf_counter() - started
        for _, connection in opened:
            connection.close()
        return sum(done), spent

    async def race(self, seconds: float, connections: int, script: Callable[[int, float], Script]) -> float:
        """Let connections follow a script for some seconds; returns what they did per second."""
        end = time.perf_counter() + seconds + 0.001 * connections
        done, spent = await self.run(*(script(number, end) for number in range(connections)))
        return done / spent

    async def push(self, seconds: float, batch: int, connections: int) -> float:
        """Push batches to one partition each, with transaction ids of the caller's."""

        def script(number: int, end: float) -> Script:
            turn = 0
            while time.perf_counter() < end:
                status, answer = yield self.post(b"/api/v1/push", self._items.body(number * 7 + turn, batch))
                assert status == 201, answer
                turn += 1
            return turn * batch

        return await self.race(seconds, connections, script)

    async def pop_ack(self, seconds: float, batch: int, connections: int) -> float:
        """Pop a batch and acknowledge each of its messages, in one call."""
        pop = self.get(f"/api/v1/pop/queue/{QUEUE}?batch={batch}&wait=false&consumerGroup={GROUP}")

        def script(_number: int, end: float) -> Script:
            done = 0
            while time.perf_counter() < end:
                status, answer = yield pop
                if status == 204:
                    break
                names = _NAMES.findall(answer)
                status, answer = yield self.post(b"/api/v1/ack/batch", acks(answer, names))
                assert status == 200, answer
                done += len(names)
            return done

        return await self.race(seconds, connections, script)

    async def prepare(self) -> None:
        """Make the queue, its partitions and its group."""

        def script() -> Script:
            for partition in range(PARTITIONS):
                yield self.post(b"/api/v1/push", self._items.body(partition, 1))
            yield self.get(f"/api/v1/pop/queue/{QUEUE}?batch=1&consumerGroup={GROUP}&autoAck=true")
            return 0

        await self.run(script())

    async def fill(self, messages: int) -> None:
        """Push so many messages, a thousand at a time."""

        def script() -> Script:
            for turn in range(-(-messages // 1000)):
                status, answer = yield self.post(b"/api/v1/push", self._items.body(turn, 1000))
                assert status == 201, answer
            return 0

        await self.run(script())

    async def delivery(self, seconds: float, rate: int) -> list[float]:
        """Push at a rate while long polls wait; returns the time from push to delivery of each, in seconds.

        Pushes are sent when they are due, on whichever connection is free, whether or not earlier ones were answered.
        Making the queue and its partitions, and the first second, do not count.
        """
        pushing = Deliveries(self, rate)
        await self.run(pushing.prepare())
        consumers = [asyncio.ensure_future(self.run(pushing.consume(seconds + 1.0))) for _ in range(CONSUMERS)]
        await asyncio.sleep(0.3)
        await pushing.produce(1.0)
        pushing.times.clear()
        await pushing.produce(seconds)
        await asyncio.gather(*consumers)
        return sorted(pushing.times)


def acks(answer: bytes, names: list[bytes]) -> bytes:
    """The body that acknowledges one partition's messages."""
    partition, lease = _PARTITION.search(answer), _LEASE.search(answer)
    assert partition is not None
    assert lease is not None
    first = b'{"partitionId":"%s","leaseId":"%s","status":"completed","transactionId":"' % (partition[1], lease[1])
    items = first + (b'"},' + first).join(names)
    return b'{"consumerGroup":"%s","acknowledgments":[%s"}]}' % (GROUP.encode(), items)


class Deliveries:
    """One push after the other at a steady rate, and when each of them reached a consumer."""

    def __init__(self, broker: Broker, rate: int) -> None:
        self._broker, self._rate = broker, rate
        self._items = Items("bench-delivery", LANES)
        self._sent: dict[bytes, float] = {}
        self.times: list[float] = []

    def prepare(self) -> Script:
        """One message for every partition."""
        for partition in range(LANES):
            yield from self._push(partition)
        return LANES

    def consume(self, seconds: float) -> Script:
        """Wait for messages and note when they come."""
        stop = time.perf_counter() + seconds + 1.5
        pop = self._broker.get(
            "/api/v1/pop/queue/bench-delivery?batch=10&partitions=10&wait=true&timeout=500&autoAck=true"
        )
        while time.perf_counter() < stop:
            status, answer = yield pop
            now = time.perf_counter()
            if status == 200:
                self.hear(_NAMES.findall(answer), now)
        return 0

    def hear(self, names: list[bytes], at: float) -> None:
        """Note the messages of one answer."""
        self.times += [at - self._sent[name] for name in names if name in self._sent]

    async def produce(self, seconds: float) -> None:
        """Send every push at its time."""
        opened = [await self._broker.connect() for _ in range(CONNECTIONS)]
        free = deque(opened)
        last: dict[Connection, asyncio.Future[int]] = {}
        started = time.perf_counter()
        for turn in range(int(seconds * self._rate)):
            due = started + turn / self._rate
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            if not free:
                opened.append(await self._broker.connect())
                free.append(opened[-1])
            connection = free.popleft()
            pushed = connection.follow(self._push(turn))
            pushed.add_done_callback(lambda _, connection=connection: free.append(connection))  # type: ignore[misc]
            last[connection] = pushed
        await asyncio.gather(*last.values())
        for connection in opened:
            connection.close()

    def _push(self, turn: int) -> Script:
        body = self._items.body(turn, 1)
        [name] = _NAMES.findall(body)
        self._sent[name] = time.perf_counter()
        status, answer = yield self._broker.post(b"/api/v1/push", body)
        assert status == 201, answer
        return 1
