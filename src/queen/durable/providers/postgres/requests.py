"""What is asked for in one call: turns and results to commit, and fetches that go along with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from queen.durable.messages import OrchestratorMessage, visible_from_ms
from queen.durable.model import QueuePush
from queen.durable.providers.postgres.turns import Turn, message_row, push_row, turn_parameters
from queen.durable.providers.wake import Ride, Signal, Waiter

__all__ = ["Exchange", "Finished", "Look", "Passenger", "Request", "looked_for"]

Queue = Literal["item", "task"]


class Finished(msgspec.Struct, frozen=True):
    """The end of a work item, and the token it was worked on under."""

    token: str
    completion: OrchestratorMessage | None
    pushes: Sequence[QueuePush] = ()


class Look(msgspec.Struct, frozen=True):
    """A fetch that does not want to wait for work to be made."""

    queue: Queue
    waiter: Waiter


Request = Turn | Finished | Look
_OPERATIONS = {Turn: "ack_orchestration_item", Finished: "ack_work_item"}


def looked_for(request: Request) -> Queue | None:
    """The queue a request looks at: one look at each goes along with a call."""
    return request.queue if isinstance(request, Look) else None


@dataclass(slots=True)
class Passenger:
    """A fetch that goes along: one that asked to look, or one that waits for what is being committed."""

    signal: Signal
    waiter: Waiter
    news: int
    ride: Ride | None
    found: int = 0

    @classmethod
    def board(
        cls, signal: Signal, look: Look | None, *, invited: bool, names: frozenset[str] | None = None
    ) -> "Passenger | None":
        """Whoever asked to look; when there is nobody and somebody is ``invited``, one who waits for these names."""
        if look is not None:
            look.waiter.reset()
            return cls(signal, look.waiter, signal.news, None)
        ride = signal.board(names) if invited else None
        return None if ride is None else cls(signal, ride.waiter, ride.news, ride)

    def took_all(self, names: frozenset[str] | None = None) -> bool:
        """Whether it took all there was; those with other wishes are then told to look."""
        if self.found >= self.waiter.limit:
            return False
        self.signal.notify_others(self.waiter, names)
        return True


@dataclass(frozen=True)
class Exchange:
    """The requests of one call, by kind."""

    turns: list[Turn]
    finished: list[Finished]
    looks: dict[Queue, Look]
    operation: str

    @classmethod
    def of(cls, requests: Sequence[Request]) -> "Exchange":
        """Sort requests; in error messages a lone one is called by its own name."""
        looks = [request for request in requests if isinstance(request, Look)]
        kinds = {_OPERATIONS.get(type(request), "fetch") for request in requests}
        return cls(
            turns=[request for request in requests if isinstance(request, Turn)],
            finished=[request for request in requests if isinstance(request, Finished)],
            looks={look.queue: look for look in looks},
            operation=kinds.pop() if len(kinds) == 1 else "exchange",
        )

    @cached_property
    def visible(self) -> list[int]:
        """When the messages that turns send are visible at the earliest."""
        return [visible_from_ms(message) for turn in self.turns for message in turn.commit.orchestrator_items]

    @cached_property
    def completes(self) -> bool:
        """Whether a result goes to an instance."""
        return any(one.completion is not None for one in self.finished)

    @cached_property
    def works(self) -> bool:
        """Whether a turn schedules activities."""
        return any(turn.commit.worker_items for turn in self.turns)

    @cached_property
    def task_names(self) -> frozenset[str]:
        """The names of those activities."""
        return frozenset(task.name for turn in self.turns for task in turn.commit.worker_items)

    @cached_property
    def cancels(self) -> bool:
        """Whether a turn cancels activities, which may run anywhere."""
        return any(turn.commit.cancelled_activities for turn in self.turns)

    @cached_property
    def pushes(self) -> bool:
        """Whether something goes to a Queen queue, where it may have to wait for others."""
        return any(turn.commit.pushes for turn in self.turns) or any(one.pushes for one in self.finished)

    @property
    def sends_now(self) -> bool:
        """Whether an instance gets a message that is visible at once."""
        return self.completes or min(self.visible, default=1) <= 0

    def parameters(
        self, tail: tuple[int | None, str, str | None], items: Passenger | None, tasks: Passenger | None
    ) -> list[Any]:
        """The parameters of the statement, in order."""
        numbered = list(enumerate(self.finished, start=1))
        completions = [message_row(one.completion, n) for n, one in numbered if one.completion is not None]
        pushed = [push_row(n, push) for n, one in numbered for push in one.pushes]
        return [
            *turn_parameters(self.turns),
            [one.token for one in self.finished],
            completions,
            pushed,
            *tail,
            not self.turns and not pushed,
            items.waiter.wanted if items else None,
            tasks.waiter.wanted if tasks else None,
        ]
