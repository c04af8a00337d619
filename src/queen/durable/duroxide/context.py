"""The orchestration context of the generator style: every `schedule_*` returns a description to be yielded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from queen.durable.codec import dump, dump_typed, load
from queen.durable.replay import syscalls
from queen.durable.replay.machine import Machine
from queen.durable.tracing import Traces, trace

Description = dict[str, Any]


class ScheduledTask(dict[str, Any]):
    """The description of an activity; `with_tag` sends it to workers that take the tag."""

    def with_tag(self, tag: str) -> Self:
        """Set the tag and return the same description."""
        self["tag"] = tag
        return self


class OrchestrationContext(Traces):
    """What a generator orchestration gets as its first argument."""

    def __init__(self, ctx_info: Mapping[str, Any], machine: Machine | None = None) -> None:
        self.instance_id: str = ctx_info.get("instanceId", "")
        self.execution_id: int = ctx_info.get("executionId", 1)
        self.orchestration_name: str = ctx_info.get("orchestrationName", "")
        self.orchestration_version: str = ctx_info.get("orchestrationVersion", "")
        self._machine = machine

    # -- to be yielded ----------------------------------------------------------------------------------------

    def schedule_activity(
        self,
        name: str,
        input: Any = None,
        session_id: str | None = None,
    ) -> ScheduledTask:
        """Run an activity, on a session's worker when one is named."""
        if session_id is not None:
            return self.schedule_activity_on_session(name, input, session_id)
        return ScheduledTask(type="activity", name=name, input=dump(input))

    def schedule_activity_on_session(self, name: str, input: Any, session_id: str) -> ScheduledTask:
        """Run an activity on the worker that owns the session."""
        return ScheduledTask(type="activityWithSession", name=name, input=dump(input), sessionId=session_id)

    def schedule_activity_with_retry(self, name: str, input: Any, retry: Mapping[str, Any]) -> ScheduledTask:
        """Run an activity again after failures."""
        return ScheduledTask(type="activityWithRetry", name=name, input=dump(input), retry=_retry(retry))

    def schedule_activity_with_retry_on_session(
        self,
        name: str,
        input: Any,
        retry: Mapping[str, Any],
        session_id: str,
    ) -> ScheduledTask:
        """Run an activity again after failures, on the worker that owns the session."""
        return ScheduledTask(
            type="activityWithRetryOnSession",
            name=name,
            input=dump(input),
            retry=_retry(retry),
            sessionId=session_id,
        )

    def schedule_timer(self, delay_ms: int) -> Description:
        """Wait durably."""
        return {"type": "timer", "delayMs": delay_ms}

    def wait_for_event(self, name: str) -> Description:
        """Wait for an external event raised from now on."""
        return {"type": "waitEvent", "name": name}

    def dequeue_event(self, queue_name: str) -> Description:
        """Take the next message of one of the instance's queues."""
        return {"type": "dequeueEvent", "queueName": queue_name}

    def schedule_sub_orchestration(self, name: str, input: Any = None) -> Description:
        """Run a child and wait for its result."""
        return {"type": "subOrchestration", "name": name, "input": dump(input)}

    def schedule_sub_orchestration_with_id(self, name: str, instance_id: str, input: Any = None) -> Description:
        """Run a child under an id of your choice."""
        return {"type": "subOrchestrationWithId", "name": name, "instanceId": instance_id, "input": dump(input)}

    def schedule_sub_orchestration_versioned(
        self,
        name: str,
        version: str | None = None,
        input: Any = None,
    ) -> Description:
        """Run a certain version of a child."""
        return {"type": "subOrchestrationVersioned", "name": name, "version": version, "input": dump(input)}

    def schedule_sub_orchestration_versioned_with_id(
        self,
        name: str,
        version: str | None,
        instance_id: str,
        input: Any = None,
    ) -> Description:
        """Run a certain version of a child under an id of your choice."""
        return {
            "type": "subOrchestrationVersionedWithId",
            "name": name,
            "version": version,
            "instanceId": instance_id,
            "input": dump(input),
        }

    def start_orchestration(self, name: str, instance_id: str, input: Any = None) -> Description:
        """Start another orchestration and forget about it."""
        return {"type": "orchestration", "name": name, "instanceId": instance_id, "input": dump(input)}

    def start_orchestration_versioned(
        self,
        name: str,
        version: str | None,
        instance_id: str,
        input: Any = None,
    ) -> Description:
        """Start a certain version of another orchestration and forget about it."""
        return {
            "type": "orchestrationVersioned",
            "name": name,
            "version": version,
            "instanceId": instance_id,
            "input": dump(input),
        }

    def new_guid(self) -> Description:
        """A random id that stays the same in replay."""
        return {"type": "newGuid"}

    def utc_now(self) -> Description:
        """The time in ms that stays the same in replay."""
        return {"type": "utcNow"}

    def continue_as_new(self, input: Any = None) -> Description:
        """Start over with a fresh history."""
        return {"type": "continueAsNew", "input": dump(input)}

    def continue_as_new_versioned(self, input: Any, version: str | None = None) -> Description:
        """Start over with a fresh history, as a certain version."""
        return {"type": "continueAsNewVersioned", "input": dump(input), "version": version}

    def all(self, tasks: Sequence[Description]) -> Description:
        """Wait for all; results as `{"ok": value}` or `{"err": text}` in order."""
        return {"type": "join", "tasks": list(tasks)}

    def race(self, *tasks: Description) -> Description:
        """Wait for the first of two; `{"index": 0 or 1, "value": ...}`."""
        return {"type": "select", "tasks": list(tasks)}

    def get_kv_value_from_instance(self, instance_id: str, key: str) -> ScheduledTask:
        """Read a key of another instance."""
        wanted = dump({"instance_id": instance_id, "key": key})
        return ScheduledTask(type="activity", name=syscalls.GET_KV_VALUE, input=wanted)

    # -- typed twins: text inputs pass through unquoted -------------------------------------------------------

    def schedule_activity_typed(
        self,
        name: str,
        input: Any = None,
        result_type: type | None = None,
    ) -> ScheduledTask:
        """As `schedule_activity`; a text input is taken as JSON."""
        return ScheduledTask(type="activity", name=name, input=dump_typed(input), _typed=True)

    def schedule_activity_on_session_typed(
        self,
        name: str,
        input: Any = None,
        session_id: str | None = None,
    ) -> ScheduledTask:
        """As `schedule_activity_on_session`; a text input is taken as JSON."""
        return ScheduledTask(
            type="activityWithSession", name=name, input=dump_typed(input), sessionId=session_id, _typed=True
        )

    def schedule_activity_with_retry_typed(
        self,
        name: str,
        input: Any = None,
        retry: Mapping[str, Any] | None = None,
    ) -> ScheduledTask:
        """As `schedule_activity_with_retry`; a text input is taken as JSON."""
        return ScheduledTask(
            type="activityWithRetry", name=name, input=dump_typed(input), retry=_retry(retry or {}), _typed=True
        )

    def schedule_activity_with_retry_on_session_typed(
        self,
        name: str,
        input: Any = None,
        retry: Mapping[str, Any] | None = None,
        session_id: str | None = None,
    ) -> ScheduledTask:
        """As `schedule_activity_with_retry_on_session`; a text input is taken as JSON."""
        task = self.schedule_activity_with_retry_typed(name, input, retry)
        task.update(type="activityWithRetryOnSession", sessionId=session_id)
        return task

    def schedule_sub_orchestration_typed(
        self,
        name: str,
        input: Any = None,
        result_type: type | None = None,
    ) -> Description:
        """As `schedule_sub_orchestration`; a text input is taken as JSON."""
        return {"type": "subOrchestration", "name": name, "input": dump_typed(input), "_typed": True}

    def schedule_sub_orchestration_with_id_typed(
        self,
        name: str,
        instance_id: str,
        input: Any = None,
    ) -> Description:
        """As `schedule_sub_orchestration_with_id`; a text input is taken as JSON."""
        plain = self.schedule_sub_orchestration_with_id(name, instance_id)
        return {**plain, "input": dump_typed(input), "_typed": True}

    def wait_for_event_typed(self, name: str) -> Description:
        """As `wait_for_event`."""
        return {**self.wait_for_event(name), "_typed": True}

    def dequeue_event_typed(self, queue_name: str) -> Description:
        """As `dequeue_event`."""
        return {**self.dequeue_event(queue_name), "_typed": True}

    def start_orchestration_typed(self, name: str, instance_id: str, input: Any = None) -> Description:
        """As `start_orchestration`; a text input is taken as JSON."""
        return {**self.start_orchestration(name, instance_id), "input": dump_typed(input)}

    def start_orchestration_versioned_typed(
        self,
        name: str,
        version: str | None,
        instance_id: str,
        input: Any = None,
    ) -> Description:
        """As `start_orchestration_versioned`; a text input is taken as JSON."""
        return {**self.start_orchestration_versioned(name, version, instance_id), "input": dump_typed(input)}

    def continue_as_new_typed(self, input: Any = None) -> Description:
        """As `continue_as_new`; a text input is taken as JSON."""
        return {"type": "continueAsNew", "input": dump_typed(input)}

    def all_typed(self, tasks: Sequence[Description]) -> Description:
        """As `all`, with plain values for what went well."""
        return {**self.all(tasks), "_typed_all": True}

    def race_typed(self, *tasks: Description) -> Description:
        """As `race`."""
        return {**self.race(*tasks), "_typed_race": True}

    # -- not yielded ------------------------------------------------------------------------------------------

    def set_custom_status(self, status: str) -> None:
        """Show clients where the orchestration stands."""
        self._running.set_status(status)

    def reset_custom_status(self) -> None:
        """Clear the custom status."""
        self._running.set_status(None)

    def get_custom_status(self) -> str | None:
        """The custom status, also from before a continue-as-new."""
        return self._running.custom_status

    def set_kv_value(self, key: str, value: str) -> None:
        """Set a key of this instance."""
        self._running.set_key(key, value)

    def get_kv_value(self, key: str) -> str | None:
        """A key of this instance, also from before a continue-as-new."""
        return self._running.keys.get(key)

    def clear_kv_value(self, key: str) -> None:
        """Forget a key of this instance."""
        self._running.clear_key(key)

    def clear_all_kv_values(self) -> None:
        """Forget every key of this instance."""
        self._running.clear_keys()

    def get_kv_all_values(self) -> dict[str, str]:
        """Every key of this instance with its value."""
        return self._running.keys.all()

    def get_kv_all_keys(self) -> list[str]:
        """Every key of this instance."""
        return list(self._running.keys.all())

    def get_kv_length(self) -> int:
        """How many keys this instance has."""
        return len(self._running.keys)

    def prune_kv_values_updated_before(self, cutoff_ms: int) -> int:
        """Forget keys last written before `cutoff_ms`; returns how many."""
        stale = self._running.keys.updated_before(cutoff_ms)
        for key in stale:
            self._running.clear_key(key)
        return len(stale)

    @property
    def _running(self) -> Machine:
        if self._machine is None:
            raise RuntimeError("this context does not belong to a running orchestration")
        return self._machine

    def _trace(self, level: str, message: str) -> None:
        if self._machine is None or not self._machine.replaying:
            trace(level, message, self.instance_id, self.execution_id, self.orchestration_name)


def parse_result(text: str | None) -> Any:
    """The JSON value, or the text itself when it is not JSON."""
    return load(text)


def _retry(retry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "maxAttempts": retry.get("max_attempts", retry.get("maxAttempts", 3)),
        "timeoutMs": retry.get("timeout_ms", retry.get("timeoutMs")),
        "totalTimeoutMs": retry.get("total_timeout_ms", retry.get("totalTimeoutMs")),
        "backoff": retry.get("backoff"),
    }
