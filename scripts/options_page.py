"""Write docs/reference/queue-options.md from the options themselves. `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from queen.engine.options import QUEUE_OPTIONS, QueueOption

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "queue-options.md"
HEAD = """\
# Options of a queue

*Written by `scripts/options_page.py`; change `src/queen/engine/options.py` instead.*

A queue is made by its first push with the defaults below. Change it with `queen queue configure orders lease_time=30s`,
`await q.queues.configure("orders", lease_time="30s")`, or `PUT /api/v1/queues/orders/options`; options left out keep
their value. `queen queue explain` shows this page, `GET /api/v1/queue-options` has it as JSON.

The command line and the Python client take a duration as a number in the option's unit, or with a unit of its own:
`"500ms"`, `"30s"`, `"5m"`, `"2h"`, `"7d"`; Python takes a `timedelta` too. HTTP takes the number. **Mind the unit of
`retry_delay`**: it is milliseconds, as older clients send it; all others are seconds.

| option | on the wire | takes | default | meaning | together with others | example |
|---|---|---|---|---|---|---|
"""
ECHOED = """
## Kept for older clients

These are stored and read back, and change nothing.

| option | on the wire | default | meaning |
|---|---|---|---|
"""


def default(option: QueueOption) -> str:
    return f"`{str(option.default).lower()}`"


def page() -> str:
    used = [
        f"| `{one.name}` | `{one.wire}` | {one.allowed} | {default(one)} | {one.meaning} | {one.together or '-'} "
        f"| `{one.example}` |\n"
        for one in QUEUE_OPTIONS
        if one.consulted
    ]
    echoed = [
        f"| `{one.name}` | `{one.wire}` | {default(one)} | {one.meaning} |\n"
        for one in QUEUE_OPTIONS
        if not one.consulted
    ]
    return HEAD + "".join(used) + ECHOED + "".join(echoed)


def main() -> None:
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == page() else f"{PAGE.name} is out of date: run `make docs`")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
