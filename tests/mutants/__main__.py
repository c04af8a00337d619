"""Plant defects in copies of the project, and tell which test noticed each.

What was noticed is remembered for as long as neither the defect, nor the file it is in, nor its test changes, so that a
run that was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.defects import Defect, all_defects
from tests.mutants.planting import KEPT, Copy, keep_java_quick
from tests.support import postgres
from tests.support.tree import ROOT

RESULTS = KEPT / "results.json"
MOST_JOBS = 2


@dataclass(frozen=True)
class Verdict:
    """What became of one defect: noticed, noticed elsewhere, not noticed, or not planted at all."""

    said: str
    by: str
    seconds: float
    key: str = ""


class Runner:
    """Runs defects, so many at once as there are copies."""

    def __init__(self, copies: Sequence[Copy], shared: dict[str, str], *, widely: bool) -> None:
        self._free: SimpleQueue[Copy] = SimpleQueue()
        for copy in copies:
            self._free.put(copy)
        self._shared = shared
        self._widely = widely

    def clean(self, defects: Sequence[Defect], jobs: int) -> set[str]:
        """The tests among those named that fail without a defect, so that nothing they say counts."""
        copy = self._free.get()
        tests = sorted({test for defect in defects for test in defect.noticed_by})
        try:
            run = copy.run(tests, {}, jobs)
            assert run.passed, run.output[-4000:]
            return {*run.failed, *run.errors}
        finally:
            self._free.put(copy)

    def judge(self, defect: Defect) -> Verdict:
        """Plant one defect and see."""
        copy, started = self._free.get(), time.monotonic()
        try:
            copy.plant(defect)
            said, by = self._see(copy, defect)
        finally:
            copy.mend(defect)
            self._free.put(copy)
        return Verdict(said, by, round(time.monotonic() - started, 1), key_of(defect))

    def _see(self, copy: Copy, defect: Defect) -> tuple[str, str]:
        environment = {} if defect.in_the_schema else self._shared
        run = copy.run(defect.noticed_by, environment)
        blind = [test for test in defect.noticed_by if not run.noticed(test)]
        if not blind:
            return "noticed", run.failed[0]
        if run.errors or not (run.passed or run.failed):
            return "not planted", "\n".join(run.output.strip().splitlines()[-30:])
        rooms = sorted({str(Path(test.partition("::")[0]).parent) for test in defect.noticed_by})
        if self._widely and (failed := copy.run([*rooms, "-x"], environment, MOST_JOBS).failed):
            return "elsewhere", failed[0]
        return "NOT NOTICED", f"by {', '.join(blind)}"


def key_of(defect: Defect) -> str:
    """Changes with the defect, the files it is in, and the tests that are to notice."""
    digest = hashlib.sha256(repr(defect).encode())
    for change in defect.changes:
        digest.update((ROOT / "src/queen" / change.file).read_bytes())
    for test in defect.noticed_by:
        digest.update((ROOT / test.partition("::")[0]).read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def server() -> Iterator[dict[str, str]]:
    """A PostgreSQL for all runs with the schema as it is, and what tells a run to use it."""
    postgres.name_run()
    try:
        with postgres.run_server():
            yield {name: os.environ[name] for name in (postgres.RUN, postgres.DIRECTORY)}
    finally:
        postgres.forget_run()


def choose(arguments: argparse.Namespace) -> list[Defect]:
    """The defects asked for."""
    defects = list(all_defects().values())
    if arguments.names:
        unknown = set(arguments.names) - all_defects().keys()
        assert not unknown, f"there is no defect called {', '.join(sorted(unknown))}"
        defects = [defect for defect in defects if defect.name in arguments.names]
    if arguments.kind:
        defects = [defect for defect in defects if defect.kind == arguments.kind]
    if arguments.sample:
        quick = [defect for defect in defects if not defect.slow]
        defects = random.Random(arguments.seed).sample(quick, min(arguments.sample, len(quick)))
    return defects


def remembered(*, again: bool) -> dict[str, Verdict]:
    """What earlier runs found."""
    if again or not RESULTS.exists():
        return {}
    return {name: Verdict(**entry) for name, entry in json.loads(RESULTS.read_text()).items()}


def remember(verdicts: dict[str, Verdict]) -> None:
    """Keep what was found so far, beside what others have found meanwhile."""
    KEPT.mkdir(exist_ok=True)
    beside = RESULTS.with_suffix(f".{os.getpid()}")
    known = remembered(again=False) | verdicts
    beside.write_text(json.dumps({name: asdict(verdict) for name, verdict in known.items()}, indent=1))
    beside.replace(RESULTS)


def say(text: str) -> None:
    """One line for whoever watches."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(defects: Sequence[Defect], verdicts: dict[str, Verdict], arguments: argparse.Namespace) -> None:
    """Judge what is not known yet, and tell of each as it comes."""
    waiting = [each for each in defects if each.name not in verdicts or verdicts[each.name].key != key_of(each)]
    waiting.sort(key=lambda each: each.slow)
    if not waiting:
        return
    place = Path(tempfile.mkdtemp(prefix="queen-mutants-", dir=postgres.roomy()))
    place.chmod(0o711)
    keep_java_quick()
    end = time.monotonic() + arguments.seconds if arguments.seconds else float("inf")
    try:
        with server() as shared, ThreadPoolExecutor(arguments.jobs) as pool:
            copies = [Copy(place / f"copy-{number}") for number in range(arguments.jobs)]
            runner = Runner(copies, shared, widely=arguments.widely)
            unclean: set[str] = runner.clean(waiting, arguments.jobs) if arguments.clean else set()
            sound = []
            for defect in waiting:
                if failing := [test for test in defect.noticed_by if is_among(test, unclean)]:
                    verdicts[defect.name] = Verdict("not planted", f"{failing[0]} fails without it, too", 0.0)
                else:
                    sound.append(defect)
            judge = partial(judge_until, runner, end)
            judged = {pool.submit(judge, defect): defect for defect in sound}
            try:
                for number, done in enumerate(as_completed(judged), 1):
                    defect, verdict = judged[done], done.result()
                    if verdict is not None:
                        verdicts[defect.name] = verdict
                        remember(verdicts)
                        told = f"{verdict.seconds:5.1f} s  {defect.name}: {verdict.said} {verdict.by}"
                        say(f"[{number}/{len(sound)}] {told}")
            finally:
                pool.shutdown(cancel_futures=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def judge_until(runner: Runner, end: float, defect: Defect) -> Verdict | None:
    """Judge a defect, unless it is too late to begin."""
    return runner.judge(defect) if time.monotonic() < end else None


def is_among(test: str, failed: set[str]) -> bool:
    """Whether a test, or it with some parameters, has failed."""
    return any(name == test or name.startswith(f"{test}[") for name in failed)


def summary(defects: Sequence[Defect], verdicts: dict[str, Verdict]) -> bool:
    """A table by kind, and whether every defect that was judged was noticed by the test named for it."""
    judged = {defect: verdicts[defect.name] for defect in defects if defect.name in verdicts}
    words = ["noticed", "elsewhere", "NOT NOTICED", "not planted"]
    counts = Counter((defect.kind, verdict.said) for defect, verdict in judged.items())
    say(f"\n{'':12}" + "".join(f"{word:>13}" for word in words))
    for kind in sorted({defect.kind for defect in judged}):
        say(f"{kind:12}" + "".join(f"{counts[kind, word]:13}" for word in words))
    say(f"{len(judged)} of {len(defects)} defects planted")
    for defect, verdict in judged.items():
        if verdict.said != "noticed":
            say(f"\n{defect.name}: {verdict.said} ({defect.breaks})\n{verdict.by}")
    return bool(judged) and all(verdict.said == "noticed" for verdict in judged.values())


def is_over(defects: Sequence[Defect], verdicts: dict[str, Verdict], arguments: argparse.Namespace) -> bool:
    """Whether everything that was asked for was done; a run with a limit of time does what it can."""
    return bool(arguments.seconds) or all(defect.name in verdicts for defect in defects)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="defects to plant; all when none is named")
    parser.add_argument("--kind", help="only those of one room")
    parser.add_argument("--sample", type=int, help="only so many, quick ones, chosen by --seed")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--seconds", type=float, help="begin no further one after this time")
    parser.add_argument("--jobs", type=int, default=MOST_JOBS, choices=range(1, MOST_JOBS + 1))
    parser.add_argument("--again", action="store_true", help="forget what was found before")
    parser.add_argument("--clean", action="store_true", help="first see that the tests pass without a defect")
    parser.add_argument("--widely", action="store_true", help="what a test does not notice is given to its whole room")
    arguments = parser.parse_args()
    defects, verdicts = choose(arguments), remembered(again=arguments.again)
    run(defects, verdicts, arguments)
    noticed = summary(defects, verdicts)
    sys.exit(not (noticed and is_over(defects, verdicts, arguments)))


if __name__ == "__main__":
    main()
