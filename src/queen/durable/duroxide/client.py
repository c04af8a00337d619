"""The synchronous client."""

from __future__ import annotations

from typing import Any

from queen.durable import model
from queen.durable.codec import dump, dump_typed, load
from queen.durable.duroxide import records
from queen.durable.duroxide.providers import Store
from queen.durable.duroxide.records import (
    DeleteInstanceResult,
    ExecutionInfo,
    InstanceFilter,
    InstanceInfo,
    InstanceTree,
    OrchestrationResult,
    PruneOptions,
    PruneResult,
    QueueDepths,
    SystemMetrics,
    SystemStats,
)
from queen.durable.errors import DurableError, WorkflowTimedOut
from queen.durable.instances import Instances, InstanceState

_CALL_SECONDS = 60.0


class Client:
    """Start, watch and steer instances. Failures are RuntimeError."""

    def __init__(self, provider: Store) -> None:
        self._store = provider
        self._instances = Instances(provider.provider)

    # -- start and steer --------------------------------------------------------------------------------------

    def start_orchestration(self, instance_id: str, name: str, input: Any = None) -> None:
        """Start an instance; ignored when the id is taken."""
        self._call(self._instances.start(instance_id, name, dump(input)))

    def start_orchestration_versioned(self, instance_id: str, name: str, input: Any, version: str) -> None:
        """Start an instance of a certain version."""
        self._call(self._instances.start(instance_id, name, dump(input), version=version))

    def start_orchestration_typed(self, instance_id: str, name: str, input: Any = None) -> None:
        """As `start_orchestration`; a text input is taken as JSON."""
        self._call(self._instances.start(instance_id, name, dump_typed(input)))

    def start_orchestration_versioned_typed(
        self,
        instance_id: str,
        name: str,
        input: Any,
        version: str,
    ) -> None:
        """As `start_orchestration_versioned`; a text input is taken as JSON."""
        self._call(self._instances.start(instance_id, name, dump_typed(input), version=version))

    def cancel_instance(self, instance_id: str, reason: str | None = None) -> None:
        """Ask an instance to end."""
        self._call(self._instances.cancel(instance_id, reason))

    def raise_event(self, instance_id: str, event_name: str, data: Any = None) -> None:
        """Raise an external event."""
        self._call(self._instances.raise_event(instance_id, event_name, dump(data)))

    def raise_event_typed(self, instance_id: str, event_name: str, data: Any = None) -> None:
        """As `raise_event`; text data is taken as JSON."""
        self._call(self._instances.raise_event(instance_id, event_name, dump_typed(data)))

    def enqueue_event(self, instance_id: str, queue_name: str, data: Any = None) -> None:
        """Add a message to one of the instance's queues."""
        self._call(self._instances.enqueue_event(instance_id, queue_name, dump(data)))

    def enqueue_event_typed(self, instance_id: str, queue_name: str, data: Any = None) -> None:
        """As `enqueue_event`; text data is taken as JSON."""
        self._call(self._instances.enqueue_event(instance_id, queue_name, dump_typed(data)))

    # -- watch ------------------------------------------------------------------------------------------------

    def get_status(self, instance_id: str) -> OrchestrationResult:
        """Where an instance stands now."""
        return _result(self._call(self._instances.state(instance_id)))

    def wait_for_orchestration(self, instance_id: str, timeout_ms: int = 30_000) -> OrchestrationResult:
        """Wait for the end of an instance."""
        return _result(self._wait(self._instances.wait(instance_id, timeout_ms / 1000), timeout_ms))

    def wait_for_orchestration_typed(self, instance_id: str, timeout_ms: int = 30_000) -> Any:
        """The output of an instance once it has ended; raises its error."""
        result = self.wait_for_orchestration(instance_id, timeout_ms)
        if result.status == "Failed":
            raise Exception(result.error)
        return result.output

    def wait_for_status_change(
        self,
        instance_id: str,
        last_seen_version: int = 0,
        poll_interval_ms: int = 200,
        timeout_ms: int = 30_000,
    ) -> OrchestrationResult:
        """Wait until the custom status is newer than the version seen, or the instance ends."""
        work = self._instances.wait_for_status(instance_id, last_seen_version, timeout_ms / 1000)
        return _result(self._wait(work, timeout_ms))

    def get_kv_value(self, instance_id: str, key: str) -> str | None:
        """A key of an instance."""
        found = self._call(self._instances.provider.get_kv_value(instance_id, key))
        return None if found is None else found.value

    def get_kv_value_typed(self, instance_id: str, key: str) -> Any:
        """A key of an instance as a JSON value."""
        return load(self.get_kv_value(instance_id, key))

    def wait_for_kv_value(self, instance_id: str, key: str, timeout_ms: int = 30_000) -> str:
        """Wait until an instance has set a key."""
        try:
            found = self._wait(self._instances.wait_for_key(instance_id, key, timeout_ms / 1000), timeout_ms)
        except RuntimeError as error:
            if isinstance(error.__cause__, WorkflowTimedOut):
                raise TimeoutError(f"Timed out waiting for value '{key}' on instance '{instance_id}'") from error
            raise
        return str(found)

    def wait_for_kv_value_typed(self, instance_id: str, key: str, timeout_ms: int = 30_000) -> Any:
        """As `wait_for_kv_value`, as a JSON value."""
        return load(self.wait_for_kv_value(instance_id, key, timeout_ms))

    # -- look -------------------------------------------------------------------------------------------------

    def get_system_metrics(self) -> SystemMetrics:
        """Totals over the store."""
        found = self._call(self._instances.provider.get_system_metrics())
        return SystemMetrics(
            total_instances=found.instances,
            total_executions=found.executions,
            running_instances=found.running,
            completed_instances=found.completed,
            failed_instances=found.failed,
            total_events=found.events,
        )

    def get_orchestration_stats(self, instance_id: str) -> SystemStats | None:
        """Sizes of one instance; None when unknown."""
        found = self._call(self._instances.provider.get_instance_stats(instance_id))
        if found is None:
            return None
        return SystemStats(
            history_event_count=found.event_count,
            history_size_bytes=found.history_bytes,
            queue_pending_count=found.carried_events,
            kv_user_key_count=found.kv_keys,
            kv_total_value_bytes=found.kv_bytes,
        )

    def get_queue_depths(self) -> QueueDepths:
        """Messages nobody has locked."""
        found = self._call(self._instances.provider.get_queue_depths())
        return QueueDepths(found.orchestrator, found.worker, found.timer)

    def list_all_instances(self) -> list[str]:
        """Every instance id, newest first."""
        return self._list(model.InstanceQuery())

    def list_instances_by_status(self, status: str) -> list[str]:
        """Ids of instances whose current execution has this status."""
        if status not in ("Running", "Completed", "Failed", "ContinuedAsNew"):
            return []
        own: list[Any] = [status, *(own for own, word in _WORDS.items() if word == status)]
        return [each for word in own for each in self._list(model.InstanceQuery(status=word))]

    def get_instance_info(self, instance_id: str) -> InstanceInfo:
        """One instance."""
        found = self._call(self._instances.provider.get_instance_info(instance_id))
        if found is None:
            raise RuntimeError(f"get_instance_info: Instance {instance_id} not found")
        return InstanceInfo(
            instance_id=found.instance,
            orchestration_name=found.name,
            orchestration_version=found.version,
            current_execution_id=found.current_execution_id,
            status=_WORDS.get(found.status, found.status),
            output=found.output,
            created_at=found.created_at_ms,
            updated_at=found.updated_at_ms,
            parent_instance_id=found.parent_instance,
        )

    def get_execution_info(self, instance_id: str, execution_id: int) -> ExecutionInfo:
        """One execution of an instance."""
        found = self._call(self._instances.provider.get_execution_info(instance_id, execution_id))
        if found is None:
            raise RuntimeError(f"get_execution_info: Execution {execution_id} not found for instance {instance_id}")
        return ExecutionInfo(
            execution_id=found.execution_id,
            status=_WORDS.get(found.status, found.status),
            output=found.output,
            started_at=found.started_at_ms,
            completed_at=found.completed_at_ms,
            event_count=found.event_count,
        )

    def list_executions(self, instance_id: str) -> list[int]:
        """Ids of all executions, ascending."""
        return [each.execution_id for each in self._call(self._instances.provider.list_executions(instance_id))]

    def read_execution_history(self, instance_id: str, execution_id: int) -> list[records.Event]:
        """The events of one execution, in order."""
        found = self._call(self._instances.provider.read_with_execution(instance_id, execution_id))
        return [records.show_event(each) for each in found]

    def get_instance_tree(self, instance_id: str) -> InstanceTree:
        """An instance and all its descendants."""
        found = self._call(self._instances.provider.get_instance_tree(instance_id))
        return InstanceTree(root_id=found.root, all_ids=list(found.ids), size=len(found.ids))

    # -- clean up ---------------------------------------------------------------------------------------------

    def delete_instance(self, instance_id: str, force: bool = False) -> DeleteInstanceResult:  # noqa: FBT001, FBT002
        """Delete a root instance and its descendants."""
        return _deleted(self._call(self._instances.provider.delete_instance(instance_id, force=force)))

    def delete_instance_bulk(self, filter: InstanceFilter | None = None) -> DeleteInstanceResult:
        """Delete ended root instances that match."""
        return _deleted(self._call(self._instances.provider.delete_instances(_selection(filter))))

    def prune_executions(self, instance_id: str, options: PruneOptions | None = None) -> PruneResult:
        """Delete old executions of one instance."""
        return _pruned(self._call(self._instances.provider.prune_executions(instance_id, _prune(options))))

    def prune_executions_bulk(
        self,
        filter: InstanceFilter | None = None,
        options: PruneOptions | None = None,
    ) -> PruneResult:
        """Delete old executions of many instances."""
        work = self._instances.provider.prune_executions_bulk(_selection(filter), _prune(options))
        return _pruned(self._call(work))

    def _call(self, work: Any) -> Any:
        return self._store.call(work, _CALL_SECONDS)

    def _wait(self, work: Any, timeout_ms: int) -> Any:
        try:
            return self._store.call(work, timeout_ms / 1000 + _CALL_SECONDS)
        except DurableError as error:
            raise RuntimeError(str(error)) from error

    def _list(self, query: model.InstanceQuery) -> list[str]:
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = self._call(
                self._instances.provider.list_instances(
                    model.InstanceQuery(status=query.status, limit=1000, cursor=cursor)
                )
            )
            found += [each.instance for each in page.instances]
            cursor = page.next_cursor
            if cursor is None:
                return found


# What these are called where they come from: cancelled is failed, and nothing can be parked.
_WORDS = {"Cancelled": "Failed", "Parked": "Running"}


def _result(state: InstanceState) -> OrchestrationResult:
    return OrchestrationResult(
        status=_WORDS.get(state.status, state.status),
        output=load(state.output),
        error=state.error,
        custom_status=state.custom_status,
        custom_status_version=state.custom_status_version,
    )


def _selection(given: InstanceFilter | None) -> model.InstanceFilter:
    wanted = given or InstanceFilter()
    return model.InstanceFilter(
        instances=None if wanted.instance_ids is None else tuple(wanted.instance_ids),
        completed_before_ms=wanted.completed_before,
        limit=1000 if wanted.limit is None else wanted.limit,
    )


def _prune(given: PruneOptions | None) -> model.PruneOptions:
    wanted = given or PruneOptions()
    return model.PruneOptions(keep_last=wanted.keep_last, completed_before_ms=wanted.completed_before)


def _deleted(counts: model.DeleteCounts) -> DeleteInstanceResult:
    return DeleteInstanceResult(counts.instances, counts.executions, counts.events, counts.messages)


def _pruned(counts: model.PruneCounts) -> PruneResult:
    return PruneResult(counts.instances, counts.executions, counts.events)
