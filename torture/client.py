"""A client process: actors on one client, over HTTP or straight on the database, until the run ends or it is killed."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct

import queen
from queen.client.client import Client
from queen.client.http import Timeouts
from queen.client.retry import Retry
from queen.client.transport import Transport
from queen.errors import QueenError
from torture.actor import Actor, Context
from torture.consumer import Batches, Consume, Matching, Pop, Relay
from torture.history import History
from torture.operator import Operator
from torture.plan import Plan
from torture.producer import Outbox, Producer
from torture.transport import Noting
from torture.workflow import Starter

ACTORS: dict[str, type[Actor]] = {
    "producer": Producer,
    "outbox": Outbox,
    "pop": Pop,
    "matching": Matching,
    "consume": Consume,
    "batches": Batches,
    "relay": Relay,
    "operator": Operator,
    "starter": Starter,
}


class Spec(Struct, frozen=True, kw_only=True):
    """What a client process is told when it starts. `life` counts its starts."""

    plan: Plan
    client: str
    life: int
    url: str
    database: str
    folder: str


def show_tasks() -> None:
    """Print where every task is, for a process that does not end."""
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)
    sys.stderr.flush()


async def main(spec: Spec) -> None:
    """Run the actors of one client until the phase is `end`."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, show_tasks)
    plan = next(client for client in spec.plan.clients if client.name == spec.client)
    name = f"{spec.client}.{spec.life}"
    folder = Path(spec.folder)
    history = History(folder / f"{name}.history")
    over_http = spec.url.startswith("http")
    inner = queen.connect(spec.url, pool_size=6, timeouts=Timeouts(connect=2, read=8, write=8, pool=8)).transport
    noting = cast("Transport", Noting(inner, history, over_http=over_http))
    client = Client(noting, retry=Retry(attempts=3, cap=0.5))
    while True:
        try:
            await client.open()
            break
        except QueenError:
            await asyncio.sleep(0.2)
    context = Context(spec.plan, client, history, name, spec.database, over_http, folder / "phase")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(context.watch())
        for number, actor in enumerate(plan.actors):
            tasks.create_task(ACTORS[actor.kind](context, actor, number).run())
    await client.close()
    history.note("ended")


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Spec)))
