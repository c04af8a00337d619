"""A worker process without an engine: runs two-activity instances to their end, and shouts when two hold one."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from queen.durable.events import ActivityCompleted, ActivityScheduled, HistoryEvent, OrchestrationCompleted
from queen.durable.messages import ActivityCompletedMessage, ActivityTask, StartMessage
from queen.durable.model import ExecutionMetadata, OrchestrationItem, TurnCommit
from queen.durable.provider import Provider, ProviderError
from tests.durable.conformance.story import started
from tests.durable.stores import Address

ACTIVITIES = (2, 3)


def turn_of(item: OrchestrationItem) -> TurnCommit:
    """What the next turn adds: two activities, then their results, then the end."""
    envelope = {"instance": item.instance, "execution_id": 1, "timestamp_ms": 1}
    delta: list[HistoryEvent] = []
    tasks: list[ActivityTask] = []
    if any(isinstance(message, StartMessage) for message in item.messages) and not item.history:
        delta = [started(item.instance)]
        delta += [ActivityScheduled(event_id=n, name="act", input="1", **envelope) for n in ACTIVITIES]  # type: ignore[arg-type]
        tasks = [
            ActivityTask(instance=item.instance, execution_id=1, activity_id=n, name="act", input="1")
            for n in ACTIVITIES
        ]
    known = {event.source_event_id for event in item.history if isinstance(event, ActivityCompleted)}
    next_id = len(item.history) + len(delta) + 1
    for message in item.messages:
        if isinstance(message, ActivityCompletedMessage) and message.activity_id not in known:
            known.add(message.activity_id)
            delta.append(
                ActivityCompleted(event_id=next_id, source_event_id=message.activity_id, result="1", **envelope)  # type: ignore[arg-type]
            )
            next_id += 1
    ended = known == set(ACTIVITIES) and not any(isinstance(event, OrchestrationCompleted) for event in item.history)
    if ended:
        delta.append(OrchestrationCompleted(event_id=next_id, output='"ok"', **envelope))  # type: ignore[arg-type]
    metadata = ExecutionMetadata(
        name="Flow", version="1.0.0", status="Completed" if ended else None, output='"ok"' if ended else None
    )
    return TurnCommit(execution_id=1, history_delta=tuple(delta), worker_items=tuple(tasks), metadata=metadata)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def take_turns(provider: Provider, held: Path, lock_ms: int, deadline: float) -> None:
    while time.monotonic() < deadline:
        items = await provider.fetch_orchestration_items(lock_timeout_ms=lock_ms, poll_timeout_ms=200, limit=4)
        for item in items:
            flag = held / item.instance
            if flag.exists() and (owner := int(flag.read_text() or "0")) != os.getpid() and alive(owner):
                say(f"{item.instance} is held by {owner} too")
            flag.write_text(str(os.getpid()))
        await asyncio.sleep(0.001)
        for item in items:
            (held / item.instance).unlink(missing_ok=True)
            try:
                await provider.ack_orchestration_item(item.token, turn_of(item))
            except ProviderError as error:
                if error.code != "lock_lost":
                    say(f"{item.instance}: {error!r}")


async def do_work(provider: Provider, lock_ms: int, deadline: float) -> None:
    while time.monotonic() < deadline:
        for found in await provider.fetch_work_items(lock_timeout_ms=lock_ms, poll_timeout_ms=200, limit=4):
            done = ActivityCompletedMessage(
                instance=found.task.instance, execution_id=1, activity_id=found.task.activity_id, result="1"
            )
            try:
                await provider.ack_work_item(found.token, done)
            except ProviderError as error:
                if error.code != "lock_lost":
                    say(f"{found.task.instance}: {error!r}")


async def main(kind: str, where: str, held: str, lock_ms: str, seconds: str) -> None:
    deadline = time.monotonic() + float(seconds)
    async with await Address(kind, where).open() as provider:
        say("ready")
        await asyncio.gather(
            take_turns(provider, Path(held), int(lock_ms), deadline), do_work(provider, int(lock_ms), deadline)
        )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
