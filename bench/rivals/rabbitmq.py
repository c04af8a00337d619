"""RabbitMQ: a server of its own, a durable queue, persistent messages and publisher confirms."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import aio_pika

from rivals.rival import Rival

_SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"


class RabbitMq(Rival):
    """Publishes wait for their confirm; consumers are given what they prefetch, and acknowledge a batch at once."""

    name = "RabbitMQ"
    shared = "what the server gathers"
    lacks = "order of a key only with one consumer, a message that was acknowledged is gone for all, no replay"

    @property
    def servers(self) -> list[int]:
        return [self._server.pid]

    @property
    def uses_postgres(self) -> bool:
        return False

    async def open(self) -> None:
        home = Path(self.place.directory)
        ports = _free_ports(3)
        environment = {
            **os.environ,
            "HOME": str(home),
            "RABBITMQ_NODENAME": f"bench{ports[0]}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(ports[0]),
            "RABBITMQ_DIST_PORT": str(ports[1]),
            "ERL_EPMD_PORT": str(ports[2]),
            "RABBITMQ_MNESIA_BASE": str(home / "data"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(home / "none"),
        }
        self._epmd = subprocess.Popen(  # noqa: ASYNC220 - back at once
            [shutil.which("epmd") or "epmd", "-port", str(ports[2])], env=environment, stderr=subprocess.DEVNULL
        )
        self._server = subprocess.Popen(  # noqa: ASYNC220 - back at once
            [_SERVER], env=environment, stdout=subprocess.DEVNULL
        )
        self._connection = await _connect(ports[0])
        self._channels = [await self._connection.channel(publisher_confirms=True) for _ in range(self.callers)]
        self._queues = [await channel.declare_queue("bench", durable=True) for channel in self._channels]
        self._turn = 0
        self._tags: list[tuple[aio_pika.abc.AbstractQueue, str]] = []
        self._heard: asyncio.Queue[aio_pika.abc.AbstractIncomingMessage] | None = None

    async def close(self) -> None:
        await self._connection.close()
        for process in (self._server, self._epmd):
            process.terminate()
            process.wait(60)

    async def push(self, payloads: list[str]) -> None:
        self._turn += 1
        exchange = self._channels[self._turn % self.callers].default_exchange
        await asyncio.gather(
            *(
                exchange.publish(
                    aio_pika.Message(payload.encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT), "bench"
                )
                for payload in payloads
            )
        )

    async def take(self, batch: int) -> list[str]:
        raise NotImplementedError("its consumers are sent messages, they do not ask")

    async def run_take(self, batch: int, seconds: float) -> int:
        end = time.perf_counter() + seconds
        return sum(await asyncio.gather(*(self._consume(batch, end) for _ in range(self.callers))))

    async def _consume(self, batch: int, end: float) -> int:
        """What one consumer finished until then, or until it was sent nothing for half a second."""
        channel = await self._connection.channel()
        await channel.set_qos(prefetch_count=batch)
        queue = await channel.get_queue("bench")
        sent: asyncio.Queue[aio_pika.abc.AbstractIncomingMessage] = asyncio.Queue()
        await queue.consume(sent.put)
        taken = done = 0
        while (left := end - time.perf_counter()) > 0:
            try:
                message = await asyncio.wait_for(sent.get(), min(left, 0.5))
            except TimeoutError:
                break
            taken += 1
            if taken % batch == 0:
                await message.ack(multiple=batch > 1)
                done = taken
        await channel.close()
        return done

    async def run_delivery(self, rate: int, seconds: float) -> list[float]:
        times = await super().run_delivery(rate, seconds)
        for queue, tag in self._tags:
            await queue.cancel(tag)
        return times

    async def wait(self) -> list[str]:
        if self._heard is None:
            self._heard = asyncio.Queue()
            for channel, queue in zip(self._channels, self._queues, strict=True):
                await channel.set_qos(prefetch_count=1)
                self._tags.append((queue, await queue.consume(self._heard.put)))
        try:
            message = await asyncio.wait_for(self._heard.get(), 1)
        except TimeoutError:
            return []
        await message.ack()
        return [message.body.decode()]


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


async def _connect(port: int) -> aio_pika.abc.AbstractConnection:
    async with asyncio.timeout(60):
        while True:
            try:
                return await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
            except (OSError, aio_pika.exceptions.AMQPError):
                await asyncio.sleep(0.3)
