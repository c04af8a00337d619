"""How an activity or an instance can fail, as it is stored."""

from typing import Literal

import msgspec

__all__ = ["ApplicationFailure", "ConfigurationFailure", "Failure", "InfrastructureFailure", "PoisonFailure"]


class InfrastructureFailure(msgspec.Struct, frozen=True, tag="infrastructure", tag_field="category"):
    """The store or the machinery failed, not the user's code."""

    operation: str
    message: str
    retryable: bool = False

    def display(self) -> str:
        """The text a client sees."""
        return f"infrastructure:{self.operation}: {self.message}"


class ConfigurationFailure(msgspec.Struct, frozen=True, tag="configuration", tag_field="category"):
    """Code and history do not fit together; the message begins with its cause."""

    message: str
    cause: str = "nondeterministic"

    def display(self) -> str:
        """The text a client sees."""
        return f"{self.cause}: {self.message}"


class ApplicationFailure(msgspec.Struct, frozen=True, tag="application", tag_field="category", omit_defaults=True):
    """User code failed; the only failure that reaches orchestration code as an exception.

    ``error_types`` are the names of the exception's class and of its bases, ``causes`` the exceptions behind
    it, ``progress`` what the activity last told with ``heartbeat`` (JSON text).
    """

    message: str
    cause: Literal["activity", "orchestration", "panicked", "cancelled"] = "activity"
    retryable: bool = False
    error_types: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    traceback: str = ""
    non_retryable: bool = False
    progress: str | None = None

    def display(self) -> str:
        """The text a client sees."""
        return f"canceled: {self.message}" if self.cause == "cancelled" else self.message


class PoisonFailure(msgspec.Struct, frozen=True, tag="poison", tag_field="category"):
    """A message was handed out too often without being finished."""

    what: str
    attempts: int
    max_attempts: int

    def display(self) -> str:
        """The text a client sees."""
        return f"poison: {self.what} exceeded {self.attempts} attempts (max {self.max_attempts})"


Failure = InfrastructureFailure | ConfigurationFailure | ApplicationFailure | PoisonFailure
