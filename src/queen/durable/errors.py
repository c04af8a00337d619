"""What durable code can raise and catch.

QueenError
└─ DurableError                      code, status, retryable
   ├─ CallFailed                     inside a workflow: something it called failed
   │  ├─ ActivityFailed
   │  │  └─ ActivityTimedOut
   │  └─ ChildFailed
   ├─ NonRetryable                   raised by an activity: no retry policy tries again
   ├─ DirectCall                     an activity was called inside a workflow instead of asked for
   ├─ OrchestrationRaised            the code of an orchestration ended in an exception
   ├─ WorkflowFailed                 at the client: the awaited instance failed
   │  └─ WorkflowCancelled
   ├─ WorkflowTimedOut               at the client: it did not end in time
   ├─ WorkflowNotFound
   ├─ UpdateRefused                  the workflow refused an update, or ended without an answer
   ├─ QueryNotFound                  the workflow's code does not answer such a query
   ├─ StepNotFound                   there is no such step to go on from
   ├─ NothingToRetry                 the instance neither failed nor waits for other code
   ├─ NondeterminismDetected         code and history do not fit together
   └─ RegistrationError              a name, version or option that cannot be registered
"""

from __future__ import annotations

from queen.durable.events import ApplicationFailure, Failure
from queen.errors import QueenError

__all__ = [
    "ActivityFailed",
    "ActivityTimedOut",
    "CallFailed",
    "ChildFailed",
    "DirectCall",
    "DurableError",
    "NonRetryable",
    "NondeterminismDetected",
    "NothingToRetry",
    "OrchestrationRaised",
    "QueryNotFound",
    "RegistrationError",
    "StepNotFound",
    "UpdateRefused",
    "WorkflowCancelled",
    "WorkflowFailed",
    "WorkflowNotFound",
    "WorkflowTimedOut",
]

TIMEOUT_TEXT = "timeout: activity timed out"


class DurableError(QueenError):
    """Base of everything durable workflows raise. `code` is stable; branch on it, not on the text."""

    code = "DURABLE_ERROR"


class CallFailed(DurableError):
    """Something a workflow called ended in failure; `details` says how."""

    code = "CALL_FAILED"

    def __init__(self, details: Failure) -> None:
        super().__init__(details.display())
        self.details = details
        if self.traceback:
            self.__cause__ = RemoteError(self.traceback)

    @property
    def error_types(self) -> tuple[str, ...]:
        """The names of the class of the exception that was raised, and of its bases."""
        return self.details.error_types if isinstance(self.details, ApplicationFailure) else ()

    @property
    def progress(self) -> str | None:
        """What the activity last told with `heartbeat`, as JSON text."""
        return self.details.progress if isinstance(self.details, ApplicationFailure) else None

    @property
    def causes(self) -> tuple[str, ...]:
        """The exceptions behind the one that was raised, nearest first."""
        return self.details.causes if isinstance(self.details, ApplicationFailure) else ()

    @property
    def traceback(self) -> str:
        """The traceback of the place it was raised at."""
        return self.details.traceback if isinstance(self.details, ApplicationFailure) else ""


class RemoteError(Exception):
    """The traceback of a failure that happened elsewhere, shown as the cause of the error here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class ActivityFailed(CallFailed):
    """An activity raised."""

    code = "ACTIVITY_FAILED"


class ActivityTimedOut(ActivityFailed):
    """An activity, or all its attempts together, took longer than its retry policy allows."""

    code = "ACTIVITY_TIMED_OUT"

    def __init__(self) -> None:
        super().__init__(ApplicationFailure(message=TIMEOUT_TEXT))


class ChildFailed(CallFailed):
    """A sub-orchestration failed."""

    code = "CHILD_FAILED"


class NonRetryable(DurableError):
    """Raised by an activity: trying again cannot help, so no retry policy does."""

    code = "NON_RETRYABLE"


class DirectCall(DurableError, TypeError):
    """An activity was called inside a workflow, where it would run again in every replay."""

    code = "DIRECT_CALL"


class OrchestrationRaised(DurableError):
    """The code of an orchestration ended in an exception; the text says which."""

    code = "ORCHESTRATION_RAISED"


class WorkflowFailed(DurableError):
    """The instance a client waited for ended in failure; `details` has the causes and the traceback."""

    code = "WORKFLOW_FAILED"

    def __init__(self, message: str, details: Failure | None = None) -> None:
        super().__init__(message)
        self.details = details
        if isinstance(details, ApplicationFailure) and details.traceback:
            self.__cause__ = RemoteError(details.traceback)


class WorkflowCancelled(WorkflowFailed):
    """The instance a client waited for was cancelled."""

    code = "WORKFLOW_CANCELLED"


class WorkflowTimedOut(DurableError):
    """The instance did not end within the time the client was willing to wait."""

    code = "WORKFLOW_TIMED_OUT"
    status = 504
    retryable = True


class WorkflowNotFound(DurableError):
    """No instance has this id."""

    code = "WORKFLOW_NOT_FOUND"
    status = 404


class UpdateRefused(DurableError):
    """The workflow refused an update, or ended without answering it."""

    code = "UPDATE_REFUSED"
    status = 409


class QueryNotFound(DurableError):
    """The workflow's code does not answer a query of this name, or has not come to it yet."""

    code = "QUERY_NOT_FOUND"
    status = 404


class StepNotFound(DurableError, ValueError):
    """There is no such step to go on from."""

    code = "STEP_NOT_FOUND"
    status = 400


class NothingToRetry(DurableError):
    """The instance neither failed nor waits for other code."""

    code = "NOTHING_TO_RETRY"
    status = 409


class NondeterminismDetected(DurableError):
    """The code asked for something else than history recorded.

    `event_id`, `recorded` and `found` say where, what history has, and what the code did there; the exception
    the code raised there, if any, is the `__cause__`.
    """

    code = "NONDETERMINISM_DETECTED"

    def __init__(
        self, message: str, *, event_id: int | None = None, recorded: str | None = None, found: str | None = None
    ) -> None:
        super().__init__(message)
        self.event_id = event_id
        self.recorded = recorded
        self.found = found


class RegistrationError(DurableError, ValueError):
    """A name, version or option cannot be registered."""

    code = "REGISTRATION_REFUSED"
    status = 400
