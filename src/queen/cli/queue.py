"""`queen queue`: look at queues and change them."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from queen.cli.output import Output
from queen.cli.target import Suggesting, Target, confirm, targeted
from queen.client.client import Client
from queen.engine.options import BY_NAME, QUEUE_OPTIONS, QueueOption, explain
from queen.model import QueueConfig


@click.group(cls=Suggesting)
def command() -> None:
    """Look at queues and change them."""


@command.command()
@targeted
def ls(target: Target) -> None:
    """List the queues with what waits in them."""
    found = target.run(lambda client: client.queues.list())
    target.rows([msgspec.structs.asdict(one) for one in found], "no queues yet: `queen push QUEUE JSON` makes one")


@command.command()
@click.argument("queue")
@click.option("--partitions", default=20, show_default=True, help="How many partitions to show.")
@targeted
def show(target: Target, queue: str, partitions: int) -> None:
    """Show a queue's configuration and its fullest partitions."""

    async def work(client: Client) -> None:
        await target.require_queue(client, queue)
        config = await client.queues.get(queue)
        lanes = [msgspec.structs.asdict(one) for one in await client.queues.partitions(queue, limit=partitions)]
        if not target.as_table:
            target.one({**msgspec.structs.asdict(config), "lanes": lanes})
            return
        target.one(_shown(config))
        click.echo()
        target.rows(lanes, "no partitions yet")

    target.run(work)


@command.command()
@click.argument("queue")
@click.argument("options", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--namespace", help="Namespace for pops across queues.")
@click.option("--task", help="Task for pops across queues.")
@targeted
def configure(target: Target, queue: str, options: tuple[str, ...], namespace: str | None, task: str | None) -> None:
    """Make a queue or change it: `queen queue configure orders lease_time=60 retry_limit=5`.

    Options left out keep their value. `queen queue explain` tells what there is. A duration may have a unit:
    `lease_time=5m retry_delay=500ms`.
    """
    given = dict(_option(text) for text in options)

    async def work(client: Client) -> QueueConfig:
        made = await client.queues.configure(queue, namespace=namespace, task=task, **given)
        await target.note(client, "configure", f"{queue} configured: {' '.join(options)}", queue=queue, **given)
        return made

    made = target.run(work)
    target.one(_shown(made) if target.as_table else msgspec.structs.asdict(made))


@command.command(name="explain")
@click.argument("name", required=False)
@click.option("-o", "--output", "shape", type=click.Choice(["table", "json"]), help="Table on a terminal, else JSON.")
def explain_command(name: str | None, shape: str | None) -> None:
    """Tell what the options of a queue are: all of them, or one with what it does together with others."""
    output = Output(shape)
    if name is not None:
        output.one(_explained(explain(name)))
    elif not output.as_table:
        output.rows([_explained(option) for option in QUEUE_OPTIONS])
    else:
        output.rows(
            [
                {"option": one.name, "takes": one.allowed, "default": str(one.default).lower(), "meaning": one.meaning}
                for one in QUEUE_OPTIONS
                if one.consulted
            ]
        )


def _explained(option: QueueOption) -> dict[str, Any]:
    return {
        "option": option.name,
        "wire": option.wire,
        "takes": option.allowed,
        "default": option.default,
        "meaning": option.meaning,
        "together": option.together,
        "example": f"queen queue configure orders {option.example}",
        "consulted": option.consulted,
    }


def _option(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{text!r} must be NAME=VALUE with a name that `queen queue explain` lists")
    explain(name)
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


def _shown(config: QueueConfig) -> dict[str, Any]:
    """A queue for people: durations with their unit, without what is only kept for older clients."""
    values: dict[str, Any] = {}
    for name, value in msgspec.structs.asdict(config).items():
        option = BY_NAME.get(name)
        if option is None:
            values[name] = value
        elif option.consulted:
            values[name] = f"{value:,} {option.unit}" if option.unit in ("s", "ms") else value
    return values


@command.command()
@click.argument("queue")
@targeted
def pause(target: Target, queue: str) -> None:
    """Hand out nothing more; pushes go on."""

    async def work(client: Client) -> None:
        await target.require_queue(client, queue)
        await client.queues.pause(queue)
        await target.note(client, "pause", f"{queue} is paused", queue=queue)

    target.run(work)
    target.done(f"{queue} is paused", queue=queue, paused=True)


@command.command()
@click.argument("queue")
@targeted
def resume(target: Target, queue: str) -> None:
    """Hand out again."""

    async def work(client: Client) -> None:
        await target.require_queue(client, queue)
        await client.queues.resume(queue)
        await target.note(client, "resume", f"{queue} hands out messages again", queue=queue)

    target.run(work)
    target.done(f"{queue} hands out again", queue=queue, paused=False)


@command.command()
@click.argument("queue")
@click.option("--yes", is_flag=True, help="Do not ask.")
@targeted
def clear(target: Target, queue: str, *, yes: bool) -> None:
    """Remove all messages of a queue; its configuration stays."""

    async def work(client: Client) -> None:
        await target.require_queue(client, queue)
        confirm(f"This removes {await _kept(client, queue):,} messages of {queue}.", yes=yes)
        removed = await client.queues.clear(queue)
        await target.note(client, "clear", f"{removed:,} messages removed from {queue}", queue=queue, removed=removed)
        target.done(f"{removed:,} messages removed", queue=queue, removed=removed)

    target.run(work)


@command.command()
@click.argument("queue")
@click.option("--yes", is_flag=True, help="Do not ask.")
@targeted
def rm(target: Target, queue: str, *, yes: bool) -> None:
    """Remove a queue with everything in it."""

    async def work(client: Client) -> None:
        await target.require_queue(client, queue)
        kept = await _kept(client, queue)
        confirm(f"This removes the queue {queue} with {kept:,} messages, its groups and dead letters.", yes=yes)
        await client.queues.delete(queue)
        await target.note(client, "delete-queue", f"{queue} is gone, with everything in it", queue=queue, removed=kept)
        target.done(f"{queue} removed", queue=queue, removed=kept)

    target.run(work)


async def _kept(client: Client, queue: str) -> int:
    return next((one.total for one in await client.queues.list() if one.name == queue), 0)
