"""The synchronous client behind the asynchronous face, so that one suite runs unchanged over both."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any, Self

from queen.client import admin, buffer, client, message, stream, transaction
from queen.client._sync import admin as sync_admin
from queen.client._sync import buffer as sync_buffer
from queen.client._sync import client as sync_client
from queen.client._sync import message as sync_message
from queen.client._sync import stream as sync_stream
from queen.client._sync import transaction as sync_transaction

ORIGINALS: dict[type, type] = {
    sync_client.Client: client.Client,
    sync_admin.Queues: admin.Queues,
    sync_admin.Groups: admin.Groups,
    sync_admin.DeadLetters: admin.DeadLetters,
    sync_buffer.Buffer: buffer.Buffer,
    sync_message.Message: message.Message,
    sync_stream.Stream: stream.Stream,
    sync_transaction.Transaction: transaction.Transaction,
}
ENDED = object()


def dressed(value: Any) -> Any:
    """A value of the synchronous client as the asynchronous one would give it."""
    if isinstance(value, list):
        return [dressed(entry) for entry in value]
    return Awaited(value) if type(value) in ORIGINALS else value


def bare(value: Any) -> Any:
    """The way back."""
    if isinstance(value, list):
        return [bare(entry) for entry in value]
    if isinstance(value, Awaited):
        return value.inner
    if inspect.iscoroutinefunction(value):
        return handler(value)
    return value


def handler(function: Callable[..., Any]) -> Callable[..., Any]:
    """A handler for the synchronous client that runs an asynchronous one on the test's loop."""
    loop = asyncio.get_running_loop()

    @functools.wraps(function)
    def run(argument: Any) -> Any:
        return bare(asyncio.run_coroutine_threadsafe(function(dressed(argument)), loop).result(30))

    return run


class Awaited:
    """Whatever is `await`ed on this runs the synchronous call in a thread."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        original = inspect.getattr_static(ORIGINALS[type(self.inner)], name, None)
        found = getattr(self.inner, name)
        if inspect.iscoroutinefunction(original):

            async def call(*given: Any, **named: Any) -> Any:
                plain = [bare(value) for value in given]
                named = {key: bare(value) for key, value in named.items()}
                return dressed(await asyncio.to_thread(lambda: found(*plain, **named)))

            return call
        if not callable(found):
            return dressed(found)
        return lambda *given, **named: dressed(found(*map(bare, given), **named))

    def __len__(self) -> int:
        return len(self.inner)

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.inner.__enter__)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(lambda: self.inner.__exit__(*error))

    def __aiter__(self) -> Self:
        iter(self.inner)
        return self

    async def __anext__(self) -> Any:
        value = await asyncio.to_thread(next, self.inner, ENDED)
        if value is ENDED:
            raise StopAsyncIteration
        return dressed(value)
