"""What an activity sees of the workflow that called it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from queen.durable.codec import decode, encode, trace_uuid
from queen.durable.messages import ActivityTask
from queen.durable.model import QueuePush
from queen.durable.tracing import Traces, trace


class ActivityContext(Traces):
    """The first argument of a generator-style activity; async-style ones ask for it by annotation."""

    def __init__(self, ctx_info: Mapping[str, Any], client: Callable[[], Any] | None = None) -> None:
        self.instance_id: str = ctx_info.get("instanceId", "")
        self.execution_id: int = ctx_info.get("executionId", 1)
        self.activity_id: int = ctx_info.get("activityId", 0)
        self.orchestration_name: str = ctx_info.get("orchestrationName", "")
        self.orchestration_version: str = ctx_info.get("orchestrationVersion", "")
        self.activity_name: str = ctx_info.get("activityName", "")
        self.worker_id: str = ctx_info.get("workerId", "")
        self.session_id: str | None = ctx_info.get("sessionId")
        self.attempt: int = ctx_info.get("attempt", 1)
        self.trace_id: str | None = ctx_info.get("traceId")
        self._key: str = ctx_info.get("key") or f"{self.instance_id}:{self.execution_id}:{self.activity_id}"
        self.pushes: list[QueuePush] = []
        self.progress_text: str | None = ctx_info.get("progress")
        self.on_heartbeat: Callable[[str], None] | None = None
        self.connection: Any = None
        self._tag: str | None = ctx_info.get("tag")
        self._client = client
        self._cancelled = threading.Event()

    @property
    def idempotency_key(self) -> str:
        """The same text for every attempt of this activity, those of a retry policy included.

        Hand it to systems that deduplicate. An instance that was deleted and made again has other keys.
        """
        return self._key

    def tag(self) -> str | None:
        """The tag that routed the activity here."""
        return self._tag

    def is_cancelled(self) -> bool:
        """Whether the result is no longer wanted; long activities look now and then and return early."""
        return self._cancelled.is_set()

    @property
    def progress(self) -> Any:
        """What an earlier attempt last told with `heartbeat`, or None: go on from there."""
        return None if self.progress_text is None else decode(self.progress_text, Any)

    def heartbeat(self, progress: object) -> None:
        """Tell how far this activity is; an attempt after a failure or a crash reads it as `progress`.

        It is stored at most once a second, so a crash may lose the last second of it.
        """
        self.progress_text = encode(progress)
        if self.on_heartbeat is not None:
            self.on_heartbeat(self.progress_text)

    def get_client(self) -> Any:
        """A client on the same store."""
        if self._client is None:
            raise RuntimeError("this context does not belong to a running activity")
        return self._client()

    def push(
        self, queue: str, payload: object, *, partition: str = "Default", transaction_id: str | None = None
    ) -> None:
        """Push to a Queen queue in the same transaction that records this activity's result.

        Nothing is pushed when the activity fails or its result comes too late. PostgreSQL only.
        """
        own = f"{self.idempotency_key}:{len(self.pushes)}"
        self.pushes.append(
            QueuePush(
                queue=queue,
                payload=encode(payload),
                partition=partition,
                transaction_id=transaction_id or own,
                trace_id=trace_uuid(self.trace_id),
            )
        )

    def cancel(self) -> None:
        """Tell the activity to stop (called by the worker)."""
        self._cancelled.set()

    def _trace(self, level: str, message: str) -> None:
        trace(level, message, self.instance_id, self.execution_id, self.activity_name)


def activity_context(
    task: ActivityTask, *, worker_id: str, attempt: int, client: Callable[[], Any] | None
) -> ActivityContext:
    """The context of one run of an activity."""
    return ActivityContext(
        {
            "instanceId": task.instance,
            "executionId": task.execution_id,
            "activityId": task.activity_id,
            "orchestrationName": task.orchestration_name,
            "orchestrationVersion": task.orchestration_version,
            "activityName": task.name,
            "workerId": worker_id,
            "sessionId": task.session_id,
            "tag": task.tag,
            "attempt": attempt,
            "traceId": task.trace_id,
            "progress": task.progress,
            "key": f"{task.instance}:{task.seed or task.execution_id}:{task.first_id or task.activity_id}",
        },
        client,
    )
