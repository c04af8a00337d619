"""Events from outside: who waits for which name, and what arrived that nobody took yet."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass

from queen.durable.events import CarriedEvent
from queen.durable.replay.action import AwaitEvent, Dequeue


@dataclass(slots=True, frozen=True)
class _Queued:
    position: int
    data: str


class Inbox:
    """External events go to who waits; queue events are first in, first out and wait for who asks.

    An external event that an earlier execution had taken is `kept` for the wait that will ask for it again.
    """

    def __init__(self) -> None:
        self._waits: defaultdict[str, deque[AwaitEvent]] = defaultdict(deque)
        self._missed: defaultdict[str, deque[str]] = defaultdict(deque)
        self._kept: defaultdict[str, deque[str]] = defaultdict(deque)
        self._dequeues: defaultdict[str, deque[Dequeue]] = defaultdict(deque)
        self._queued: defaultdict[str, deque[_Queued]] = defaultdict(deque)
        self._taken: dict[Dequeue, _Queued] = {}
        self._position = 0

    def wait(self, action: AwaitEvent) -> None:
        """Subscribe; a buffered wait takes the oldest event that found nobody waiting."""
        if self._kept[action.name]:
            _hand_over(action, self._kept[action.name].popleft())
        elif action.buffered and self._missed[action.name]:
            _hand_over(action, self._missed[action.name].popleft())
        else:
            self._waits[action.name].append(action)

    def raise_event(self, name: str, data: str, *, kept: bool = False) -> None:
        """Hand an external event to the longest-waiting live subscription, if there is one."""
        if self._waits[name]:
            _hand_over(self._waits[name].popleft(), data)
        else:
            (self._kept if kept else self._missed)[name].append(data)

    def dequeue(self, action: Dequeue) -> None:
        """Take the oldest message of the queue, now or when it comes."""
        self._dequeues[action.name].append(action)
        self._match(action.name)

    def enqueue(self, name: str, data: str) -> None:
        """Add a message to a queue."""
        self._position += 1
        self._queued[name].append(_Queued(self._position, data))
        self._match(name)

    def drop(self, action: AwaitEvent | Dequeue) -> None:
        """Forget a wait. A queue message it already holds goes back to the head of its queue."""
        if isinstance(action, AwaitEvent):
            if action in self._waits[action.name]:
                self._waits[action.name].remove(action)
            elif action.received is not None:
                self.raise_event(action.name, action.received)
            return
        if action in self._dequeues[action.name]:
            self._dequeues[action.name].remove(action)
        taken = self._taken.pop(action, None)
        if taken is not None:
            self._queued[action.name].appendleft(taken)
            self._match(action.name)

    def waiting(self) -> list[AwaitEvent | Dequeue]:
        """Every wait that has received nothing, in the order of their event ids."""
        found: list[AwaitEvent | Dequeue] = [each for waits in self._waits.values() for each in waits]
        found += [each for waits in self._dequeues.values() for each in waits]
        return sorted(found, key=lambda action: action.event_id or 0)

    def unconsumed(self) -> tuple[CarriedEvent, ...]:
        """Queue messages nobody took, oldest first over all queues."""
        left = [(each.position, name, each.data) for name, queue in self._queued.items() for each in queue]
        return tuple(CarriedEvent(name, data) for _, name, data in sorted(left))

    def _match(self, name: str) -> None:
        while self._dequeues[name] and self._queued[name]:
            action, message = self._dequeues[name].popleft(), self._queued[name].popleft()
            self._taken[action] = message
            _hand_over(action, message.data)


def _hand_over(action: AwaitEvent | Dequeue, data: str) -> None:
    action.received = data
    if action.promise is not None:
        action.promise.resolve(data)
