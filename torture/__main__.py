"""`python -m torture`: one run, with a seed that is printed and can be given again."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import signal
import sys
from pathlib import Path

import msgspec

from torture import soak
from torture.defects import DEFECTS
from torture.plan import Plan, draw
from torture.run import Verdict, run
from torture.shrink import shrink

SHOWN = 20


def main() -> int:
    """Run, tell, and shrink what failed; 1 when something was violated."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that everything that was started is ended
    if options.plan:
        plan = msgspec.json.decode(options.plan.read_bytes(), type=Plan)
    else:
        seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
        plan = draw(
            seed, options.seconds, options.size, standby=options.standby, spark=options.spark, soak=options.soak
        )
    if options.defect:
        plan = msgspec.structs.replace(plan, defect=options.defect)
    folder: Path = options.folder or Path(".torture") / f"{plan.seed}"
    shutil.rmtree(folder, ignore_errors=True)
    _tell(f"seed {plan.seed}, {plan.seconds:g} s, {len(plan.acts)} acts, histories in {folder}")
    verdict = asyncio.run(run(plan, folder))
    if options.soak:
        verdict.violations += soak.not_flat(folder)
        soak.draw(folder, folder / "soak.png")
        _tell(f"picture in {folder / 'soak.png'}")
    _report(plan, verdict)
    if verdict.violations and options.shrink:
        _tell(f"shrinking for up to {options.shrink:g} s")
        small = asyncio.run(shrink(plan, verdict.kinds, folder, options.shrink, _tell))
        _tell(
            f"shrunk to {small.seconds:g} s and {len(small.acts)} acts: python -m torture --plan {folder}/shrunk.json"
        )
    return 1 if verdict.violations else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--seed", type=int, help="what to draw everything from; random unless given")
    parser.add_argument("--seconds", type=float, default=180.0, help="how long things break; draining comes after")
    parser.add_argument("--size", choices=("short", "full"), default="full")
    parser.add_argument("--plan", type=Path, help="run a kept plan instead of drawing one")
    parser.add_argument("--folder", type=Path, help="where histories are kept; .torture/SEED unless given")
    parser.add_argument("--standby", action="store_true", help="a synchronous standby, promoted halfway")
    parser.add_argument("--spark", action="store_true", help="a Spark stream from queue to queue as well; costly")
    parser.add_argument("--defect", choices=DEFECTS, help="plant a defect: the run must fail")
    parser.add_argument("--shrink", type=float, default=600.0, help="seconds to spend on shrinking a failure; 0: none")
    parser.add_argument("--soak", action="store_true", help="slower, with a picture of memory, tables and latency")
    return parser.parse_args()


def _report(plan: Plan, verdict: Verdict) -> None:
    _tell(", ".join(f"{count} {word}" for word, count in verdict.figures.items()))
    for violation in verdict.violations[:SHOWN]:
        _tell(f"VIOLATION {violation[:400]}")
    if len(verdict.violations) > SHOWN:
        _tell(f"... and {len(verdict.violations) - SHOWN} more, see violations.txt")
    word = f"{len(verdict.violations)} violations" if verdict.violations else "no violation"
    _tell(f"seed {plan.seed}: {word} in {verdict.seconds:.0f} s")


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
