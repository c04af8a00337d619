"""What durable code can raise and catch.

QueenError
└─ DurableError                      code, status, retryable
   ├─ CallFailed                     inside a workflow: something it called failed
   │  ├─ ActivityFailed
   │  │  └─ ActivityTimedOut
   │  └─ ChildFailed
   ├─ OrchestrationRaised            the code of an orchestration ended in an exception
   ├─ WorkflowFailed                 at the client: the awaited instance failed
   │  └─ WorkflowCancelled
   ├─ WorkflowTimedOut               at the client: it did not end in time
   ├─ WorkflowNotFound
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
    "DurableError",
    "NondeterminismDetected",
    "OrchestrationRaised",
    "RegistrationError",
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


class OrchestrationRaised(DurableError):
    """The code of an orchestration ended in an exception; the text says which."""

    code = "ORCHESTRATION_RAISED"


class WorkflowFailed(DurableError):
    """The instance a client waited for ended in failure."""

    code = "WORKFLOW_FAILED"


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


class NondeterminismDetected(DurableError):
    """The code asked for something else than history recorded."""

    code = "NONDETERMINISM_DETECTED"


class RegistrationError(DurableError, ValueError):
    """A name, version or option cannot be registered."""

    code = "REGISTRATION_REFUSED"
    status = 400
