"""Runs activities: sync ones on threads, async ones on the loop; results go back in one transaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from queen.durable import messages
from queen.durable.activity_context import ActivityContext, activity_context
from queen.durable.codec import dump, load
from queen.durable.events import ApplicationFailure, Failure, PoisonFailure
from queen.durable.messages import ActivityTask, OrchestratorMessage
from queen.durable.model import ActivityKey, LockedTask, SessionConfig, TagFilter
from queen.durable.provider import Provider, ProviderError
from queen.durable.raised import failure_of
from queen.durable.registry import RegisteredActivity, Registry
from queen.durable.replay.syscalls import GET_KV_VALUE, TAKE_PLACE
from queen.durable.worker import retries
from queen.durable.worker.counters import Counters
from queen.durable.worker.crash import CrashPoints
from queen.durable.worker.outcomes import Outcome, call_async, call_sync
from queen.durable.worker.progress import Progress
from queen.durable.worker.renewal import Renewal
from queen.durable.worker.running import RunningActivities
from queen.durable.worker.settings import WorkerSettings, renewal_interval
from queen.durable.worker.slots import SlotLoop
from queen.durable.worker.threads import Threads

_log = logging.getLogger("queen.durable.worker")


class _Undone(Exception):
    """The step raised: its transaction is rolled back."""


class ActivityLoop(SlotLoop[LockedTask]):
    """The activity side of a worker."""

    name = "activity"

    def __init__(
        self,
        provider: Provider,
        registry: Registry,
        settings: WorkerSettings,
        counters: Counters,
        running: RunningActivities,
        crash: CrashPoints,
        client: Callable[[], Any],
    ) -> None:
        super().__init__(provider, counters, settings.worker_concurrency)
        self._registry = registry
        self._settings = settings
        self._running = running
        self._crash = crash
        self._client = client
        self._threads = Threads(2 * settings.worker_concurrency, "queen-activity")
        self._sessions: dict[str, int] = {}
        self._instances: dict[str, str] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._end_listening = provider.on_cancelled(self._look_again)
        self.session_seen = asyncio.Event()
        timeout, buffer = settings.worker_lock_timeout_ms, settings.worker_lock_renewal_buffer_ms
        self.renewal = Renewal(self._renew, renewal_interval(timeout, buffer))

    async def fetch(self, limit: int) -> list[LockedTask]:
        """Lock work for the free slots."""
        items = await self._provider.fetch_work_items(
            lock_timeout_ms=self._settings.worker_lock_timeout_ms,
            poll_timeout_ms=self._settings.poll_timeout_ms,
            limit=limit,
            session=self._session(),
            tags=self._settings.tags,
            names=self._registry.activities,
        )
        self._counters.worker_dispatcher_items_fetched += len(items)
        return items

    async def fetch_unknown(self, limit: int) -> list[LockedTask]:
        """Lock work that no live worker has code for."""
        return await self._provider.fetch_work_items(
            lock_timeout_ms=self._settings.worker_lock_timeout_ms,
            limit=limit,
            tags=TagFilter.any(),
            unknown_for_ms=self._settings.unregistered_after_ms,
        )

    async def handle(self, item: LockedTask) -> None:
        """Do the work of one item; whatever goes wrong ends here."""
        session = item.task.session_id
        if session is not None:
            self.session_seen.set()
            self._sessions[session] = self._sessions.get(session, 0) + 1
        self._instances[item.token] = item.task.instance
        try:
            await self._handle(item)
        except ProviderError as error:
            self._counters.provider_errors += 1
            _log.warning("result of activity %r of %s was not stored: %s", item.task.name, item.task.instance, error)
        except asyncio.CancelledError:
            await self._give_back_quietly(item)
            raise
        finally:
            del self._instances[item.token]
            if session is not None:
                self._leave_session(session)

    def _look_again(self, concerned: Callable[[str], bool]) -> None:
        """Some activities of these instances were cancelled: whose lock is gone is told so now."""
        tokens = [token for token, instance in self._instances.items() if concerned(instance)]
        if tokens:
            looking = asyncio.create_task(self.renewal.renew(tokens))
            self._looking.add(looking)
            looking.add_done_callback(self._looking.discard)

    def close(self) -> None:
        """Let go of the threads; a sync activity still running is not waited for."""
        self._end_listening()
        self._threads.close()

    async def _handle(self, item: LockedTask) -> None:
        task = item.task
        if item.attempt > self._settings.max_attempts:
            what = f"activity {task.name} of {task.instance}"
            details = PoisonFailure(what=what, attempts=item.attempt, max_attempts=self._settings.max_attempts)
            await self._finish(item, _failed(task, details), details)
        elif item.decode_error is not None:
            await self._wait_for_other_worker(item, item.decode_error)
        elif task.name == GET_KV_VALUE:
            await self._finish(item, _completed(task, await self._read_key(task)), None)
        elif task.name == TAKE_PLACE:
            await self._finish(item, _completed(task, "null"), None)
        elif (activity := self._registry.activity(task.name)) is None:
            await self._wait_for_other_worker(item, "it is not registered here")
        else:
            await self._run(item, activity)

    async def _run(self, item: LockedTask, activity: RegisteredActivity) -> None:
        task = item.task
        self._crash.reach("activity.before")
        worker_id = self._settings.node_id
        context = activity_context(task, worker_id=worker_id, attempt=item.attempt, client=self._client)
        progress = Progress(
            lambda text: self._provider.record_progress(item.token, structs.replace(task, progress=text))
        )
        context.on_heartbeat = progress.tell
        call = self._call(activity, context, item)
        call.add_done_callback(lambda _: progress.close())
        over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def end(*, cancelled: bool) -> None:
            if not over.done():
                over.set_result(cancelled)

        def cancel() -> None:
            context.cancel()
            end(cancelled=True)
            if activity.is_async:
                call.cancel()

        call.add_done_callback(lambda _: end(cancelled=False))
        key = ActivityKey(task.instance, task.execution_id, task.activity_id)
        with self._running.entered(key, cancel), self.renewal.holding(item.token, cancel):
            try:
                if await over:
                    await self._let_go(call)
                    return
            except asyncio.CancelledError:
                context.cancel()
                call.cancel()
                raise
            await self._report(item, context, call)

    async def _let_go(self, call: asyncio.Future[Outcome]) -> None:
        await asyncio.wait((call,), timeout=self._settings.cancellation_grace_ms / 1000)
        if not call.done():
            _log.warning("an activity goes on after it was cancelled; its result will be ignored")

    async def _report(self, item: LockedTask, context: ActivityContext, call: asyncio.Future[Outcome]) -> None:
        ended = Outcome(error=asyncio.CancelledError()) if call.cancelled() else call.result()
        if ended.stored:
            self._counters.activity_success += 1
            return
        if ended.undecided is not None:
            await self._give_back_quietly(item)
            raise ended.undecided
        self._crash.reach("activity.before_ack")
        if ended.error is None:
            await self._finish(item, _completed(item.task, ended.result), None, context)
        else:
            details = self._failure(item, context, ended.error)
            await self._finish(item, _failed(item.task, details), details)
        self._crash.reach("activity.after_ack")

    def _failure(self, item: LockedTask, context: ActivityContext, error: BaseException) -> ApplicationFailure:
        task = item.task
        _log.warning(
            "activity %r of %s (step %d, attempt %d) raised %s: %s",
            task.name,
            task.instance,
            task.activity_id,
            item.attempt,
            type(error).__name__,
            error,
            exc_info=error,
            extra={"instance_id": task.instance, "execution_id": task.execution_id, "orchestration": task.name},
        )
        text = f"Activity '{task.name}' call failed: {type(error).__name__}: {error}"
        return failure_of(error, text, progress=context.progress_text)

    def _call(
        self, activity: RegisteredActivity, context: ActivityContext, item: LockedTask
    ) -> asyncio.Future[Outcome]:
        text = item.task.input
        if activity.in_transaction:
            return asyncio.create_task(self._call_in_transaction(activity, context, item))
        if activity.is_async:
            return asyncio.create_task(call_async(activity, context, text))
        return self._threads.run(call_sync, activity, context, text)

    async def _call_in_transaction(
        self, activity: RegisteredActivity, context: ActivityContext, item: LockedTask
    ) -> Outcome:
        """What the step writes and its result are committed together; what it raises undoes what it wrote."""
        ended = Outcome()
        try:
            async with self._provider.transaction(item.token) as step:
                context.connection = step.connection
                ended = await call_async(activity, context, item.task.input)
                if ended.error is not None:
                    raise _Undone
                self._crash.reach("activity.before_ack")
                await step.finish(_completed(item.task, ended.result))
            self._crash.reach("activity.after_ack")
        except _Undone:
            return ended
        except ProviderError as error:
            undecided = error.retryable or error.code == "lock_lost"
            return Outcome(error=error, undecided=error if undecided else None)
        return Outcome(ended.result, stored=True)

    async def _finish(
        self,
        item: LockedTask,
        completion: OrchestratorMessage,
        details: Failure | None,
        context: ActivityContext | None = None,
    ) -> None:
        pushes = tuple(context.pushes) if context is not None else ()
        try:
            await retries.commit(
                lambda: self._provider.ack_work_item(item.token, completion, pushes=pushes), self._counters
            )
        except ProviderError as error:
            if error.code == "lock_lost":
                _log.info("result of activity %r of %s is no longer wanted", item.task.name, item.task.instance)
                return
            if not error.retryable and pushes:
                await self._refuse(item, error)
                return
            raise
        if details is None:
            self._counters.activity_success += 1
        else:
            self._counters.activity_failed(details)

    async def _refuse(self, item: LockedTask, refusal: ProviderError) -> None:
        """The store does not take what the activity pushed: that is how the activity failed."""
        text = f"Activity '{item.task.name}' call failed: {refusal.message}"
        details = ApplicationFailure(message=text)
        await self._finish(item, _failed(item.task, details), details)

    async def _wait_for_other_worker(self, item: LockedTask, why: str) -> None:
        delay = self._settings.unregistered_delay_ms(item.attempt)
        _log.warning("activity %r of %s waits %d ms: %s", item.task.name, item.task.instance, delay, why)
        await self._provider.abandon_work_item(item.token, delay_ms=delay)

    async def _read_key(self, task: ActivityTask) -> str:
        wanted = load(task.input)
        found = await self._provider.get_kv_value(wanted["instance_id"], wanted["key"])
        return dump(None if found is None else found.value)

    def _session(self) -> SessionConfig | None:
        if len(self._sessions) >= self._settings.max_sessions_per_runtime:
            return None
        return SessionConfig(self._settings.node_id, self._settings.session_lock_timeout_ms)

    def _leave_session(self, session: str) -> None:
        left = self._sessions[session] - 1
        if left:
            self._sessions[session] = left
        else:
            del self._sessions[session]

    async def _renew(self, tokens: Sequence[str]) -> Sequence[str]:
        return await self._provider.renew_work_item_locks(tokens, self._settings.worker_lock_timeout_ms)

    async def _give_back_quietly(self, item: LockedTask) -> None:
        try:
            await self._provider.abandon_work_item(item.token, ignore_attempt=True)
        except ProviderError:
            return


def _completed(task: ActivityTask, result: str) -> OrchestratorMessage:
    return messages.ActivityCompletedMessage(
        instance=task.instance, execution_id=task.execution_id, activity_id=task.activity_id, result=result
    )


def _failed(task: ActivityTask, details: Failure) -> OrchestratorMessage:
    return messages.ActivityFailedMessage(
        instance=task.instance, execution_id=task.execution_id, activity_id=task.activity_id, details=details
    )
