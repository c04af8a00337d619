"""A copy of the project in which one defect at a time is planted, and the tests run there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.defects import Defect
from tests.support.tree import ROOT

LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv",
    ".venv-*",
    ".mutants",
    ".queen*",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    "images",
    "build",
    "dist",
)
KEPT = ROOT / ".mutants"
# Seconds: for one test; for everything that is run for one defect; for pytest to end after an interrupt.
ONE_TEST = 100
ONE_RUN = 280
TO_END = 30
# Finding and loading every plugin that is installed takes longer than most tests; these are what single tests need.
PLUGINS = ("xdist.plugin", "pytest_asyncio.plugin", "pytest_timeout", "queen.testing.plugin")


@dataclass(frozen=True)
class Run:
    """What pytest said: which tests failed in their own code, and which never got so far."""

    failed: tuple[str, ...]
    errors: tuple[str, ...]
    passed: int
    output: str

    def noticed(self, test: str) -> bool:
        """Whether a test failed: a function with any of its parameters, or any of a file."""
        return any(name == test or name.startswith((f"{test}[", f"{test}::")) for name in self.failed)


def keep_java_quick() -> None:
    """Take over what the tests have made to start Java quickly: to make it again takes longer than most tests."""
    made, kept = ROOT / ".pytest_cache/d/spark-classes", KEPT / "cache/d/spark-classes"
    if made.is_dir() and not any(kept.glob("*")):
        shutil.copytree(made, kept, dirs_exist_ok=True)


class Copy:
    """A copy of the project; what it needs to run is that of the original."""

    def __init__(self, path: Path) -> None:
        self.path = path
        shutil.copytree(ROOT, path, ignore=LEFT_OUT)
        for environment in ROOT.glob(".venv*"):
            (path / environment.name).symlink_to(environment)

    def plant(self, defect: Defect) -> None:
        """Put a defect into the copy."""
        for change in defect.changes:
            self._write(change.file, change.apply(self._path(change.file).read_text(encoding="utf-8")))

    def mend(self, defect: Defect) -> None:
        """Take a defect out of the copy again."""
        for change in defect.changes:
            self._write(change.file, (ROOT / "src/queen" / change.file).read_text(encoding="utf-8"))

    def _path(self, file: str) -> Path:
        return self.path / "src/queen" / file

    def _write(self, file: str, text: str) -> None:
        path = self._path(file)
        path.write_text(text, encoding="utf-8")
        # A compiled file is trusted by time and size, and both may be the same.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def run(self, tests: Sequence[str], environment: Mapping[str, str], workers: int = 0) -> Run:
        """Run tests in the copy, one after the other or by several workers."""
        report = self.path / "report.xml"
        report.unlink(missing_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-n", str(workers), f"--junitxml={report}"]
        command += ["-o", f"cache_dir={KEPT / 'cache'}", "-p", "no:stepwise", f"--timeout={ONE_TEST}"]
        alone = {} if workers else {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        if workers:
            command += ["--dist", "worksteal", "-m", "not scale and not measure"]
        else:
            command += ["-m", "not scale", *(word for plugin in PLUGINS for word in ("-p", plugin))]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "QUEEN_"))}
        started = subprocess.Popen(
            [*command, *tests],
            cwd=self.path,
            env={**inherited, "PYTHONPATH": str(self.path / "src"), **alone, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        return _read(report, _output(started, ONE_RUN * (10 if workers else 1)))


def _output(started: subprocess.Popen[str], limit: float) -> str:
    """Everything it writes; what does not end in time is told to, so that it clears up behind itself."""
    for end, seconds in ((signal.SIGINT, limit), (signal.SIGKILL, TO_END)):
        try:
            return started.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, end)
    return started.communicate()[0]


def _read(report: Path, output: str) -> Run:
    if not report.exists():
        return Run((), (), 0, output)
    failed, errors, passed = [], [], 0
    for case in ElementTree.parse(report).iter("testcase"):
        path = case.get("classname", "").replace(".", "/") + ".py"
        name = f"{path}::{case.get('name')}"
        if case.find("failure") is not None:
            failed.append(name)
        elif case.find("error") is not None:
            errors.append(name)
        else:
            passed += case.find("skipped") is None
    return Run(tuple(failed), tuple(errors), passed, output)
