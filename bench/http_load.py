"""The loads of `bench/broker.py`: a small HTTP client on keep-alive connections that does as little as it can."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import cast
from urllib.parse import urlsplit

import msgspec
from loads import GROUP, PARTITIONS, PAYLOAD, QUEUE

from queen.ids import uuid7s


class Connection(asyncio.Protocol):
    """One keep-alive connection; one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[tuple[int, bytes]] | None = None
        self._buffer = b""
        self._need = -1
        self._status = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if self._need < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._buffer[:end].lower()
            self._status = int(head[9:12])
            at = head.find(b"content-length:")
            length = int(head[at + 15 : head.find(b"\r\n", at) if head.find(b"\r\n", at) > 0 else end]) if at > 0 else 0
            self._need = end + 4 + length
            self._start = end + 4
        if len(self._buffer) >= self._need and self._waiting is not None:
            body = self._buffer[self._start : self._need]
            waiting, self._waiting = self._waiting, None
            self._buffer, self._need = b"", -1
            waiting.set_result((self._status, body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(exc or ConnectionResetError("the broker closed the connection"))

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Send a request; the future has the answer's status and body."""
        assert self._transport is not None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiting

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Popped(msgspec.Struct, rename="camel"):
    transaction_id: str
    partition_id: str
    lease_id: str
    data: msgspec.Raw


class Pop(msgspec.Struct):
    messages: list[Popped]


class AckItem(msgspec.Struct, rename="camel"):
    transaction_id: str
    partition_id: str
    lease_id: str
    status: str = "completed"


class AckBatch(msgspec.Struct, rename="camel"):
    acknowledgments: list[AckItem]
    consumer_group: str


POP = msgspec.json.Decoder(Pop)


class Broker:
    """The contract's verbs as loads, against any broker that speaks it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port or 80
        self._head = f" HTTP/1.1\r\nhost: {parts.netloc}\r\n"

    def get(self, path: str) -> bytes:
        return f"GET {path}{self._head}\r\n".encode()

    def post(self, path: str, body: bytes) -> bytes:
        head = f"POST {path}{self._head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        return head.encode() + body

    async def connect(self, count: int) -> list[Connection]:
        loop = asyncio.get_running_loop()
        found = []
        for _ in range(count):
            _, connection = await loop.create_connection(Connection, self._host, self._port)
            found.append(connection)
        return found

    async def race(
        self, seconds: float, connections: int, work: Callable[[Connection, int, int], Awaitable[int]]
    ) -> float:
        """Let connections repeat `work` until time is up; returns what they did per second."""
        opened = await self.connect(connections)
        end = time.perf_counter() + seconds

        async def run(number: int, connection: Connection) -> int:
            done = turn = 0
            while time.perf_counter() < end:
                count = await work(connection, number, turn)
                if count == 0:
                    break
                done += count
                turn += 1
            return done

        started = time.perf_counter()
        done = await asyncio.gather(*(run(number, connection) for number, connection in enumerate(opened)))
        spent = time.perf_counter() - started
        for connection in opened:
            connection.close()
        return sum(done) / spent

    def items(self, partition: int, batch: int) -> bytes:
        item = '{"queue":"%s","partition":"p%d","payload":%s,"transactionId":"%s"}'
        items = ",".join(item % (QUEUE, partition, PAYLOAD, new) for new in uuid7s(batch))
        return b'{"items":[%s]}' % items.encode()

    async def push(self, seconds: float, batch: int, connections: int) -> float:
        """Push batches to one partition each, with transaction ids of the caller's."""

        async def work(connection: Connection, number: int, turn: int) -> int:
            body = self.items((number * 7 + turn) % PARTITIONS, batch)
            status, answer = await connection.ask(self.post("/api/v1/push", body))
            assert status == 201, answer
            return batch

        return await self.race(seconds, connections, work)

    async def pop_ack(self, seconds: float, batch: int, connections: int) -> float:
        """Pop a batch and acknowledge each of its messages, in one call."""
        pop = self.get(f"/api/v1/pop/queue/{QUEUE}?batch={batch}&wait=false&consumerGroup={GROUP}")

        async def work(connection: Connection, _number: int, _turn: int) -> int:
            status, answer = await connection.ask(pop)
            if status == 204:
                return 0
            messages = POP.decode(answer).messages
            items = [AckItem(one.transaction_id, one.partition_id, one.lease_id) for one in messages]
            body = msgspec.json.encode(AckBatch(items, GROUP))
            status, answer = await connection.ask(self.post("/api/v1/ack/batch", body))
            assert status == 200, answer
            return len(messages)

        return await self.race(seconds, connections, work)

    async def prepare(self) -> None:
        """Make the queue, its partitions and its group."""
        (connection,) = await self.connect(1)
        for partition in range(PARTITIONS):
            await connection.ask(self.post("/api/v1/push", self.items(partition, 1)))
        await connection.ask(self.get(f"/api/v1/pop/queue/{QUEUE}?batch=1&consumerGroup={GROUP}&autoAck=true"))
        connection.close()

    async def fill(self, count: int) -> None:
        """Push so many messages, a thousand at a time."""
        (connection,) = await self.connect(1)
        for start in range(0, count, 1000):
            await connection.ask(self.post("/api/v1/push", self.items(start // 1000 % PARTITIONS, 1000)))
        connection.close()

    async def delivery(self, seconds: float, rate: int) -> list[float]:
        """Push at a rate while a long poll waits; returns the time from push to delivery of each, in seconds."""
        sent: dict[str, float] = {}
        times: list[float] = []
        queue = "bench-delivery"
        consumers = await self.connect(8)
        (producer,) = await self.connect(1)
        stop = time.perf_counter() + seconds
        pop = self.get(f"/api/v1/pop/queue/{queue}?batch=10&wait=true&timeout=1000&autoAck=true")

        async def consume(connection: Connection) -> None:
            while time.perf_counter() < stop + 0.5:
                status, answer = await connection.ask(pop)
                now = time.perf_counter()
                found = POP.decode(answer).messages if status == 200 else []
                times.extend(now - sent[message.transaction_id] for message in found)

        consuming = [asyncio.create_task(consume(connection)) for connection in consumers]
        turn = 0
        started = time.perf_counter()
        while time.perf_counter() < stop:
            name = str(uuid7s(1)[0])
            item = '{"queue":"%s","partition":"p%d","payload":%s,"transactionId":"%s"}'
            body = b'{"items":[%s]}' % (item % (queue, turn % 50, PAYLOAD, name)).encode()
            sent[name] = time.perf_counter()
            status, answer = await producer.ask(self.post("/api/v1/push", body))
            assert status == 201, answer
            turn += 1
            await asyncio.sleep(max(started + turn / rate - time.perf_counter(), 0))
        await asyncio.gather(*consuming)
        for connection in (*consumers, producer):
            connection.close()
        return sorted(times)
