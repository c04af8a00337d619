"""One worker process: `python -m queen.cli.working JOB`, started by `queen worker`.

It tells what it has done on standard output, and stops when its standard input ends: so it does when the process that
started it was killed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

import msgspec

from queen.client.app import App
from queen.errors import InvalidRequest, QueenError

_REPORT: Final = 0.25
_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s [%(process)d] %(message)s"


class Job(msgspec.Struct, kw_only=True):
    """What a worker process is to do."""

    application: str
    queues: list[str] | None = None
    concurrency: int = 10
    prefetch: int = 1
    drain: float = 30.0
    log_level: str = "info"


class Report(msgspec.Struct):
    """What it has done: messages handled and failed, by queue."""

    queues: dict[str, tuple[int, int]]


class CannotLoad(Exception):
    """There is no such application."""


def load(address: str) -> App:
    """The application at MODULE:NAME; CannotLoad says what is there instead."""
    module_name, _, name = address.partition(":")
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise CannotLoad(f"there is no module {module_name} here: {error}") from None
    apps = {key: value for key, value in vars(module).items() if isinstance(value, App)}
    if not name and len(apps) == 1:
        return next(iter(apps.values()))
    found: Any = module
    for part in (name or "app").split("."):
        found = getattr(found, part, None)
    if not isinstance(found, App):
        close = get_close_matches(name, apps, n=1) or sorted(apps)
        hint = f"did you mean {module_name}:{close[0]}?" if close else "it has no queen.App at all"
        raise CannotLoad(f"{address} is no queen.App; {hint}")
    return found


async def work(job: Job) -> None:
    """Run the application until told to stop."""
    app = load(job.application)
    loop = asyncio.get_running_loop()
    threading.Thread(target=_until_left_alone, args=(loop, app), daemon=True).start()
    async with app:
        reporting = asyncio.create_task(_report(app))
        try:
            await app.run(queues=job.queues, concurrency=job.concurrency, prefetch=job.prefetch, drain=job.drain)
        finally:
            reporting.cancel()


def _until_left_alone(loop: asyncio.AbstractEventLoop, app: App) -> None:
    while os.read(0, 1):
        pass
    loop.call_soon_threadsafe(app.stop)


async def _report(app: App) -> None:
    told: Report | None = None
    while True:
        report = Report({queue: (done.handled, done.failed) for queue, done in app.progress.items()})
        if report.queues and report != told:
            sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
            sys.stdout.buffer.flush()
            told = report
        await asyncio.sleep(_REPORT)


def main() -> int:
    """Run, and turn what goes wrong into one line and an exit code."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    logging.basicConfig(level=job.log_level.upper(), format=_FORMAT, stream=sys.stderr)
    logging.getLogger("httpx2").setLevel("WARNING")
    try:
        asyncio.run(work(job))
    except (CannotLoad, InvalidRequest) as error:
        sys.stderr.write(f"queen: {error}\n")
        return 2
    except QueenError as error:
        sys.stderr.write(f"queen: {error}\n")
        return 5
    return 0


if __name__ == "__main__":
    sys.exit(main())
