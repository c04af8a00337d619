"""Write docs/durable/reference.md from the code itself. `--check` only compares."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from queen import durable
from queen.durable import queues, testing
from queen.durable.instances import Instances

PAGE = Path(__file__).resolve().parents[1] / "docs" / "durable" / "reference.md"
HEAD = """\
# Python reference

*Written by `scripts/durable_page.py`; change the docstrings instead.* The names of duroxide are on
[a page of their own](from-duroxide.md).

```python
from queen.durable import Worker, WorkflowClient, WorkflowContext, activity, open_provider, workflow
```
"""
ROOMS: dict[str, list[Any]] = {
    "Defining": [durable.workflow, durable.activity, durable.transaction, durable.Limit, durable.RetryPolicy],
    "Inside a workflow": [durable.WorkflowContext, durable.Update, durable.Winner],
    "Inside an activity": [durable.ActivityContext],
    "Running": [durable.open_provider, durable.Worker, durable.WorkerSettings],
    "From outside": [durable.WorkflowClient, durable.WorkflowHandle, durable.SyncWorkflowClient, Instances],
    "Schedules and queues": [durable.Schedules, queues.QueueBridge, queues.StartFrom, queues.SignalFrom],
    "Testing": [testing.WorkflowEnvironment, testing.ManualClock, testing.eventually, testing.check_replay],
    "Errors": [
        durable.DurableError, durable.CallFailed, durable.ActivityFailed, durable.ActivityTimedOut, durable.ChildFailed,
        durable.NonRetryable, durable.DirectCall, durable.Cancelled, durable.Dropped, durable.WorkflowFailed,
        durable.WorkflowCancelled, durable.WorkflowTimedOut, durable.WorkflowNotFound, durable.UpdateRefused,
        durable.QueryNotFound, durable.NothingToRetry, durable.StepNotFound, durable.NondeterminismDetected,
        durable.RegistrationError, durable.ProviderError,
    ],
}  # fmt: skip


def text_of(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")


def signature_of(name: str, function: Any) -> str:
    if isinstance(function, property):
        return name
    shown = str(inspect.signature(function)).replace("(self, ", "(").replace("(self)", "()")
    return name + re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)


def members(kind: type) -> list[str]:
    found = []
    for name, member in vars(kind).items():
        if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        if member.__doc__:
            first = text_of(member).replace("\n\n", " ").replace("\n", " ")
            found.append(f"- `{signature_of(name, member)}`: {first}\n")
    return found


def entry(thing: Any) -> str:
    is_class = inspect.isclass(thing)
    title = thing.__name__ if is_class else signature_of(thing.__name__, thing)
    text = text_of(thing).split("\n>>>")[0].rstrip()
    listed = "".join(members(thing)) if is_class else ""
    return f"\n### `{title}`\n\n{text}\n" + (f"\n{listed}" if listed else "")


def page() -> str:
    return HEAD + "".join(f"\n## {room}\n" + "".join(map(entry, things)) for room, things in ROOMS.items())


def main() -> None:
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.exists() and PAGE.read_text() == page() else f"{PAGE.name} is out of date: run `make docs`")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
