"""`queen pipeline new`: a module to begin a pipeline of one's own with."""

from __future__ import annotations

import re
from pathlib import Path

import click

TEMPLATE = '''"""{name}: say in one line what it finds out.

    queen pipeline run {file} --lake ./lake
    queen pipeline show {name} --kind queues
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import queen
from queen.spark.pipelines import Context, Outcome


def messages_by_queue(messages: DataFrame) -> DataFrame:
    """A pure transform: test it on a small frame."""
    return messages.groupBy("queue").agg(f.count("*").alias("messages")).orderBy(f.desc("messages"))


@queen.pipeline("{name}", summary="Messages by queue", reads=["messages"], options={{"top": "10"}})
def {function}(context: Context) -> Outcome:
    """Read the lake, write what was found."""
    messages = context.lake.read(context.spark, "messages")
    found = messages_by_queue(messages).limit(int(context.options["top"]))
    rows = context.write("queues", found, key="queue")
    return Outcome(rows, {{"queues": rows}})
'''


@click.command()
@click.argument("name")
def new(name: str) -> None:
    """Make a file with a pipeline of your own to begin with."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise click.UsageError(f"{name!r} must be a name like busiest_queues: small letters, digits and _")
    path = Path(f"{name}.py")
    if path.exists():
        raise click.ClickException(f"{path} is there already")
    path.write_text(TEMPLATE.format(name=name, file=path, function=name), encoding="utf-8")
    click.echo(f"{path} is ready: queen pipeline run {path} --lake ./lake")
