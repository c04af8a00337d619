"""`queen workflow`: look at durable workflows, steer them, and check code against their histories."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
import msgspec

from queen import config
from queen.cli.given import json_of
from queen.cli.output import Output
from queen.cli.target import Suggesting, database_address, note_act
from queen.cli.workflow_http import WorkflowsOverHttp
from queen.db.embedded import EmbeddedServer
from queen.db.pool import Database, PoolOptions
from queen.durable.admin import Begun, WorkflowAdmin, WorkflowSummary
from queen.durable.branches import keys_before
from queen.durable.codec import load
from queen.durable.definition import Workflow
from queen.durable.errors import DurableError, NondeterminismDetected, WorkflowNotFound
from queen.durable.events import HistoryEvent, OrchestrationStarted
from queen.durable.model import ExecutionStatus, InstanceQuery, KeyValue
from queen.durable.provider import Provider, ProviderError
from queen.durable.replay.check import check_replay
from queen.durable.stores import open_provider
from queen.durable.timeline import draw

T = TypeVar("T")

STATUSES = list(get_args(ExecutionStatus))
NOT_FOUND, REFUSED, UNAVAILABLE = 3, 4, 5


class Store:
    """Where the workflows are, and how to answer."""

    def __init__(self, settings: config.Settings, url: str | None, schema: str | None, output: str | None) -> None:
        self._settings = settings
        self._url = url
        self._schema = schema
        self.as_json = (output or ("table" if sys.stdout.isatty() else "json")) == "json"

    def run(self, work: Callable[[Provider], Awaitable[T]], noted: tuple[str, str, str] | None = None) -> T:
        """Open the store itself and do the work, which no broker can do for it.

        `noted` goes into the audit log then: the act, the instance, and what was done in words.
        """

        async def opened(url: str) -> T:
            async with await open_provider(url, schema=self._schema) as provider:
                done = await work(provider)
            if noted is not None and url.startswith("postgres"):
                act, instance, text = noted
                async with Database(url, PoolOptions(size=1)) as database:
                    await note_act(database, act, text, target=instance)
            return done

        url = self._url or database_address(None, self._settings)
        if url and url.startswith("http"):
            raise click.UsageError(f"this command works on the store itself, and {url} is a broker: give --store")
        embedded = None if url else EmbeddedServer.start(self._settings.data_dir)
        with embedded or nullcontext():
            return _explained(opened(url or (embedded.dsn() if embedded else "")))

    def ask(
        self,
        work: Callable[[WorkflowAdmin | WorkflowsOverHttp], Awaitable[T]],
        noted: tuple[str, str, str] | None = None,
    ) -> T:
        """Do the work on the store, or over the broker that has it, which notes it itself."""

        async def over(url: str) -> T:
            async with WorkflowsOverHttp.open(url) as workflows:
                return await work(workflows)

        url = self._url or self._settings.database_url or os.environ.get("QUEEN_URL") or ""
        if url.startswith("http"):
            return _explained(over(url))
        return self.run(lambda provider: work(WorkflowAdmin(provider)), noted)


def _explained(work: Coroutine[Any, Any, T]) -> T:
    """Turn what goes wrong into one line and an exit code."""
    try:
        return asyncio.run(work)
    except WorkflowNotFound as error:
        raise _exit(error, NOT_FOUND) from error
    except DurableError as error:
        raise _exit(error, REFUSED) from error
    except ProviderError as error:
        raise _exit(error, UNAVAILABLE if error.retryable else REFUSED) from error


def _exit(error: Exception, code: int) -> click.exceptions.Exit:
    click.echo(f"queen: {error}", err=True)
    return click.exceptions.Exit(code)


@click.group(cls=Suggesting)
@click.option("--config", "file", type=click.Path(dir_okay=False, path_type=Path), help="Configuration file.")
@click.option(
    "--store", help="The store: postgresql://..., sqlite:///path, or http://... of a broker; the database unless given."
)
@click.option("--schema", help="Schema of the store, when it is not the default one (PostgreSQL).")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), help="Default: table on a terminal, else json.")
@click.pass_context
def command(ctx: click.Context, file: Path | None, store: str | None, schema: str | None, output: str | None) -> None:
    """Look at durable workflows, steer them, and check code against their histories."""
    ctx.obj = Store(config.load(file), store, schema, output)


@command.command()
@click.option("--name", help="Only workflows of this name.")
@click.option("--status", type=click.Choice(STATUSES), help="Only workflows in this state.")
@click.option("--prefix", help="Only ids that begin like this.")
@click.option("--trace-id", help="Only workflows of this trace.")
@click.option("--attribute", "attributes", multiple=True, metavar="NAME=VALUE", help="Only with this attribute.")
@click.option("--since", type=click.DateTime(), help="Only workflows begun from this time on (UTC).")
@click.option("--until", type=click.DateTime(), help="Only workflows begun before this time (UTC).")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--cursor", help="Where the page before ended.")
@click.pass_obj
def ls(
    store: Store,
    name: str | None,
    status: Any,
    prefix: str | None,
    trace_id: str | None,
    attributes: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List workflows, newest first."""
    query = InstanceQuery(
        name=name,
        status=status,
        id_prefix=prefix,
        trace_id=trace_id,
        attributes=dict(map(_attribute, attributes)),
        created_from_ms=_milliseconds(since),
        created_before_ms=_milliseconds(until),
        limit=limit,
        cursor=cursor,
    )
    page = store.ask(lambda workflows: workflows.list(query))
    if store.as_json:
        _print_json(page)
        return
    rows = [
        {
            "id": each.id,
            "workflow": f"{each.name} {each.version}",
            "status": each.status,
            "run": each.execution_id,
            "started": _time(each.created_at_ms),
        }
        for each in page.workflows
    ]
    Output("table").rows(rows, "no workflows")
    if page.next_cursor:
        click.echo(f"more: --cursor {page.next_cursor}")


@command.command()
@click.argument("id")
@click.pass_obj
def show(store: Store, id: str) -> None:  # noqa: A002
    """Show one workflow and draw the timeline of its current execution."""

    found = store.ask(lambda workflows: workflows.show(id))
    if store.as_json:
        _print_json(found)
        return
    for line in _describe(found.workflow):
        click.echo(line)
    if len(found.executions) > 1:
        click.echo(f"runs      {len(found.executions)} ({found.executions[0].status} first)")
    if len(found.tree) > 1:
        click.echo(f"family    {', '.join(found.tree[1:])}")
    for key, value in sorted(found.keys.items()):
        click.echo(f"key       {key} = {json.dumps(value)}")
    click.echo()
    running = round(time.time() * 1000) if found.workflow.status in ("Running", "Parked") else None
    for line in draw(found.timeline, now_ms=running):
        click.echo(line)


def _describe(found: WorkflowSummary) -> list[str]:
    lines = [
        f"{found.id}  {found.status}",
        f"workflow  {found.name} {found.version}",
        f"started   {_time(found.created_at_ms)}, last turn {_time(found.updated_at_ms)}",
    ]
    shown = {"parent": found.parent_id, "trace": found.trace_id, "status": found.custom_status}
    lines += [f"{name:<9} {value}" for name, value in shown.items() if value is not None]
    if found.error is not None:
        lines.append(f"error     {found.error}")
    elif found.status == "Completed":
        lines.append(f"result    {json.dumps(found.output)}")
    return lines


@command.command()
@click.argument("id")
@click.option("--execution", type=click.IntRange(min=1), help="Default: the current one.")
@click.pass_obj
def history(store: Store, id: str, execution: int | None) -> None:  # noqa: A002
    """Print the events of one execution, one JSON object per line."""
    found = store.ask(lambda workflows: workflows.history(id, execution))
    for each in found.events:
        click.echo(bytes(each).decode())


@command.command()
@click.argument("name")
@click.option("--id", "id_", help="Default: a new one.")
@click.option("--input", "text", default="null", show_default=True, help="JSON, - or @FILE with it.")
@click.option("--version", help="Default: the newest registered.")
@click.option("--delay", type=click.FloatRange(min=0), default=0.0, help="Seconds to wait before it starts.")
@click.option("--trace-id", help="Carried to every step and message.")
@click.pass_obj
def start(
    store: Store, name: str, id_: str | None, text: str, version: str | None, delay: float, trace_id: str | None
) -> None:
    """Start a workflow."""
    value = json_of("--input", text)
    started = store.ask(
        lambda workflows: workflows.start(
            name, value, id=id_, version=version, delay_ms=round(delay * 1000), trace_id=trace_id
        )
    )
    click.echo(msgspec.json.encode(started).decode() if store.as_json else started.id)


@command.command()
@click.argument("id")
@click.option("--reason", help="Shown as the workflow's error.")
@click.option("--force", is_flag=True, help="End it without asking its code; nothing is cleaned up.")
@click.pass_obj
def cancel(store: Store, id: str, reason: str | None, *, force: bool) -> None:  # noqa: A002
    """Ask a workflow to end; it may clean up first."""
    noted = "workflow-cancel", id, f"{id} was asked to end"
    store.ask(lambda workflows: workflows.cancel(id, reason, force=force), noted)


@command.command()
@click.argument("id")
@click.option("--version", help="Run it in this version of the code.")
@click.pass_obj
def retry(store: Store, id: str, version: str | None) -> None:  # noqa: A002
    """Try a parked workflow at once, or run what failed last of a failed or cancelled one again."""
    noted = "workflow-retry", id, f"{id} is tried again"
    _tell(store, store.ask(lambda workflows: workflows.retry(id, version=version), noted))


_FROM = click.option("--from", "step", type=click.IntRange(min=2), help="The number of a step, as `show` has it.")


@command.command()
@click.argument("id")
@_FROM
@click.option("--version", help="Run it in this version of the code.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def reset(store: Store, id: str, step: int | None, version: str | None, *, yes: bool) -> None:  # noqa: A002
    """Run a workflow again from a step, or from its start; what was finished before that is not run again."""
    if not yes:
        click.confirm(f"Run {id} again from {'its start' if step is None else f'step {step}'}?", abort=True)
    noted = "workflow-reset", id, f"{id} runs again from {'its start' if step is None else f'step {step}'}"
    _tell(store, store.ask(lambda workflows: workflows.reset(id, from_step=step, version=version), noted))


@command.command()
@click.argument("id")
@_FROM
@click.option("--id", "new_id", help="The id of the new workflow; default: a new one.")
@click.option("--version", help="Run it in this version of the code.")
@click.pass_obj
def fork(store: Store, id: str, step: int | None, new_id: str | None, version: str | None) -> None:  # noqa: A002
    """Start another workflow that goes on from a step of this one; without a step, from its last failure."""
    noted = "workflow-fork", id, f"another workflow goes on from {id}"
    _tell(store, store.ask(lambda workflows: workflows.fork(id, new_id, from_step=step, version=version), noted))


def _tell(store: Store, begun: Begun) -> None:
    click.echo(msgspec.json.encode(begun).decode() if store.as_json else begun.id)


@command.command(name="raise")
@click.argument("id")
@click.argument("event")
@click.option("--data", default="null", show_default=True, help="JSON, - or @FILE with it.")
@click.option("--queue", is_flag=True, help="Send to the workflow's queue of that name instead.")
@click.pass_obj
def raise_(store: Store, id: str, event: str, data: str, *, queue: bool) -> None:  # noqa: A002
    """Raise an event a workflow waits for."""
    value = json_of("--data", data)

    if queue:
        store.run(lambda provider: WorkflowAdmin(provider).enqueue(id, event, value))
    else:
        store.ask(lambda workflows: workflows.raise_event(id, event, value))


@command.command()
@click.argument("id")
@click.option("--keep-last", type=click.IntRange(min=1), default=1, show_default=True, help="Executions to keep.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def prune(store: Store, id: str, keep_last: int, *, yes: bool) -> None:  # noqa: A002
    """Delete old executions of a workflow, never the current one."""
    if not yes:
        click.confirm(f"Delete all but the last {keep_last} executions of {id}?", abort=True)
    counts = store.run(lambda provider: WorkflowAdmin(provider).prune(id, keep_last))
    click.echo(f"deleted {counts.executions} executions with {counts.events} events")


@command.command()
@click.argument("code")
@click.option(
    "--id", "ids", multiple=True, help="Check these workflows; default: all running and parked ones of that name."
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=1000, show_default=True)
@click.pass_obj
def replay(store: Store, code: str, ids: tuple[str, ...], limit: int) -> None:
    """Run today's code against stored histories and report what no longer fits.

    CODE names a workflow: package.module:function. Nothing is executed and nothing is changed. Exit code 4
    when a history does not fit.
    """
    made = _load_code(code)

    async def work(provider: Provider) -> list[tuple[str, str | None]]:
        return [(each, await _check(provider, each, made)) for each in await _candidates(provider, made, ids, limit)]

    checked = store.run(work)
    broken = [(each, problem) for each, problem in checked if problem is not None]
    for each, problem in broken:
        click.echo(f"{each}: {problem}")
    click.echo(f"{len(checked)} checked, {len(broken)} do not fit", err=True)
    if broken:
        raise click.exceptions.Exit(REFUSED)


def _load_code(code: str) -> Workflow[Any, *tuple[Any, ...]]:
    module, _, name = code.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise click.BadParameter(f"cannot load {code!r}: {error}", param_hint="CODE") from error
    if not isinstance(found, Workflow):
        raise click.BadParameter(f"{code!r} is not a workflow", param_hint="CODE")
    return found


async def _candidates(
    provider: Provider, made: Workflow[Any, *tuple[Any, ...]], ids: tuple[str, ...], limit: int
) -> list[str]:
    if ids:
        return list(ids)
    parked = await _instances_of(provider, made, "Parked", limit)
    return [*parked, *await _instances_of(provider, made, "Running", limit)][:limit]


async def _instances_of(
    provider: Provider, made: Workflow[Any, *tuple[Any, ...]], status: ExecutionStatus, limit: int
) -> list[str]:
    found: list[str] = []
    cursor: str | None = None
    while len(found) < limit:
        page = await provider.list_instances(
            InstanceQuery(name=made.name, status=status, limit=min(500, limit), cursor=cursor)
        )
        found += [each.instance for each in page.instances if each.version == made.version]
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


async def _check(provider: Provider, instance: str, made: Workflow[Any, *tuple[Any, ...]]) -> str | None:
    history: list[HistoryEvent] = await provider.read(instance)
    if not history:
        raise WorkflowNotFound(f"workflow {instance!r} is not known")
    first = history[0]
    if isinstance(first, OrchestrationStarted) and first.name != made.name:
        return f"it is a {first.name!r}, not a {made.name!r}"
    keys = await keys_before(provider, instance, first.execution_id)
    try:
        check_replay(history, made.entry, {key: KeyValue(value, at) for key, value, at in keys})
    except NondeterminismDetected as mismatch:
        return str(mismatch)
    return None


def _attribute(text: str) -> tuple[str, Any]:
    name, found, value = text.partition("=")
    if not (found and name):
        raise click.BadParameter(f"must look like NAME=VALUE, got {text!r}", param_hint="--attribute")
    return name, load(value)


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.replace(tzinfo=UTC).timestamp() * 1000)


def _print_json(value: object) -> None:
    click.echo(msgspec.json.encode(value).decode())


def _time(moment_ms: int) -> str:
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
