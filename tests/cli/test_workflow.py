"""`queen workflow`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from queen.cli.workflow import command
from queen.durable import Worker, WorkflowClient, WorkflowContext, activity, open_provider, workflow
from queen.durable.testing import eventually


@activity
async def double(number: int) -> int:
    return number * 2


@activity
async def fails() -> None:
    raise ValueError("broken")


@workflow
async def waits(ctx: WorkflowContext, number: int) -> int:
    ctx.set_key("number", number)
    doubled = await ctx.activity(double, number)
    try:
        await ctx.activity(fails)
    except Exception as error:  # noqa: BLE001 any failure will do
        ctx.status = str(error)
    await ctx.sleep(0.01)
    return doubled + await ctx.event("go", int)


@workflow(name="waits")
async def changed(ctx: WorkflowContext, number: int) -> int:
    await ctx.sleep(1)
    return number


@workflow
async def rounds(ctx: WorkflowContext, number: int) -> int:
    return number if number == 3 else ctx.continue_as_new(number + 1)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store with a waiting workflow and one that ran three times."""
    url = str(tmp_path / "cli.db")

    async def prepare() -> None:
        async with (
            await open_provider(url) as provider,
            Worker(provider, workflows=[waits, rounds], activities=[double, fails]),
        ):
            client = WorkflowClient(provider)
            await client.start(waits, 4, id="first", trace_id="t-1")
            await eventually(lambda: _waits(provider))  # by then it is there: the order of `ls` is that of first turns
            await (await client.start(rounds, 1, id="second")).result()

    asyncio.run(prepare())
    return url


async def _waits(provider: Any) -> bool:
    return any(type(each).__name__ == "ExternalSubscribed" for each in await provider.read("first"))


def finish(url: str) -> Any:
    async def work() -> Any:
        async with (
            await open_provider(url) as provider,
            Worker(provider, workflows=[waits, rounds], activities=[double, fails]),
        ):
            return await (WorkflowClient(provider).handle(waits, "first")).result()

    return asyncio.run(work())


def run(store: str, *arguments: str, output: str = "table") -> Result:
    return CliRunner().invoke(command, ["--store", store, "-o", output, *arguments], catch_exceptions=False)


def test_ls(store: str) -> None:
    lines = run(store, "ls").output.splitlines()
    assert lines[0].split() == ["id", "workflow", "status", "run", "started"]
    assert lines[1].split()[:5] == ["second", "rounds", "1.0.0", "Completed", "3"]
    assert lines[2].split()[:5] == ["first", "waits", "1.0.0", "Running", "1"]
    page = json.loads(run(store, "ls", "--limit", "1", output="json").output)
    assert [each["id"] for each in page["workflows"]] == ["second"]
    rest = json.loads(run(store, "ls", "--cursor", page["nextCursor"], output="json").output)
    assert [each["id"] for each in rest["workflows"]] == ["first"]
    found = json.loads(run(store, "ls", "--name", "waits", "--status", "Running", output="json").output)
    assert [each["traceId"] for each in found["workflows"]] == ["t-1"]


def test_show_draws_the_timeline(store: str) -> None:
    lines = run(store, "show", "first").output.splitlines()
    assert lines[0] == "first  Running"
    assert "key       number = 4" in lines
    assert "trace     t-1" in lines
    steps = [line.rpartition("|")[2].split(maxsplit=2)[2] for line in lines if "|" in line and " ms " in line]
    assert steps == [
        "✓ activity double",
        "✗ activity fails - Activity 'fails' call failed: ValueError: broken",
        "✓ timer 0.01 s",
        "… wait event go",
    ]
    detail = json.loads(run(store, "show", "second", output="json").output)
    assert [each["status"] for each in detail["executions"]] == ["ContinuedAsNew", "ContinuedAsNew", "Completed"]
    assert detail["workflow"]["output"] == 3


def test_history_prints_one_event_per_line(store: str) -> None:
    kinds = [json.loads(line)["kind"] for line in run(store, "history", "first").output.splitlines()]
    assert kinds[:3] == ["OrchestrationStarted", "KeyValueSet", "ActivityScheduled"]
    first = run(store, "history", "second", "--execution", "1").output.splitlines()
    assert json.loads(first[-1])["kind"] == "OrchestrationContinuedAsNew"


def test_raise_lets_it_go_on(store: str) -> None:
    assert run(store, "raise", "first", "go", "--data", "5").exit_code == 0
    assert finish(store) == 13


def test_cancel(store: str) -> None:
    assert run(store, "cancel", "first", "--reason", "enough").exit_code == 0
    with pytest.raises(Exception, match="enough"):
        finish(store)


def test_start(store: str) -> None:
    started = run(store, "start", "waits", "--id", "third", "--input", "7")
    assert started.output.strip() == "third"
    refused = run(store, "start", "waits", "--input", "{")
    assert refused.exit_code == 2
    assert "--input: not JSON" in refused.output
    file = Path(store).with_name("input.json")
    file.write_text("8")
    assert run(store, "start", "waits", "--id", "fourth", "--input", f"@{file}").output.strip() == "fourth"


def test_prune(store: str) -> None:
    assert run(store, "prune", "second", "--yes").output.startswith("deleted 2 executions with ")
    detail = json.loads(run(store, "show", "second", output="json").output)
    assert [each["executionId"] for each in detail["executions"]] == [3]


def test_replay_reports_code_that_no_longer_fits(store: str) -> None:
    fits = run(store, "replay", "tests.cli.test_workflow:waits")
    assert (fits.exit_code, fits.output.strip()) == (0, "1 checked, 0 do not fit")
    broken = run(store, "replay", "tests.cli.test_workflow:changed", "--id", "first")
    assert broken.exit_code == 4
    assert broken.output.startswith(
        "first: at event 2 history has KeyValueSet(key=number, value=4), but the code asked"
    )
    assert "is not a workflow" in run(store, "replay", "json:dumps").output


@pytest.mark.parametrize("arguments", [["show", "nobody"], ["history", "nobody"], ["cancel", "nobody"]])
def test_an_unknown_workflow_is_exit_code_3(store: str, arguments: list[str]) -> None:
    answer = run(store, *arguments)
    assert answer.exit_code == 3
    assert "queen: workflow 'nobody' is not known" in answer.output


def work_until(url: str, **wanted: str) -> None:
    async def work() -> None:
        async with (
            await open_provider(url) as provider,
            Worker(provider, workflows=[waits, rounds], activities=[double, fails]),
        ):
            await eventually(lambda: _stand(provider, wanted))

    asyncio.run(work())


async def _stand(provider: Any, wanted: dict[str, str]) -> bool:
    listed = (await provider.list_instances()).instances
    found = {each.instance: f"{each.status} {each.current_execution_id}" for each in listed}
    return wanted.items() <= found.items()


def test_a_workflow_is_made_to_end_and_run_again(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queen.durable.instances._PATIENCE_SECONDS", 0.05)
    assert run(store, "cancel", "first", "--force", "--reason", "enough").exit_code == 0
    work_until(store, first="Cancelled 1")
    assert run(store, "ls", "--status", "Cancelled", output="json").output.count('"id":"first"') == 1
    assert json.loads(run(store, "retry", "first", output="json").output) == {"id": "first", "takenUp": False}
    run(store, "raise", "first", "go", "--data", "5")
    work_until(store, first="Completed 2")
    assert finish(store) == 13
    refused = run(store, "retry", "first")
    assert (refused.exit_code, "is Completed" in refused.stderr) == (4, True)
    assert run(store, "reset", "first", "--yes").output == "first\n"
    assert run(store, "fork", "second", "--id", "third", "--from", "2").output == "third\n"
    work_until(store, first="Completed 3", third="Completed 1")
    assert "there is no step 99" in run(store, "reset", "first", "--from", "99", "--yes").stderr
