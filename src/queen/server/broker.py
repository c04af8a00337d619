"""What one broker process is made of; every request gets it."""

from __future__ import annotations

import time

from queen import __version__
from queen.config import Settings
from queen.engine import Engine


class Broker:
    """The parts that routes share: engine, settings, and the state of this process."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self.settings = settings
        self.engine = engine
        self.version = __version__
        self.started_at = time.time()
        self.draining = False

    async def open(self) -> None:
        """Begin to work."""
        await self.engine.open()

    async def drain(self) -> None:
        """Hand out nothing more, answer whoever waits, finish what is under way."""
        self.draining = True
        await self.engine.stop()

    async def close(self) -> None:
        """Stop and let go of everything."""
        await self.engine.close()
