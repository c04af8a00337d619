"""The calls that move work: commits, and the fetches that go along with them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

from queen.durable.messages import OrchestratorMessage, visible_from_ms
from queen.durable.model import ENDED, LockedTask, OrchestrationItem
from queen.durable.provider import ProviderError
from queen.durable.providers.postgres.batching import Batcher
from queen.durable.providers.postgres.connection import Calls, Row
from queen.durable.providers.postgres.notices import Notices
from queen.durable.providers.postgres.queries import PostgresQueries
from queen.durable.providers.postgres.requests import Exchange, Finished, Look, Passenger, Request, looked_for
from queen.durable.providers.postgres.turns import Turn, message_row, read_item
from queen.durable.providers.rows import locked_task
from queen.durable.providers.wake import Clock, Signal

__all__ = ["LISTENING_SECONDS", "PostgresExchange"]

LISTENING_SECONDS = 5.0
_AGAIN_MS = 20
_TASK = ("body", "attempt", "instance", "execution_id", "activity_id")

Item = TypeVar("Item")
Enqueued = tuple[OrchestratorMessage, int, str | None]
Looked = tuple[list[Item], int | None, int]


class PostgresExchange(PostgresQueries):
    """Everything that waits while a call is under way shares the next one.

    What pushes to Queen queues has calls of its own: there it may have to wait for others.
    """

    def __init__(self, database: Calls, clock: Clock | None) -> None:
        super().__init__(database, clock)
        self._orchestrations = Signal(self.now_ms)
        self._tasks = Signal(self.now_ms)
        self._instances: dict[str, str] = {}
        self._exchanges = Batcher[Request, Any](self._exchange, lanes=1, single=looked_for)
        self._pushing = Batcher[Request, Any](self._exchange)
        self._enqueued = Batcher[Enqueued, bool](self._enqueue_messages, lanes=1)
        self._notices = Notices(self._send_notice)
        self._cancellations: set[Callable[[Callable[[str], bool]], None]] = set()

    async def _finish_calls(self) -> None:
        for batcher in (self._exchanges, self._pushing, self._enqueued):
            await batcher.close()
        await self._notices.close()

    async def _send_notice(self, notice: str) -> None:
        with contextlib.suppress(ProviderError):
            await self._database.call("notify", "notify", self._database.schema.name, notice)

    async def _look(self, look: Look, give_back: Callable[[list[Item]], Awaitable[None]]) -> Looked[Item]:
        looking = asyncio.create_task(self._exchanges.submit(look))
        try:
            found: Looked[Item] = await asyncio.shield(looking)
        except asyncio.CancelledError:
            with contextlib.suppress(ProviderError):
                await give_back((await looking)[0])
            raise
        return found

    async def _exchange(self, requests: list[Request]) -> list[Any]:
        """Commit; in the same transaction carry out fetches that want to look, or that wait for what is committed."""
        made = Exchange.of(requests)
        inviting = not made.pushes
        items = Passenger.board(self._orchestrations, made.looks.get("item"), invited=made.sends_now and inviting)
        names = made.task_names
        tasks = Passenger.board(self._tasks, made.looks.get("task"), invited=made.works and inviting, names=names)
        parameters = made.parameters(self._tail(self._notice(made)), items, tasks)
        with _declining(items, tasks):
            rows = await self._database.call(made.operation, "exchange", *parameters)
        part: dict[str, list[Row]] = {"turn": [], "finished": [], "item": [], "task": []}
        for row in rows:
            part[row["part"]].append(row)
        looked: dict[str, Any] = {}
        if items is not None:
            looked["item"] = await self._deliver(items, self._read_items(part["item"]), self._give_back_items)
        if tasks is not None:
            looked["task"] = await self._deliver(tasks, self._read_tasks(part["task"]), self._give_back_tasks)
        self._tell(made, part["turn"], items, tasks)
        acked, held = iter(part["turn"]), iter(part["finished"])
        return [_answer(request, acked, held, looked) for request in requests]

    def _notice(self, made: Exchange) -> str | None:
        soon = made.completes or any(map(self._soon, made.visible))
        queues = "o" * soon + "w" * made.works + "c" * made.cancels
        changed = [self._instances[turn.token] for turn in made.turns if turn.token in self._instances]
        return self._notices.take(queues, changed) if queues or changed else None

    def _tell(self, made: Exchange, acked: list[Row], items: Passenger | None, tasks: Passenger | None) -> None:
        """Tell those who wait of what is there now, unless a passenger has taken all of it."""
        visible = [*made.visible, *(row["ready_at"] for row in acked if row["ready_at"] is not None)]
        visible += [0] * made.completes
        if visible and not (items is not None and items.took_all()):
            self._orchestrations.notify(min(visible))
        if made.works and not (tasks is not None and tasks.took_all(made.task_names)):
            self._tasks.notify(names=made.task_names)
        if made.cancels:
            self._tell_cancelled({row["instance"] for row in acked}.__contains__)
        for turn, row in zip(made.turns, acked, strict=True):
            self._instances.pop(turn.token, None)
            if row["instance"] is not None:
                ended = turn.commit.metadata.status in ENDED
                self._changes.notify(row["instance"], ended=ended)

    def on_cancelled(self, told: Callable[[Callable[[str], bool]], None]) -> Callable[[], None]:
        self._cancellations.add(told)
        return lambda: self._cancellations.discard(told)

    def _tell_cancelled(self, concerned: Callable[[str], bool]) -> None:
        for told in tuple(self._cancellations):
            told(concerned)

    async def _deliver(
        self,
        passenger: Passenger,
        found: tuple[list[Item], int | None],
        give_back: Callable[[list[Item]], Awaitable[None]],
    ) -> Looked[Item]:
        passenger.found = len(found[0])
        if passenger.ride is not None and not passenger.ride.give(*found):
            await give_back(found[0])
        return *found, passenger.news

    async def _enqueue_messages(self, enqueued: list[Enqueued]) -> list[bool]:
        visible = [visible_from_ms(message) + delay_ms for message, delay_ms, _ in enqueued]
        notice = self._notices.take("o") if any(map(self._soon, visible)) else None
        items = Passenger.board(self._orchestrations, None, invited=min(visible) <= 0)
        statement, along = "enqueue_messages", () if items is None else (items.waiter.wanted,)
        with _declining(items):
            found = await self._database.call(
                "enqueue_for_orchestrator",
                f"{statement}_fetch_items" if along else statement,
                [message_row(message) for message, _, _ in enqueued],
                [delay_ms for _, delay_ms, _ in enqueued],
                [dedup_id for _, _, dedup_id in enqueued],
                *self._tail(notice),
                *along,
            )
        stored, fetched = found[: len(enqueued)], found[len(enqueued) :]
        if items is not None:
            await self._deliver(items, self._read_items(fetched), self._give_back_items)
        if items is None or not items.took_all():
            self._orchestrations.notify(min(row["visible_at"] for row in stored))
        return [row["accepted"] for row in stored]

    def _soon(self, visible_at: int) -> bool:
        return visible_at <= self.now_ms() + LISTENING_SECONDS * 1000

    def _tail(self, notice: str | None) -> tuple[int | None, str, str | None]:
        return self._given_now(), self._database.schema.name, notice

    def _read_items(self, rows: list[Row]) -> tuple[list[OrchestrationItem], int | None]:
        items = [read_item(row) for row in rows[:-1]]
        self._instances.update((item.token, item.instance) for item in items)
        return items, self._due(rows[-1])

    def _read_tasks(self, rows: list[Row]) -> tuple[list[LockedTask], int | None]:
        return [locked_task(row["token"], [row[name] for name in _TASK]) for row in rows[:-1]], self._due(rows[-1])

    def _due(self, end: Row) -> int | None:
        """When to look again, by the server's clock."""
        self._server_clock.set(end["server_now"])
        due: int | None = end["next_due"]
        return self.now_ms() + _AGAIN_MS if end["again"] else due

    async def _give_back_items(self, items: list[OrchestrationItem]) -> None:
        for item in items:
            await self.abandon_orchestration_item(item.token, ignore_attempt=True)

    async def _give_back_tasks(self, tasks: list[LockedTask]) -> None:
        for task in tasks:
            await self.abandon_work_item(task.token, ignore_attempt=True)


def _answer(request: Request, acked: Iterator[Row], held: Iterator[Row], looked: dict[str, Any]) -> Any:
    match request:
        case Turn():
            return next(acked)["instance"] is not None
        case Finished():
            return next(held)["held"]
        case Look():
            return looked[request.queue]


@contextlib.contextmanager
def _declining(*passengers: Passenger | None) -> Iterator[None]:
    """Let passengers wait on when the call fails."""
    try:
        yield
    except BaseException:
        for passenger in passengers:
            if passenger is not None and passenger.ride is not None:
                passenger.ride.decline()
        raise
