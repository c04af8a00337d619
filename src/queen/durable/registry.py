"""Which code runs under which name and version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queen.durable.errors import RegistrationError
from queen.durable.messages import handler_name
from queen.durable.model import pack_version
from queen.durable.replay.machine import Entry
from queen.durable.replay.syscalls import GET_KV_VALUE, PREFIX, TAKE_PLACE

if TYPE_CHECKING:
    from queen.durable.activity_context import ActivityContext

DEFAULT_VERSION = "1.0.0"

ActivityCall = Callable[["ActivityContext", str], "str | Awaitable[str]"]


@dataclass(frozen=True, slots=True)
class RegisteredActivity:
    """An activity: text in, text out. `is_async` runs on the loop, the others on a thread."""

    name: str
    call: ActivityCall
    is_async: bool
    in_transaction: bool = False


@dataclass(frozen=True, slots=True)
class RegisteredOrchestration:
    """One version of an orchestration."""

    name: str
    version: str
    entry: Entry
    limited: bool = False


@dataclass(slots=True)
class Registry:
    """Activities by name, orchestrations by name and version."""

    _activities: dict[str, RegisteredActivity] = field(default_factory=dict)
    _orchestrations: dict[str, dict[str, RegisteredOrchestration]] = field(default_factory=dict)

    def add_activity(self, activity: RegisteredActivity) -> None:
        """Register an activity; names are unique and outside the reserved prefix."""
        name = _checked_name("activity", activity.name)
        if name.startswith(PREFIX):
            raise RegistrationError(f"activity name {name!r} begins with the reserved prefix {PREFIX!r}")
        if name in self._activities:
            raise RegistrationError(f"activity {name!r} is already registered")
        self._activities[name] = activity

    def add_orchestration(self, orchestration: RegisteredOrchestration) -> None:
        """Register one version; it must be above the newest one of the name."""
        name = _checked_name("orchestration", orchestration.name)
        versions = self._orchestrations.setdefault(name, {})
        number = _checked_version(name, orchestration.version)
        newest = max(versions, key=pack_version, default=None)
        if newest is not None and number <= pack_version(newest):
            raise RegistrationError(
                f"orchestration {name!r} version {orchestration.version} must be above {newest}, "
                "the newest one registered"
            )
        versions[orchestration.version] = orchestration

    def activity(self, name: str) -> RegisteredActivity | None:
        """The activity of this name."""
        return self._activities.get(name)

    @property
    def handlers(self) -> tuple[str, ...]:
        """What the orchestrations here are called in the store: by name alone, and with each version."""
        return tuple(
            handler_name(name, version)
            for name, versions in self._orchestrations.items()
            for version in (None, *versions)
        )

    @property
    def activities(self) -> tuple[str, ...]:
        """The names of the activities here, and of those that need no code."""
        return (*self._activities, GET_KV_VALUE, TAKE_PLACE)

    def orchestration(self, name: str, version: str | None) -> RegisteredOrchestration | None:
        """Exactly this version, or the newest when none is asked for."""
        versions = self._orchestrations.get(name)
        if not versions:
            return None
        return versions.get(version) if version is not None else versions[max(versions, key=pack_version)]


def _checked_name(what: str, name: str) -> str:
    if not name:
        raise RegistrationError(f"the name of an {what} must be a non-empty text, got {name!r}")
    return name


def _checked_version(name: str, version: str) -> int:
    try:
        return pack_version(version)
    except (ValueError, TypeError) as error:
        raise RegistrationError(f"orchestration {name!r}: {error}") from error
