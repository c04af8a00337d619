"""The operator: seeks, redrives, pauses, changes of options, and looks at figures while everything moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from queen.model import QUEUE_MODE
from torture.actor import TROUBLE, Actor
from torture.plan import QueuePlan

LONG = 2_000


class Operator(Actor):
    """Does something every now and then; each seek is noted, since it is a reason to get messages again."""

    async def run(self) -> None:
        """Act until the run ends, and leave nothing paused."""
        acts = (self._seek, self._redrive, self._pause, self._look, self._configure)
        while self.running:
            await self.pause(0.5, 2.5)
            queue = self.rng.choice(self.context.plan.queues)
            try:
                await self.rng.choice(acts)(queue)
            except TROUBLE as error:
                self.history.note("trouble", type(error).__name__)

    async def _seek(self, queue: QueuePlan) -> None:
        """One partition of a group goes back, or to where it was a moment ago; never over thousands of messages."""
        group = self.rng.choice([QUEUE_MODE, "g"])
        partition = f"p{self.rng.randrange(queue.partitions)}"
        place = (queue.name, group, partition)
        moment = datetime.now(UTC) - timedelta(seconds=self.rng.uniform(2, 10))
        to = self.rng.choice(("start", moment, self.rng.randint(0, 20)))
        if to != moment and any(one.total > LONG for one in await self.client.queues.partitions(queue.name)):
            to = moment
        self.history.note("seek", *place, str(to))
        await self.client.groups.seek(queue.name, group, to=to, partition=partition)
        self.history.note("sought", *place)

    async def _redrive(self, queue: QueuePlan) -> None:
        await self.client.dead_letters.redrive(queue.name, limit=self.rng.choice((1, 20)))

    async def _pause(self, queue: QueuePlan) -> None:
        self.history.note("pause", queue.name)
        await self.client.queues.pause(queue.name)
        await self.pause(0.1, 0.6)
        while True:
            try:
                await self.client.queues.resume(queue.name)
                break
            except TROUBLE:
                await self.pause(0.1, 0.3)

    async def _look(self, queue: QueuePlan) -> None:
        await self.client.queues.list()
        await self.client.queues.partitions(queue.name)
        await self.client.groups.list()
        await self.client.dead_letters.list(queue.name)

    async def _configure(self, queue: QueuePlan) -> None:
        """The same options again, or a delay for a moment: what waits is reckoned anew."""
        await self.client.queues.configure(queue.name, delayed_processing=1)
        await self.pause(0.0, 0.3)
        await self.client.queues.configure(queue.name, delayed_processing=queue.options["delayed_processing"])
