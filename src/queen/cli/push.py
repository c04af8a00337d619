"""`queen push`: store messages, from an argument, a file, or standard input."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, BinaryIO
from uuid import UUID

import click
import msgspec

from queen.cli.given import content
from queen.cli.target import Target, did_you_mean, targeted
from queen.client.client import Client
from queen.ids import uuid7s
from queen.model import DEFAULT_PARTITION, NewMessage, Pushed

_BAR = "%(label)s  [%(bar)s]  %(info)s"


@click.command()
@click.argument("queue")
@click.argument("payload", required=False)
@click.option("--file", "source", type=click.File("rb"), help="Lines of JSON; standard input unless given.")
@click.option("--partition", default=DEFAULT_PARTITION, show_default=True)
@click.option("--partition-field", help="Field of each payload that names its partition.")
@click.option("--transaction-id", help="Idempotency key of a single message.")
@click.option("--transaction-field", help="Field of each payload that is its idempotency key.")
@click.option("--trace-id", type=click.UUID, help="Trace the messages belong to.")
@click.option("--batch", default=1000, show_default=True, type=click.IntRange(1, 10_000), help="Lines per push.")
@click.option("--wait-for-room", default=0.0, help="Seconds to wait for room in a full queue.")
@targeted
def command(target: Target, /, queue: str, payload: str | None, source: BinaryIO | None, **options: Any) -> None:
    """Store one message: PAYLOAD is its JSON, or @FILE where it is. Without PAYLOAD, or with -, one per line.

    Lines of JSON come from --file or standard input.
    They are stored in order, in batches; a line that is no JSON stops it and is named.
    """
    room = options.pop("wait_for_room")
    size = options.pop("batch")
    lines = Lines(queue, **options)
    if payload is not None and payload != "-":
        text = content(payload)

        async def work(client: Client) -> Pushed:
            known = [one.name for one in await client.queues.list()]
            pushed = (await client.push_prepared([lines.message(text, 1)], room))[0]
            if queue not in known and (hint := did_you_mean(queue, known)):
                click.echo(f"queen: {queue} is a new queue{hint}", err=True)
            return pushed

        target.one(_shown(target.run(work)))
        return
    feed = source or sys.stdin.buffer
    counts = target.run(lambda client: _push_lines(client, lines, feed, size, room))
    target.one(counts)


class Lines:
    """Makes messages of lines."""

    def __init__(
        self,
        queue: str,
        partition: str,
        partition_field: str | None,
        transaction_id: str | None,
        transaction_field: str | None,
        trace_id: UUID | None,
    ) -> None:
        self._queue = queue
        self._partition = partition
        self._fields = (partition_field, transaction_field)
        self._transaction_id = transaction_id
        self._trace_id = trace_id
        self._check = msgspec.json.Decoder(msgspec.Raw)
        self._read = msgspec.json.Decoder(dict[str, msgspec.Raw])

    def message(self, line: bytes, number: int, made: UUID | None = None) -> NewMessage:
        """The message of one line."""
        partition, transaction = self._partition, self._transaction_id
        try:
            if any(self._fields):
                values = self._read.decode(line)
                if self._fields[0]:
                    partition = _text(values, self._fields[0])
                if self._fields[1]:
                    transaction = _text(values, self._fields[1])
            else:
                self._check.decode(line)
            text = line.decode()
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError) as error:
            raise click.UsageError(f"line {number} cannot be pushed: {error}") from None
        return NewMessage(
            queue=self._queue,
            payload=text,
            partition=partition,
            transaction_id=transaction,
            trace_id=self._trace_id,
            id=made,
        )

    def chunks(self, feed: BinaryIO, size: int) -> Iterator[tuple[int, list[NewMessage]]]:
        """Messages of a feed in batches, with how many bytes each took."""
        number = taken = 0
        batch: list[NewMessage] = []
        ids: list[UUID] = []
        for line in feed:
            number += 1
            taken += len(line)
            text = line.strip()
            if not text:
                continue
            if not ids:
                ids = uuid7s(size)[::-1]
            batch.append(self.message(text, number, ids.pop()))
            if len(batch) == size:
                yield taken, batch
                taken, batch = 0, []
        if batch:
            yield taken, batch


async def _push_lines(client: Client, lines: Lines, feed: BinaryIO, size: int, room: float) -> dict[str, int]:
    counts = {"queued": 0, "duplicate": 0, "scheduled": 0}
    under_way: tuple[int, asyncio.Task[list[Pushed]]] | None = None
    with _progress(feed) as bar:
        for taken, batch in lines.chunks(feed, size):
            # The next lines were read while the last ones were stored.
            await _finish(under_way, counts, bar)
            under_way = (taken, asyncio.create_task(client.push_prepared(batch, room)))
            await asyncio.sleep(0)
        await _finish(under_way, counts, bar)
    return counts


async def _finish(under_way: tuple[int, asyncio.Task[list[Pushed]]] | None, counts: dict[str, int], bar: Any) -> None:
    if under_way is None:
        return
    taken, task = under_way
    for one in await task:
        counts[one.status] += 1
    if bar is not None:
        bar.label = f"{sum(counts.values()):,} messages"
        bar.update(taken)


def _progress(feed: BinaryIO) -> AbstractContextManager[Any]:
    """A bar on a terminal; nothing in a pipe. Its length is the size of the file, if it is one."""
    if not sys.stderr.isatty():
        return nullcontext()
    try:
        status = os.fstat(feed.fileno())
        length = status.st_size if stat.S_ISREG(status.st_mode) else None
    except (OSError, io.UnsupportedOperation):
        length = None
    return click.progressbar(length=length, label="0 messages", file=sys.stderr, bar_template=_BAR, show_eta=True)


def _text(values: dict[str, msgspec.Raw], name: str) -> str:
    if name not in values:
        raise KeyError(f"there is no field {name}")
    value = msgspec.json.decode(values[name])
    return value if isinstance(value, str) else bytes(values[name]).decode()


def _shown(pushed: Pushed) -> dict[str, Any]:
    names = ("status", "queue", "partition", "seq", "id", "transaction_id")
    return {name: getattr(pushed, name) for name in names}
