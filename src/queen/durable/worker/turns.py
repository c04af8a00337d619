"""Runs turns: fetches locked instances, replays their code, commits what came out of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Sequence
from functools import partial

from msgspec import structs

from queen.durable import events
from queen.durable.branches import keys_before
from queen.durable.errors import StepNotFound
from queen.durable.events import ApplicationFailure, Failure, InfrastructureFailure, PoisonFailure
from queen.durable.messages import (
    CancelMessage,
    ContinueAsNewMessage,
    ResetMessage,
    ResumeMessage,
    StartMessage,
)
from queen.durable.model import ExecutionMetadata, OrchestrationItem, TurnCommit
from queen.durable.provider import Provider, ProviderError
from queen.durable.raised import failure_of
from queen.durable.registry import DEFAULT_VERSION, RegisteredOrchestration, Registry
from queen.durable.replay.arrivals import Batch, Memory, admit, is_parked, open_batch, refused_children
from queen.durable.replay.reset import reset_commit
from queen.durable.replay.restore import restore
from queen.durable.replay.turn import Completed, Continued, Failed, Parked, Turn, fail_turn, run_turn
from queen.durable.worker import retries
from queen.durable.worker.counters import Counters
from queen.durable.worker.crash import CrashPoints
from queen.durable.worker.renewal import Renewal
from queen.durable.worker.running import RunningActivities
from queen.durable.worker.settings import WorkerSettings, renewal_interval
from queen.durable.worker.slots import SlotLoop
from queen.durable.worker.sticky import Sticky
from queen.durable.worker.threads import Threads

_log = logging.getLogger("queen.durable.worker")
_REFUSED_DELAY_MS = 50
_UNREADABLE_DELAY_MS = 100


class TurnLoop(SlotLoop[OrchestrationItem]):
    """The orchestration side of a worker."""

    name = "orchestration"

    def __init__(
        self,
        provider: Provider,
        registry: Registry,
        settings: WorkerSettings,
        counters: Counters,
        running: RunningActivities,
        crash: CrashPoints,
    ) -> None:
        super().__init__(provider, counters, settings.orchestration_concurrency)
        self._registry = registry
        self._settings = settings
        self._running = running
        self._crash = crash
        self._threads = Threads(settings.orchestration_concurrency, "queen-turn")
        self.sticky = Sticky(settings.sticky_instances, settings.sticky_events)
        self._owner = settings.node_id if self.sticky.is_on else None
        timeout, buffer = settings.orchestrator_lock_timeout_ms, settings.orchestrator_lock_renewal_buffer_ms
        self.renewal = Renewal(self._renew, renewal_interval(timeout, buffer))

    async def fetch(self, limit: int) -> list[OrchestrationItem]:
        """Lock work for the free slots."""
        items = await self._provider.fetch_orchestration_items(
            lock_timeout_ms=self._settings.orchestrator_lock_timeout_ms,
            poll_timeout_ms=self._settings.poll_timeout_ms,
            limit=limit,
            capability=self._settings.capability,
            handlers=self._registry.handlers,
            owner=self._owner,
        )
        self._counters.orch_dispatcher_items_fetched += len(items)
        return items

    async def fetch_unknown(self, limit: int) -> list[OrchestrationItem]:
        """Lock work that no live worker has code for."""
        return await self._provider.fetch_orchestration_items(
            lock_timeout_ms=self._settings.orchestrator_lock_timeout_ms,
            limit=limit,
            capability=self._settings.capability,
            unknown_for_ms=self._settings.unregistered_after_ms,
        )

    async def handle(self, item: OrchestrationItem) -> None:
        """Do the work of one item; whatever goes wrong ends here."""
        with self.renewal.holding(item.token, lambda: _log.warning("lost the lock of %s", item.instance)):
            try:
                await self._handle(item)
            except ProviderError as error:
                self._counters.provider_errors += 1
                _log.warning("turn of %s was not committed: %s", item.instance, error)
            except asyncio.CancelledError as stop:
                if _is_stopped():
                    await self._give_back_quietly(item)
                    raise
                await self._put_off(item, stop)
            except BaseException as error:  # noqa: BLE001 whatever a turn raises must not block or end the worker
                await self._put_off(item, error)

    def close(self) -> None:
        """Let go of the threads, and of what is in memory."""
        self._threads.close()
        self.sticky.clear()

    async def _handle(self, item: OrchestrationItem) -> None:
        memory = self.sticky.take(item)
        if memory is not None and not _is_plain(item):
            memory.close()
            memory = None
        try:
            item, memory = await self._complete(item, memory)
            await self._handle_complete(item, memory)
        except BaseException:
            if memory is not None:
                memory.close()
            raise

    async def _complete(
        self, item: OrchestrationItem, memory: Memory | None
    ) -> tuple[OrchestrationItem, Memory | None]:
        """The item with all events that are not in memory; a memory that does not fit is let go."""
        seen = 0 if memory is None else memory.last_event_id
        if item.left_out and seen < item.last_event_id:
            try:
                later = await self._provider.read_history_after(item.instance, item.execution_id, max(0, seen - 1))
            except ProviderError as error:
                if error.retryable or error.code == "closed":
                    raise
                return structs.replace(item, history_error=error.message), None
        else:
            later = item.history[max(0, seen - 1) :]
        if memory is None or seen == item.last_event_id:
            return structs.replace(item, history=later if memory is None else []), memory
        if later and later[0] == memory.last:
            return structs.replace(item, history=later[1:]), memory
        memory.close()
        whole = await self._provider.read_with_execution(item.instance, item.execution_id)
        return structs.replace(item, history=whole), None

    async def _handle_complete(self, item: OrchestrationItem, memory: Memory | None) -> None:
        if item.undecodable:
            _log.error("%s: %d undecodable messages set aside", item.instance, len(item.undecodable))
        if item.history_error is not None and item.attempt <= self._settings.max_attempts:
            _log.error("history of %s cannot be read: %s", item.instance, item.history_error)
            delay = min(_UNREADABLE_DELAY_MS * 2**item.attempt, 5_000)
            await self._provider.abandon_orchestration_item(item.token, delay_ms=delay)
            return
        if item.attempt > self._settings.max_attempts:
            await self._poison(item, memory)
            return
        batch = self._open(item, memory)
        if await self._steered(item, batch):
            return
        if batch is None:
            await self._nothing_to_do(item)
            return
        orchestration = self._registry.orchestration(batch.name, batch.version)
        if orchestration is None:
            await self._unregistered(item, batch)
            return
        await self._take_turn(item, batch, orchestration)

    async def _take_turn(self, item: OrchestrationItem, batch: Batch, orchestration: RegisteredOrchestration) -> None:
        seed = _seed() if batch.beginning is not None else None
        admit(batch, orchestration.version, seed, limited=orchestration.limited)
        self._crash.reach("turn.before")
        turn = await self._threads.run(partial(_guarded_turn, keep=self.sticky.is_on), batch, orchestration, item)
        self._crash.reach("turn.before_ack")
        try:
            committed = await self._ack(item, batch, turn)
        except BaseException:
            batch.memory.close()
            raise
        if committed:
            self._crash.reach("turn.after_ack")
            self.sticky.put(item, batch.ledger.execution_id, batch.memory)
        else:
            batch.memory.close()

    def _open(self, item: OrchestrationItem, memory: Memory | None) -> Batch | None:
        now_ms, version = self._provider.now_ms(), self._settings.runtime_version
        return open_batch(item, now_ms=now_ms, runtime_version=version, memory=memory)

    async def _put_off(self, item: OrchestrationItem, error: BaseException) -> None:
        """The turn ended in an error it should not have: it is tried again later, and poison in the end."""
        delay = self._settings.unregistered_delay_ms(item.attempt)
        _log.error("turn of %s failed, trying again in %d ms", item.instance, delay, exc_info=error)
        with contextlib.suppress(ProviderError):
            await self._provider.abandon_orchestration_item(item.token, delay_ms=delay)

    async def _steered(self, item: OrchestrationItem, batch: Batch | None) -> bool:
        """What an operator asked for without the code being asked: to begin again from a step, or to end."""
        for message in item.messages:
            if isinstance(message, ResetMessage) and not item.is_new and (batch is None or batch.beginning is None):
                return await self._reset(item, batch, message)
            if isinstance(message, CancelMessage) and message.force and batch is not None:
                admit(batch, batch.version or DEFAULT_VERSION, _seed())
                batch.memory.close()
                details = ApplicationFailure(message=message.reason, cause="cancelled")
                return await self._ack(item, batch, fail_turn(batch, details))
        return False

    async def _reset(self, item: OrchestrationItem, batch: Batch | None, wanted: ResetMessage) -> bool:
        recorded = await self._provider.read_with_execution(item.instance, item.execution_id)
        whole = self._open(structs.replace(item, history=recorded), None)
        if whole is not None:
            admit(whole, whole.version or DEFAULT_VERSION)
        history = [*recorded, *(whole.fresh if whole is not None else ())]
        try:
            keys = await keys_before(self._provider, item.instance, item.execution_id)
            suffix = f"~{item.execution_id + 1}"
            restored = restore(history, keys=keys, from_step=wanted.from_step, suffix=suffix)
        except StepNotFound as error:
            _log.warning("%s was not reset: %s", item.instance, error)
            return False
        if batch is not None:
            batch.memory.close()
        commit = reset_commit(item, whole, wanted, restored, history)
        await self._commit(item.token, commit)
        self._running.cancel(commit.cancelled_activities)
        return True

    async def _nothing_to_do(self, item: OrchestrationItem) -> None:
        if item.is_new and item.messages:
            await self._provider.abandon_orchestration_item(item.token, delay_ms=_UNREADABLE_DELAY_MS)
            return
        commit = TurnCommit(
            execution_id=item.execution_id,
            orchestrator_items=tuple(refused_children(item.messages, None)),
            dead_letters=item.undecodable,
        )
        await self._commit(item.token, commit)

    async def _unregistered(self, item: OrchestrationItem, batch: Batch) -> None:
        delay = self._settings.unregistered_delay_ms(item.attempt)
        version = batch.version or "newest"
        _log.warning(
            "orchestration %r (%s) is not registered here; %s waits %d ms", batch.name, version, item.instance, delay
        )
        await self._provider.abandon_orchestration_item(item.token, delay_ms=delay)

    async def _poison(self, item: OrchestrationItem, memory: Memory | None) -> None:
        details = PoisonFailure(
            what=f"orchestration {item.instance}",
            attempts=item.attempt,
            max_attempts=self._settings.max_attempts,
        )
        _log.error("%s: %s", item.instance, details.display())
        batch = None if item.history_error is not None else self._open(item, memory)
        if batch is None:
            await self._fail_unreadable(item, details)
            return
        admit(batch, batch.version or DEFAULT_VERSION)
        await self._ack(item, batch, fail_turn(batch, details))

    async def _fail_unreadable(self, item: OrchestrationItem, details: Failure) -> None:
        info = await self._provider.get_execution_info(item.instance, item.execution_id)
        if info is None or info.status not in ("Running", "Parked"):
            await self._commit(item.token, TurnCommit(execution_id=item.execution_id, dead_letters=item.undecodable))
            return
        failed = events.OrchestrationFailed(
            event_id=info.event_count + 1,
            instance=item.instance,
            execution_id=item.execution_id,
            timestamp_ms=self._provider.now_ms(),
            version=self._settings.runtime_version,
            details=details,
        )
        commit = TurnCommit(
            execution_id=item.execution_id,
            history_delta=(failed,),
            metadata=ExecutionMetadata(status="Failed", output=details.display()),
            dead_letters=item.undecodable,
        )
        await self._commit(item.token, commit)
        self._counters.orchestration_failed(details)

    async def _ack(self, item: OrchestrationItem, batch: Batch, turn: Turn) -> bool:
        owner = self._owner if batch.memory.machine is not None else None
        commit = structs.replace(turn.commit, dead_letters=item.undecodable, owner=owner)
        if isinstance(turn.outcome, Parked):
            commit = self._to_be_resumed(item, batch, commit)
        try:
            await self._commit(item.token, commit)
        except ProviderError as error:
            if error.retryable or error.code in ("lock_lost", "closed"):
                raise
            _log.exception("turn of %s was refused by the store", item.instance)
            return await self._record_refusal(item, batch, error)
        self._running.cancel(commit.cancelled_activities)
        self._count(batch, turn)
        return True

    def _to_be_resumed(self, item: OrchestrationItem, batch: Batch, commit: TurnCommit) -> TurnCommit:
        """A parked instance is tried again after a while, longer each time: its code may be back by then."""
        tries = [each.attempt for each in item.messages if isinstance(each, ResumeMessage)]
        if not tries and is_parked(batch.history):
            return commit
        attempt = max(tries, default=0) + 1
        at = self._provider.now_ms() + self._settings.unregistered_delay_ms(attempt)
        again = ResumeMessage(instance=item.instance, attempt=attempt, not_before_ms=at)
        return structs.replace(commit, orchestrator_items=(*commit.orchestrator_items, again))

    async def _record_refusal(self, item: OrchestrationItem, batch: Batch, refusal: ProviderError) -> bool:
        details = InfrastructureFailure(operation=refusal.operation, message=refusal.message)
        batch.memory.close()
        batch.ledger.last_event_id = batch.stored or len(batch.fresh)
        if batch.stored:
            batch.fresh.clear()
        turn = fail_turn(batch, details)
        try:
            await self._commit(item.token, turn.commit)
        except ProviderError:
            await self._provider.abandon_orchestration_item(item.token, delay_ms=_REFUSED_DELAY_MS)
            return False
        self._count(batch, turn)
        return True

    async def _commit(self, token: str, commit: TurnCommit) -> None:
        await retries.commit(lambda: self._provider.ack_orchestration_item(token, commit), self._counters)

    def _count(self, batch: Batch, turn: Turn) -> None:
        counters = self._counters
        if batch.beginning is not None:
            counters.orch_starts += 1
        counters.suborchestration_calls += sum(
            isinstance(each, events.SubOrchestrationScheduled) for each in turn.commit.history_delta
        )
        match turn.outcome:
            case Completed():
                counters.orch_completions += 1
            case Failed(details):
                counters.orchestration_failed(details)
                _log.warning("%s failed: %s", batch.ledger.instance, details.display())
            case Continued():
                counters.orch_continue_as_new += 1
            case Parked(reason) if turn.commit.history_delta:
                counters.orch_configuration_errors += 1
                _log.error(
                    "%s is parked until code that fits its history is back: %s",
                    batch.ledger.instance,
                    f"{reason}\n{turn.outcome.traceback}".rstrip(),
                )
            case Parked():
                pass
            case None:
                pass

    async def _renew(self, tokens: Sequence[str]) -> Sequence[str]:
        lost: list[str] = []
        for token in tokens:
            try:
                await self._provider.renew_orchestration_item_lock(token, self._settings.orchestrator_lock_timeout_ms)
            except ProviderError as error:
                if error.code == "lock_lost":
                    lost.append(token)
        return lost

    async def _give_back_quietly(self, item: OrchestrationItem) -> None:
        try:
            await self._provider.abandon_orchestration_item(item.token, ignore_attempt=True)
        except ProviderError:
            return


def _is_plain(item: OrchestrationItem) -> bool:
    """Whether a turn needs nothing of the history but what is in memory: no operator steers it, none has failed."""
    special = ResetMessage, ResumeMessage, StartMessage, ContinueAsNewMessage, CancelMessage
    return item.attempt == 1 and not any(isinstance(each, special) for each in item.messages)


def _is_stopped() -> bool:
    """Whether the worker, rather than the code of a workflow, cancelled the running task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _guarded_turn(batch: Batch, orchestration: RegisteredOrchestration, item: OrchestrationItem, *, keep: bool) -> Turn:
    try:
        return run_turn(batch, orchestration.entry, kv=item.kv, new_guid=lambda: str(uuid.uuid4()), keep=keep)
    except Exception:
        raise
    except BaseException as panic:  # noqa: BLE001 it would end the thread, or look like the end of the worker
        return fail_turn(batch, failure_of(panic, f"{type(panic).__name__}: {panic}", "panicked"))


def _seed() -> str:
    return uuid.uuid4().hex[:16]
