"""`queen serve` that notes when messages passed which stage, for `bench/latency.py`: written to $STAGES at its end."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from queen import config
from queen.engine.pop import Key, Popper
from queen.engine.push import Pusher
from queen.engine.waiting import Offer, Waiter
from queen.model import NewMessage
from queen.server.app import App, Headers
from queen.server.request import Request
from queen.server.supervisor import serve
from queen.server.wire import Response

_NAME = re.compile(rb'"transactionId":"([^"]*)"')
# By transaction id: the request came, the push began and was committed, the pop began and had it.
STAGES: dict[str, dict[str, float]] = {}


def note(name: str | None, stage: str, at: float) -> None:
    STAGES.setdefault(name or "", {})[stage] = at


class Told:
    """Pushes and pops as they are, noted."""

    respond = App.respond
    together = Pusher._together
    offer = Popper._offer


async def respond(self: App, request: Request) -> tuple[Response, Headers]:
    if request.method == "POST":
        now = time.perf_counter()
        for name in _NAME.findall(request.arrived or b""):
            note(name.decode(), "came", now)
    return await Told.respond(self, request)


async def together(self: Pusher, calls: Sequence[list[NewMessage]]) -> Any:
    began = time.perf_counter()
    answers = await Told.together(self, calls)
    ended = time.perf_counter()
    for item in (item for items in calls for item in items):
        note(item.transaction_id, "push began", began)
        note(item.transaction_id, "pushed", ended)
    return answers


async def offer(self: Popper, key: Key, batch: Sequence[Waiter]) -> Offer:
    began = time.perf_counter()
    found = await Told.offer(self, key, batch)
    ended = time.perf_counter()
    for message in (message for messages in found.found for message in messages):
        note(message.transaction_id, "pop began", began)
        note(message.transaction_id, "popped", ended)
    return found


def main() -> None:
    App.respond = respond  # type: ignore[method-assign]
    Pusher._together = together  # type: ignore[method-assign]
    Popper._offer = offer  # type: ignore[method-assign]
    serve(config.load())
    Path(os.environ["STAGES"]).write_text(json.dumps(STAGES), encoding="utf-8")


if __name__ == "__main__":
    main()
