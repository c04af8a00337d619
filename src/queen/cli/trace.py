"""`queen trace`: the story of a trace id."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import click
import msgspec

from queen.cli.target import Target, targeted
from queen.client.status import Traced


@click.command()
@click.argument("trace_id", type=click.UUID)
@targeted
def command(target: Target, trace_id: UUID) -> None:
    """Show every message of a trace over all queues in time order, with the notes about them."""
    found = target.run(lambda client: client.trace(trace_id))
    if not found:
        click.echo(f"queen: there are no messages of trace {trace_id}", err=True)
        raise SystemExit(3)
    if not target.as_table:
        target.rows([msgspec.structs.asdict(one) for one in found])
        return
    depths: dict[UUID, int] = {}
    for one in found:
        depths[one.id] = depths[one.parent_id] + 1 if one.parent_id in depths else 0
        _show(one, depths[one.id])


def _show(one: Traced, depth: int) -> None:
    indent = "  " * depth
    place = click.style(f"{one.queue}/{one.partition}", fg="cyan")
    click.echo(f"{one.created_at:%H:%M:%S.%f}  {indent}{place}  {one.transaction_id}")
    for note in one.notes:
        data: Any = msgspec.json.encode(note.data).decode()
        click.echo(f"{note.at:%H:%M:%S.%f}  {indent}  {click.style(note.event, fg='green')}  {data}")
