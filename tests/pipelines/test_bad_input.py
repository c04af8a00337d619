"""What cannot be done is told in one sentence, and nothing is damaged."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from queen.cli import main
from queen.spark.errors import SparkError
from queen.spark.lake import Lake
from queen.spark.lake.verify import verify
from tests.pipelines.support.lakes import Pond
from tests.support.postgres import TEMPLATE, Postgres


def queen(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


def told(result: Result, code: int, *parts: str) -> None:
    """One line that says so, and the exit code."""
    (line,) = result.output.strip().splitlines()
    assert result.exit_code == code, result.output
    assert all(part in line for part in parts), line


def test_an_unknown_pipeline(pond: Pond) -> None:
    shown = queen("pipeline", "run", "archiv", "--once", "--url", pond.queues.url, "--lake", pond.path)
    told(shown, 3, "there is no pipeline 'archiv'", "did you mean 'archive'")
    assert not pond.path.exists()


def test_an_unknown_option(pond: Pond) -> None:
    shown = queen(
        "pipeline", "run", "archive", "--option", "row=5", "--url", pond.queues.url, "--lake", pond.path
    )  # fmt: skip
    told(shown, 2, "no option 'row'", "did you mean 'rows'")
    assert not pond.path.exists()


def test_a_file_without_a_pipeline(pond: Pond, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1\n")
    shown = queen("pipeline", "run", tmp_path / "mine.py", "--url", pond.queues.url, "--lake", pond.path)
    told(shown, 3, "must name one pipeline made by @queen.pipeline")


def test_a_missing_lake(pond: Pond) -> None:
    told(queen("lake", "ls", "--lake", pond.path), 3, "there is no lake at", "queen pipeline run archive")
    shown = queen("pipeline", "run", "replay", "--url", pond.queues.url, "--lake", pond.path)
    told(shown, 3, "there is no lake at")
    assert not pond.path.exists()


def test_a_directory_that_is_something_else(pond: Pond) -> None:
    pond.path.mkdir()
    (pond.path / "thesis.txt").write_text("precious")
    shown = queen("pipeline", "run", "archive", "--once", "--url", pond.queues.url, "--lake", pond.path)
    told(shown, 3, "is not a lake and not empty")
    assert [each.name for each in pond.path.iterdir()] == ["thesis.txt"]


def test_a_half_written_file_is_told_by_everyone_who_reads(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=1, per_partition=50)
    pond.run("archive")
    file = pond.lake.state().of("messages")[0]
    path = pond.path / "messages" / file.path
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SparkError, match="restore it from a copy") as caught:
        pond.lake.read(pond.spark, "messages")
    assert caught.value.code == "LAKE_DAMAGED"
    told(queen("lake", "query", "--lake", pond.path, "select 1 from messages"), 4, "restore it from a copy")
    assert len(verify(pond.lake, pond.queues.url).damaged) == 1
    path.write_bytes(whole[:-9] + b"x" + whole[-8:])
    assert len(verify(pond.lake, pond.queues.url).damaged) == 1, "the same size, other bytes"
    path.write_bytes(whole)
    assert verify(pond.lake, pond.queues.url).agrees


def test_a_half_written_log(pond: Pond) -> None:
    pond.queues.fill("orders", partitions=1, per_partition=5)
    pond.run("archive")
    last = max((pond.path / "messages" / "_delta_log").glob("*.json"))
    whole = last.read_bytes()
    last.write_bytes(whole[:20])
    told(queen("lake", "ls", "--lake", pond.path), 4, "cannot be read")
    with pytest.raises(SparkError, match="cannot be read"):
        pond.run("archive")
    last.write_bytes(whole)
    assert pond.contents("orders") == {"p0": [1, 2, 3, 4, 5]}


def test_a_lake_of_another_database(pond: Pond, postgres: Postgres) -> None:
    pond.queues.fill("orders", partitions=1, per_partition=5)
    pond.run("archive")
    with postgres.scratch(TEMPLATE) as url:
        for name in ("archive", "reconcile"):
            shown = queen("pipeline", "run", name, "--once", "--url", url, "--lake", pond.path)
            told(shown, 4, "belongs to database", "choose another directory")
        told(queen("lake", "verify", "--url", url, "--lake", pond.path), 4, "belongs to database")
    assert verify(pond.lake, pond.queues.url).agrees


@pytest.mark.parametrize("lake", ["gs://", "hdfs://host/x", "file:///x", "s3://"])
def test_an_address_is_no_directory(pond: Pond, lake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = queen("pipeline", "run", "archive", "--once", "--url", pond.queues.url, "--lake", lake)
    told(shown, 2, "a lake must be ")
    assert pond.queues.rows("select from queen.archive_positions") == []
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_looks_like_a_pattern(pond: Pond, tmp_path: Path) -> None:
    odd = Pond(pond.spark, pond.queues, tmp_path / "lake [a-z]{1,2}*?")
    pond.queues.fill("orders", partitions=1, per_partition=5)
    odd.run("archive")
    assert odd.contents("orders") == {"p0": [1, 2, 3, 4, 5]}
    told(queen("lake", "query", "--lake", odd.path, "-o", "json", "select count(*) as n from messages"), 0, '"n":5')
    assert verify(odd.lake, pond.queues.url).agrees


@pytest.mark.parametrize(
    ("master", "code", "message"),
    [
        ("spark://127.0.0.1:1", 4, "no Spark master answers at spark://127.0.0.1:1"),
        ("spark://127.0.0.1", 2, "a master must be local"),
        ("loca[2]", 2, "not 'loca[2]'"),
    ],
)
def test_a_wrong_master(pond: Pond, master: str, code: int, message: str) -> None:
    shown = queen(
        "pipeline", "run", "archive", "--once", "--url", pond.queues.url, "--lake", pond.path, "--master", master
    )
    told(shown, code, message)
    assert not pond.path.exists()
    shown = queen("spark", "--master", master, "submit", "x.py")
    assert message in shown.output


def test_a_full_disk(pond: Pond, tmp_path: Path) -> None:
    """No file may grow beyond a few kilobytes, which is what a full disk does to it."""
    pond.queues.rows("select from queen.configure('orders', %s)", json.dumps({"archive": True}))
    pond.queues.fill("orders", partitions=1, per_partition=5)
    pond.run("archive")
    before = pond.lake.state()
    pond.queues.push("orders", "p0", {"random": [hash(str(n)) for n in range(20_000)]})
    command = [sys.executable, "-m", "queen", "pipeline", "run", "archive", "--once", "--master", "local[1]"]
    command += ["--url", pond.queues.url, "--lake", str(pond.path)]
    limit = (64 << 10, 64 << 10)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=200, cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "queen: there is no room for" in done.stderr
    assert "Traceback" not in done.stderr
    assert Lake.open(pond.path).state() == before
    assert pond.queues.value("select error from queen.pipeline_runs order by started_at desc limit 1").startswith(
        "there is no room"
    )
    assert pond.run("archive").rows == 1
    assert verify(pond.lake, pond.queues.url).agrees
