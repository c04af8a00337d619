from __future__ import annotations

import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from queen.spark import SparkError, register
from queen.spark.home import spark_home
from queen.spark.session import environment

INSTALLED = Path(pyspark.__file__).parent


def test_workers_load_pyspark_as_it_is_installed(spark: SparkSession) -> None:
    """From the zip in the wheel each would compile it again."""

    def place(_: int) -> str:
        return str(__import__("pyspark").__file__)

    assert spark.sparkContext.parallelize([0], 1).map(place).collect() == [str(INSTALLED / "__init__.py")]


def test_a_session_with_another_python_is_told_the_line_to_add(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(spark)
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    other.chmod(0o755)
    for python in (str(other), "no-such-python"):
        monkeypatch.setattr(spark.sparkContext, "pythonExec", python)
        with pytest.raises(SparkError, match=r'os.environ\["PYSPARK_PYTHON"\] = sys') as caught:
            register(spark)
        assert caught.value.code == "WRONG_PYTHON"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(other))
    register(spark)


def test_the_home_is_that_of_the_package_but_for_the_zip() -> None:
    home = spark_home()
    assert home is not None
    assert home == spark_home()
    assert (home / "jars").resolve() == INSTALLED / "jars"
    assert (home / "bin" / "spark-submit").is_file()
    assert (home / "python" / "pyspark" / "shell.py").is_file()
    assert not (home / "python" / "lib").exists()


@pytest.mark.parametrize(
    ("master", "given", "expected"),
    [
        ("local[2]", {}, str(spark_home())),
        ("spark://127.0.0.1:7077", {}, str(spark_home())),
        ("yarn", {}, None),
        ("local[2]", {"SPARK_HOME": "/opt/spark"}, None),
    ],
)
def test_a_home_that_was_given_or_may_be_needed_elsewhere_is_left_alone(
    master: str, given: dict[str, str], expected: str | None
) -> None:
    assert environment(master, given).get("SPARK_HOME") == expected


def test_a_home_somebody_cleared_up_is_made_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = spark_home()
    assert home is not None
    (home / "jars").unlink()
    assert spark_home() == home
    assert (home / "jars").is_dir()
