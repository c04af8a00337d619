"""Plain asyncio: `python plain.py` works until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio

from tasks import app

asyncio.run(app.run(concurrency=4))
