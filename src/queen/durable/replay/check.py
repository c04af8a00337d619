"""Today's code against a stored history: would running instances still replay?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from queen.durable import events
from queen.durable.errors import NondeterminismDetected, QueryNotFound
from queen.durable.events import HistoryEvent
from queen.durable.model import KeyValue
from queen.durable.replay.inside import inside_turn
from queen.durable.replay.machine import Entry, Machine
from queen.durable.replay.promise import ContinueAsNew


def check_replay(history: Sequence[HistoryEvent], entry: Entry, kv: Mapping[str, KeyValue] | None = None) -> None:
    """Raise `NondeterminismDetected` when the code does not fit the history; nothing is run or stored.

    `kv` are the keys the instance had when this execution began.
    """
    machine = Machine(entry, kv)
    try:
        if not history:
            raise NondeterminismDetected("corrupted history: it is empty")
        machine.patches |= {each.name for each in history if isinstance(each, events.PatchMarked)}
        for event in history:
            machine.apply(event)
        _check_end(machine)
    finally:
        machine.close()


def ask(
    history: Sequence[HistoryEvent],
    entry: Entry,
    kv: Mapping[str, KeyValue],
    name: str,
    arguments: tuple[object, ...],
) -> Any:
    """What the code answers to a query after this history."""
    machine = Machine(entry, kv)
    try:
        machine.patches |= {each.name for each in history if isinstance(each, events.PatchMarked)}
        for event in history:
            machine.apply(event)
        if name not in machine.queries:
            known = ", ".join(sorted(machine.queries)) or "none"
            raise QueryNotFound(f"there is no query {name!r} yet; the code answers: {known}")
        with inside_turn():
            return machine.queries[name](*arguments)
    finally:
        machine.close()


def _check_end(machine: Machine) -> None:
    end = machine.end
    if end is None or isinstance(end, events.OrchestrationFailed):
        return
    at = f"at event {end.event_id} history has {type(end).__name__}, but"
    if machine.main.pending:
        raise NondeterminismDetected(f"{at} the code is still waiting")
    error = machine.main.error
    continued = isinstance(error, ContinueAsNew)
    if continued != isinstance(end, events.OrchestrationContinuedAsNew):
        raise NondeterminismDetected(f"{at} the code {'starts over' if continued else 'ends'}")
    if error is not None and not continued:
        raise NondeterminismDetected(f"{at} the code raises {error}")
