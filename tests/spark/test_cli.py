from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from queen.cli import main
from queen.cli.spark import pack
from tests.spark.support.processes import Process
from tests.spark.support.queues import Queues

SCRIPT = """
import sys
import psutil
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
assert spark.read.format("queen").option("queue", "orders").load().count() == int(sys.argv[1])
me = psutil.Process()
shown = [" ".join(process.cmdline()) for process in [*me.parents(), *me.children(recursive=True)]]
assert [line for line in shown if "org.apache.spark" in line], shown
assert not [line for line in shown if "hush" in line], shown
"""


@pytest.mark.timeout(400)
def test_a_submitted_script_needs_no_address_and_shows_no_password(queues: Queues, tmp_path: Path) -> None:
    queues.fill("orders", partitions=1, per_partition=3)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "queen", "spark", "--master", "local[1]", "submit", "--driver-memory", "600m"]
    given = {"QUEEN_DATABASE_URL": f"{queues.url}&password=hush"}
    with Process([*command, script, "3"], tmp_path / "log", given) as job:
        assert job.wait(300) == 0, (tmp_path / "log").read_text()[-3000:]
    assert " INFO " not in (tmp_path / "log").read_text()


def test_what_is_shipped_to_executors_is_complete(tmp_path: Path) -> None:
    archive = pack(tmp_path / "queen.zip")
    told = (
        "from pyspark_queen import DefaultSource; from queen.sql import query; print(DefaultSource, query('spark/ask'))"
    )
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(archive)!r}); {told}"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "queen.spark.datasource.QueenDataSource" in shown
    assert "set_config('queen.ask'" in shown


def test_help_names_both_commands() -> None:
    shown = CliRunner().invoke(main, ["spark", "--help"])
    assert shown.exit_code == 0
    assert "shell" in shown.output
    assert "submit" in shown.output
