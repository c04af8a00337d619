"""The turn that ends an execution so that the next one goes on from an earlier step of it."""

from __future__ import annotations

from collections.abc import Sequence

from queen.durable import events, messages
from queen.durable.events import HistoryEvent, OrchestrationStarted
from queen.durable.messages import Restored
from queen.durable.model import ExecutionMetadata, OrchestrationItem, TurnCommit
from queen.durable.replay.arrivals import Batch, last_event_id, open_work, refused_children
from queen.durable.replay.effects import Effects

_REASON = "orchestration_terminal_continued_as_new"
_TO_CHILDREN = "parent reset"


def reset_commit(
    item: OrchestrationItem,
    batch: Batch | None,
    wanted: messages.ResetMessage,
    restored: Restored,
    history: Sequence[HistoryEvent],
) -> TurnCommit:
    """End the current execution, unless it has ended (`batch` is None), and begin the next with `restored`."""
    started = history[0]
    assert isinstance(started, OrchestrationStarted), "only a history that begins with a start is restored"
    begin = _begin(item, started, wanted, restored)
    refused = refused_children(item.messages, None)
    if batch is None:
        later = item.messages[item.messages.index(wanted) :]
        kept = [each for each in later if isinstance(each, messages.QueueMessage | messages.ExternalRaisedMessage)]
        return TurnCommit(
            execution_id=item.execution_id,
            orchestrator_items=(*refused, begin, *kept),
            dead_letters=item.undecodable,
        )
    delta = list(batch.fresh)
    batch.ledger.last_event_id = last_event_id(batch)
    for kind, source in open_work(history):
        delta.append(kind(**batch.ledger.envelope(), source_event_id=source, reason=_REASON))
    delta.append(
        events.OrchestrationContinuedAsNew(
            **batch.ledger.envelope(), input=started.input, reset_to=len(restored.history) + 1
        )
    )
    effects = Effects(batch, ended=True, to_children=_TO_CHILDREN)
    for event in delta:
        effects.add(event)
    return TurnCommit(
        execution_id=item.execution_id,
        history_delta=tuple(delta),
        orchestrator_items=(*refused, *effects.messages, begin),
        metadata=ExecutionMetadata(status="ContinuedAsNew", output=started.input),
        cancelled_activities=tuple(effects.cancelled),
        dead_letters=item.undecodable,
    )


def _begin(
    item: OrchestrationItem, started: OrchestrationStarted, wanted: messages.ResetMessage, restored: Restored
) -> messages.ContinueAsNewMessage:
    return messages.ContinueAsNewMessage(
        instance=item.instance,
        name=started.name,
        input=started.input,
        execution_id=item.execution_id + 1,
        version=wanted.version or started.orchestration_version,
        parent_instance=started.parent_instance,
        parent_execution_id=started.parent_execution_id,
        parent_event_id=started.parent_event_id,
        trace_id=started.trace_id,
        restored=restored,
    )
