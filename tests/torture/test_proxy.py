"""The proxy passes on, cuts, loses answers, and follows its target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.wait import eventually
from torture.proxy import Proxy


@asynccontextmanager
async def echo(heard: list[bytes]) -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            heard.append(line)
            writer.write(line)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def ask(proxy: Proxy, line: bytes) -> bytes:
    """The answer, or nothing when hung up on."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(line)
        answer = await reader.readline()
        writer.close()
    except ConnectionError:
        return b""
    return answer


@pytest.mark.timeout(60)
async def test_open_cut_slow_deaf_and_another_target() -> None:
    heard: list[bytes] = []
    others: list[bytes] = []
    async with echo(heard) as port, echo(others) as elsewhere:
        proxy = Proxy(port)
        await proxy.start()
        assert await ask(proxy, b"open\n") == b"open\n"
        proxy.set("cut")
        assert await ask(proxy, b"cut\n") == b""
        proxy.set("slow", 0.01)
        assert await ask(proxy, b"slow\n") == b"slow\n"
        proxy.set("deaf")
        asking = asyncio.create_task(ask(proxy, b"deaf\n"))
        await eventually(lambda: b"deaf\n" in heard)
        proxy.set("open")
        assert await asking == b""
        proxy.target = elsewhere
        assert await ask(proxy, b"there\n") == b"there\n"
        await proxy.stop()
    assert heard == [b"open\n", b"slow\n", b"deaf\n"]
    assert others == [b"there\n"]
