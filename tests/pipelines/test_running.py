from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from queen.cli import main
from queen.spark.database import Database
from queen.spark.errors import SparkError
from queen.spark.pipelines import Context, Outcome, pipeline
from queen.spark.pipelines.definition import find
from queen.spark.pipelines.results import read
from tests.pipelines.support.lakes import Pond
from tests.support.tree import ROOT


@pipeline("counting", summary="Counts", reads=["messages"], options={"fail": ""})
def counting(context: Context) -> Outcome:
    counted = context.lake.read(context.spark, "messages").groupBy("queue", "partition").count()
    rows = context.write("lanes", counted, key="queue,partition")
    if context.options["fail"]:
        raise SparkError("TOLD_TO", "told to fail")
    return Outcome(rows, {"lanes": rows})


HERE = f"{__name__}:counting"


def test_a_run_is_recorded_with_what_it_found(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=2, per_partition=3)
    pond.run("archive")
    pond.queues.fill("orders", partitions=1, per_partition=4)
    assert pond.run(HERE).rows == 2
    row = pond.queues.rows(
        """select state, rows, lag, figures, error, master, options, versions ? 'spark', finished_at >= started_at
             from queen.pipeline_runs where pipeline = 'counting'"""
    )
    assert row == [("done", 2, 4, {"lanes": 2}, None, "local[2]", {"fail": ""}, True, True)]
    database = Database(pond.queues.url)
    found = list(read(database, "counting", "lanes"))
    database.close()
    assert found == [{"queue": "orders", "partition": f"p{p}", "count": 3} for p in range(2)]


def test_a_failure_is_recorded_in_a_sentence(pond: Pond) -> None:
    pond.run("archive")
    with pytest.raises(SparkError, match="told to fail"):
        pond.run(HERE, fail="yes")
    assert pond.queues.rows("select state, error from queen.pipeline_runs where pipeline = 'counting'") == [
        ("failed", "told to fail [TOLD_TO]")
    ]


def test_a_run_that_died_is_told_so_by_the_next(pond: Pond) -> None:
    pond.run("archive")
    pond.queues.rows(
        """insert into queen.pipeline_runs (pipeline, state, lake, started_at, heartbeat_at)
           values ('archive', 'running', %s, now() - interval '1 h', now() - interval '5 min') returning 1""",
        str(pond.path),
    )
    pond.run("archive")
    states = pond.queues.rows("select state, error from queen.pipeline_runs order by started_at")
    assert states[0][0] == "failed"
    assert states[0][1].startswith("the run was interrupted")


def test_the_list_and_a_pipeline_of_it(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=1, per_partition=3)
    pond.run("archive")
    place = ["--url", pond.queues.url, "--lake", str(pond.path)]
    listed = [json.loads(line) for line in CliRunner().invoke(main, ["pipeline", "ls", *place]).output.splitlines()]
    (archive,) = [each for each in listed if each["name"] == "archive"]
    assert (archive["state"], archive["rows"]) == ("done", 3)
    shown = json.loads(CliRunner().invoke(main, ["pipeline", "show", "archive", *place]).output)
    assert (shown["state"], shown["rows"], shown["lag"], shown["figures"]["messages"]) == ("done", 3, 0, 3)
    missing = CliRunner().invoke(main, ["pipeline", "show", "nothing", *place])
    assert (missing.exit_code, "no pipeline 'nothing' has run here" in missing.output) == (3, True)


def test_a_new_pipeline_runs_as_it_is(pond: Pond, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = CliRunner().invoke(main, ["pipeline", "new", "busiest"])
    assert made.exit_code == 0, made.output
    assert CliRunner().invoke(main, ["pipeline", "new", "busiest"]).exit_code == 1
    assert CliRunner().invoke(main, ["pipeline", "new", "Not a name"]).exit_code == 2
    pond.queues.fill("orders", partitions=1, per_partition=3)
    pond.run("archive")
    assert pond.run("busiest.py").figures == {"queues": 1}


def test_the_example_finds_what_it_says(pond: Pond) -> None:
    for customer, amount in (("ada", 30), ("ada", 12), ("bob", 5)):
        pond.queues.push("orders", customer, {"amount": amount})
    pond.run("archive")
    example = ROOT / "examples" / "40_pipeline.py"
    assert find(str(example)).name == "best_customers"
    pond.run(str(example), top="1")
    found = pond.queues.rows("select value from queen.pipeline_results where pipeline = 'best_customers'")
    assert found == [({"customer": "ada", "orders": 2, "amount": 42},)]
