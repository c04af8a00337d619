"""Java virtual machines that start in a third of the time: tests start many, and each works for seconds only."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pyspark

from queen.spark.session import environment
from tests.spark.drivers import training
from tests.spark.support.processes import Process

SUBMIT = Path(sys.executable).parent / "spark-submit"
HASTY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
"""No optimised machine code, no threads for clearing up; silent, for some programs of Spark's talk by their output."""


def hurry(folder: Path) -> None:
    """Let every JVM that this process and its children start from now on be hasty, with its classes prepared.

    The archive of the classes is made once for a Java and a Spark, and kept in the folder.
    """
    given = {**os.environ, **environment("local")}
    archive = folder / f"classes-{fingerprint(given)}.jsa"
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            prepare(archive, given)
    options = [os.environ.get("JAVA_TOOL_OPTIONS", ""), HASTY, f"-XX:SharedArchiveFile={archive}"]
    os.environ["JAVA_TOOL_OPTIONS"] = " ".join(options).strip()


def fingerprint(given: Mapping[str, str]) -> str:
    """What an archive of classes depends on."""
    java = Path(given["JAVA_HOME"]) / "bin" / "java" if given.get("JAVA_HOME") else "java"
    told = subprocess.run([java, "-version"], env=given, capture_output=True, check=True).stderr
    jars = Path(pyspark.__file__).parent / "jars"
    spark = f"{given.get('SPARK_HOME')} {jars.stat().st_mtime_ns}"
    return f"{zlib.crc32(told + spark.encode()):08x}"


def prepare(archive: Path, given: Mapping[str, str]) -> None:
    """Keep the classes that a run of Spark has loaded; a Java that cannot leaves nothing, and does without."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as name:
        draft, log = Path(name) / archive.name, Path(name) / "log"
        command: list[str | Path] = [SUBMIT, "--master", "local[2]", "--driver-memory", "800m"]
        options = {"SPARK_SUBMIT_OPTS": f"{HASTY} -XX:ArchiveClassesAtExit={draft}"}
        with Process([*command, training.__file__], log, {**given, **options}) as run:
            assert run.wait(200) == 0, log.read_text()[-3000:]
        if draft.exists():
            draft.replace(archive)
