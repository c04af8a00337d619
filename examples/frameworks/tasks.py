"""The tasks that every application here shares. Where they run: QUEEN_URL, or an embedded server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import queen

app = queen.App()
SENT = Path(os.environ.get("SENT", "sent.txt"))


@app.task(queue=os.environ.get("MAIL_QUEUE", "mail"), retry=queen.Backoff(attempts=8, first=1, give_up=(ValueError,)))
async def send(to: str, number: int) -> None:
    """Send a mail: mails to one address in order, those to others at the same time."""
    await asyncio.sleep(0.02)
    await asyncio.to_thread(_write, f"{to} {number}\n")


def _write(line: str) -> None:
    with SENT.open("a") as sent:
        sent.write(line)


@app.task(queue=os.environ.get("MAIL_QUEUE", "mail"))
def report(name: str) -> str:
    """Plain functions run on threads."""
    return f"report {name}"
