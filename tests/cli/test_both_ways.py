"""Every command there is, over a broker and on a database; or why it has only one way, and what it says then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import pytest
from click.testing import CliRunner, Result

from queen.cli import main
from queen.durable import Worker, WorkflowClient, WorkflowContext, open_provider, workflow
from queen.durable.testing import eventually
from tests.server.running import run_broker
from tests.support.postgres import TEMPLATE, Postgres
from tests.support.tree import ROOT

NOWHERE = "http://127.0.0.1:1"


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command, as it is typed."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from leaves(found, (*path, name))
        else:
            yield " ".join((*path, name))


EVERY = sorted(leaves(main))


@dataclass(frozen=True)
class Cli:
    """The command line at an address, with a queue and a workflow id that nobody else has."""

    url: str
    queue: str

    def run(self, *arguments: str, text: str | None = None) -> Result:
        variables = {"QUEEN_URL": self.url, "QUEEN_DATABASE_URL": None}
        return CliRunner(env=variables).invoke(main, arguments, input=text)

    def rows(self, *arguments: str, text: str | None = None) -> list[Any]:
        done = self.run(*arguments, text=text)
        assert done.exit_code == 0, f"{arguments}: {done.output}{done.exception!r}"
        return [json.loads(line) for line in done.stdout.splitlines()]

    def pushed(self, count: int = 3) -> Cli:
        self.rows("push", self.queue, text="".join(f"{number}\n" for number in range(count)))
        return self

    def dead(self) -> Any:
        popped = self.pushed(1).run("pop", self.queue).stdout
        self.rows("ack", "-", "--status", "dlq", "--error", "no", text=popped)
        return self.rows("dlq", "ls", "--queue", self.queue)[0]


Check = Callable[[Cli], object]
BOTH: dict[str, Check] = {}


def both(name: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        BOTH[name] = check
        return check

    return register


@both("push")
def push(cli: Cli) -> None:
    assert cli.rows("push", cli.queue, "1")[0]["seq"] == 1


@both("pop")
def pop(cli: Cli) -> None:
    assert [one["data"] for one in cli.pushed().rows("pop", cli.queue, "--batch", "2")] == [0, 1]


@both("ack")
def ack(cli: Cli) -> None:
    popped = cli.pushed().run("pop", cli.queue, "--batch", "3").stdout
    assert [one["verdict"] for one in cli.rows("ack", "-", text=popped)] == ["acked"] * 3


@both("tail")
def tail(cli: Cli) -> None:
    assert len(cli.pushed().rows("tail", cli.queue, "--from", "all", "--limit", "3")) == 3
    assert cli.rows("group", "ls", "--queue", cli.queue) == []


@both("trace")
def trace(cli: Cli) -> None:
    name = str(uuid4())
    cli.rows("push", cli.queue, "1", "--trace-id", name)
    assert cli.rows("trace", name)[0]["queue"] == cli.queue


@both("stats")
def stats(cli: Cli) -> None:
    assert {one["queue"]: one["waiting"] for one in cli.pushed().rows("stats")}[cli.queue] == 3


@both("bench")
def bench(cli: Cli) -> None:
    assert [one["messages"] for one in cli.rows("bench", "--messages", "20", "--batch", "10")] == [20, 20]


@both("demo")
def demo(cli: Cli) -> None:
    shop = ("demo", "--rate", "20", "--seconds", "1", "--prefix", cli.queue)
    assert cli.rows(*shop)[0]["messages"] > 0
    if cli.url.startswith("http"):
        refused = cli.run("demo", "--messages", "10")
        assert (refused.exit_code, "use a postgresql:// address" in refused.stderr) == (2, True)


@both("url")
def url(cli: Cli) -> None:
    assert cli.run("url").stdout == f"{cli.url}\n"


@both("doctor")
def doctor(cli: Cli) -> None:
    assert cli.rows("doctor")[0]["state"] == "ok"


@both("queue ls")
def queue_ls(cli: Cli) -> None:
    assert {one["name"]: one["depth"] for one in cli.pushed().rows("queue", "ls")}[cli.queue] == 3


@both("queue show")
def queue_show(cli: Cli) -> None:
    assert cli.pushed().rows("queue", "show", cli.queue)[0]["lanes"][0]["depth"] == 3


@both("queue configure")
def queue_configure(cli: Cli) -> None:
    (made,) = cli.rows("queue", "configure", cli.queue, "lease_time=2m", "retry_limit=7", "--task", "mail")
    assert (made["lease_time"], made["retry_limit"], made["task"]) == (120, 7, "mail")


@both("queue pause")
def queue_pause(cli: Cli) -> None:
    cli.pushed().rows("queue", "pause", cli.queue)
    assert cli.rows("pop", cli.queue) == []


@both("queue resume")
def queue_resume(cli: Cli) -> None:
    queue_pause(cli)
    cli.rows("queue", "resume", cli.queue)
    assert len(cli.rows("pop", cli.queue)) == 1


@both("queue clear")
def queue_clear(cli: Cli) -> None:
    assert cli.pushed().rows("queue", "clear", cli.queue, "--yes") == [{"queue": cli.queue, "removed": 3}]


@both("queue rm")
def queue_rm(cli: Cli) -> None:
    cli.pushed().rows("queue", "rm", cli.queue, "--yes")
    assert cli.run("queue", "show", cli.queue).exit_code == 3


@both("group ls")
def group_ls(cli: Cli) -> None:
    cli.pushed().rows("pop", cli.queue, "--group", "billing", "--auto-ack")
    assert [(one["group"], one["lag"]) for one in cli.rows("group", "ls", "--queue", cli.queue)] == [("billing", 2)]


@both("group show")
def group_show(cli: Cli) -> None:
    cli.pushed().rows("pop", cli.queue, "--group", cli.queue, "--auto-ack")
    assert [one["lag"] for one in cli.rows("group", "show", cli.queue)] == [2]
    assert f"did you mean {cli.queue!r}?" in cli.run("group", "show", f"{cli.queue}x").stderr


@both("group seek")
def group_seek(cli: Cli) -> None:
    cli.pushed().rows("pop", cli.queue, "--auto-ack", "--batch", "3")
    assert cli.rows("group", "seek", cli.queue, "--to", "start", "--yes")[0]["redelivered"] == 3


@both("group rm")
def group_rm(cli: Cli) -> None:
    cli.pushed().rows("pop", cli.queue, "--group", cli.queue)
    cli.rows("group", "rm", cli.queue, "--queue", cli.queue, "--yes")
    assert cli.run("group", "show", cli.queue).exit_code == 3


@both("dlq ls")
def dlq_ls(cli: Cli) -> None:
    assert (cli.dead()["data"], cli.dead()["error"]) == (0, "no")


@both("dlq show")
def dlq_show(cli: Cli) -> None:
    letter = cli.dead()
    assert cli.rows("dlq", "show", str(letter["id"])) == [letter]


@both("dlq redrive")
def dlq_redrive(cli: Cli) -> None:
    which = ("dlq", "redrive", "--id", str(cli.dead()["id"]), "--yes")
    assert cli.run(*which, "--payload", "{").exit_code == 2
    assert cli.rows(*which, "--payload", "-", text='{"mended": 1}\n')[0]["redriven"] == 1
    assert [one["data"] for one in cli.rows("pop", cli.queue)] == [{"mended": 1}]


@both("dlq purge")
def dlq_purge(cli: Cli) -> None:
    cli.dead()
    assert cli.rows("dlq", "purge", "--queue", cli.queue, "--yes")[0]["purged"] == 1


@both("workflow ls")
def workflow_ls(cli: Cli) -> None:
    (page,) = cli.rows("workflow", "ls", "--prefix", cli.queue, "--status", "Running", "--attribute", "colour=red")
    assert [one["id"] for one in page["workflows"]] == [f"{cli.queue}-waits"]


@both("workflow show")
def workflow_show(cli: Cli) -> None:
    done = cli.run("workflow", "-o", "table", "show", f"{cli.queue}-waits")
    assert "wait event go" in done.output
    assert cli.run("workflow", "show", "nobody").exit_code == 3


@both("workflow history")
def workflow_history(cli: Cli) -> None:
    assert cli.rows("workflow", "history", f"{cli.queue}-waits")[0]["kind"] == "OrchestrationStarted"


@both("workflow start")
def workflow_start(cli: Cli) -> None:
    given = ("--id", f"{cli.queue}-new", "--input", "-", "--delay", "0.5")
    assert cli.rows("workflow", "start", "waits", *given, text="1") == [{"id": f"{cli.queue}-new", "accepted": True}]


@both("workflow cancel")
def workflow_cancel(cli: Cli) -> None:
    assert cli.run("workflow", "cancel", f"{cli.queue}-waits", "--reason", "enough").exit_code == 0


@both("workflow raise")
def workflow_raise(cli: Cli) -> None:
    assert cli.run("workflow", "raise", f"{cli.queue}-waits", "go", "--data", "5").exit_code == 0


@both("workflow retry")
def workflow_retry(cli: Cli) -> None:
    assert cli.rows("workflow", "retry", f"{cli.queue}-fails") == [{"id": f"{cli.queue}-fails", "takenUp": False}]
    assert cli.run("workflow", "retry", f"{cli.queue}-waits").exit_code == 4


@both("workflow reset")
def workflow_reset(cli: Cli) -> None:
    assert cli.rows("workflow", "reset", f"{cli.queue}-fails", "--yes")[0]["id"] == f"{cli.queue}-fails"


@both("workflow fork")
def workflow_fork(cli: Cli) -> None:
    made = cli.rows("workflow", "fork", f"{cli.queue}-waits", "--id", f"{cli.queue}-other", "--from", "2")
    assert made[0]["id"] == f"{cli.queue}-other"


# What to give a command that a broker has nothing to do with, and how it ends on a database; None: tested elsewhere.
DATABASE: dict[str, tuple[tuple[str, ...], int | None]] = {
    "init": ((), 0),
    "psql": (("--", "-c", "select 1"), 0),
    "migrate up": ((), 0),
    "migrate down": (("--to", "9999", "--yes"), 0),
    "migrate status": ((), 0),
    "migrate plan": ((), 0),
    "pipeline ls": ((), 0),
    "pipeline run": (("archive", "--once"), None),
    "pipeline schedule": ((), 0),
    "pipeline show": (("archve",), 3),
    "lake adopt": (("--lake", "nothing"), 3),
    "lake forget": ((), 0),
    "lake verify": (("--lake", "nothing"), 3),
    "workflow prune": (("ID-waits", "--yes"), 0),
    "workflow replay": (("tests.cli.test_both_ways:waits",), 0),
}
# What asks neither.
NEITHER: dict[str, tuple[tuple[str, ...], int]] = {
    "completion": (("bash",), 0),
    "queue explain": ((), 0),
    "pipeline new": (("mine",), 0),
    "buffer ls": (("--buffer-dir", "."), 0),
    "buffer status": (("--buffer-dir", "nothing"), 3),
    "buffer show": (("x", "--buffer-dir", "."), 3),
    "buffer retry": (("x", "--buffer-dir", "."), 3),
    "buffer drop": (("x", "--buffer-dir", "."), 3),
    "lake ls": (("--lake", "nothing"), 3),
    "lake query": (("select 1", "--lake", "nothing"), 3),
    "lake compact": (("--lake", "nothing"), 3),
    "lake convert": (("--lake", "nothing"), 3),
}
# What has addresses of its own, or is a program that goes on: where it is tested.
ELSEWHERE = {
    "serve": "tests/server/test_stop.py",
    "worker": "tests/client/test_frameworks.py",
    "spark shell": "tests/spark/test_cli.py",
    "spark submit": "tests/spark/test_cli.py",
    **{name: "tests/transfer" for name in EVERY if name.startswith("migrate from-")},
}


@workflow
async def waits(ctx: WorkflowContext, number: int) -> int:
    ctx.set_attribute("colour", "red")
    return number + await ctx.event("go", int)


@workflow
async def fails(ctx: WorkflowContext) -> None:
    raise ValueError("broken")


@pytest.fixture(scope="module")
def database(postgres: Postgres) -> Iterator[str]:
    """One database for all commands: each has a queue of its own there."""
    with postgres.scratch(TEMPLATE) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def addresses(database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with run_broker(database, tmp_path_factory.mktemp("broker")) as broker:
        yield {"broker": broker.url, "database": database}


def begin_workflows(database: str, name: str) -> None:
    """One that waits and one that failed."""

    async def prepare() -> None:
        async with await open_provider(database) as provider, Worker(provider, workflows=[waits, fails]):
            client = WorkflowClient(provider)
            await client.start(waits, 1, id=f"{name}-waits")
            await client.start(fails, id=f"{name}-fails")

            async def stand() -> bool:
                listed = (await provider.list_instances()).instances
                found = {each.instance: each.status for each in listed}
                events = await provider.read(f"{name}-waits")
                waiting = any(type(each).__name__ == "ExternalSubscribed" for each in events)
                return waiting and found.get(f"{name}-fails") == "Failed"

            await eventually(stand, within=60)

    asyncio.run(prepare())


@pytest.mark.parametrize("way", ["broker", "database"])
@pytest.mark.parametrize("name", sorted(BOTH))
def test_a_command_works_over_a_broker_and_on_a_database(
    name: str, way: str, addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queen.durable.instances._PATIENCE_SECONDS", 0.05)
    cli = Cli(addresses[way], f"{name.replace(' ', '-')}-{way}")
    if name.startswith("workflow"):
        begin_workflows(addresses["database"], cli.queue)
    BOTH[name](cli)


@pytest.mark.parametrize("name", sorted(DATABASE))
def test_a_command_of_the_database_says_so_to_who_names_a_broker(
    name: str, addresses: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given, code = DATABASE[name]
    if name == "workflow prune":
        begin_workflows(addresses["database"], "ID")
    command = [*name.split(), *given]
    refused = Cli(addresses["broker"], "none").run(*command)
    assert refused.exit_code == 2, refused.output
    assert "works on" in refused.stderr
    if code is not None:
        done = Cli(addresses["database"], "none").run(*command)
        assert done.exit_code == code, f"{done.output}{done.exception!r}"
        assert name != "pipeline show" or "did you mean 'archive'?" in done.stderr
    assert not Path(".queen").exists(), "an embedded database was started"


@pytest.mark.parametrize("name", sorted(NEITHER))
def test_a_command_that_asks_nobody_needs_no_address(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given, code = NEITHER[name]
    done = Cli(NOWHERE, "none").run(*name.split(), *given)
    assert done.exit_code == code, done.output
    assert not Path(".queen").exists(), "an embedded database was started"


def test_no_command_is_left_out() -> None:
    assert sorted([*BOTH, *DATABASE, *NEITHER, *ELSEWHERE]) == EVERY
    assert all((ROOT / place).exists() for place in ELSEWHERE.values())


@pytest.mark.parametrize("name", [name for name in EVERY if " " in name])
def test_every_command_below_another_is_suggested_for_a_typo(name: str) -> None:
    *group, last = name.split()
    source = ["--source", "postgresql://nowhere"] if group[-1].startswith("from-") else []
    done = CliRunner().invoke(main, [*group, *source, f"{last}x"])
    assert done.exit_code == 2
    assert "did you mean" in done.stderr.lower()
