"""The options of a queue, written down once: for `queen queue explain`, the reference page, the API and forms.

Every place that takes options takes a duration as a number in the option's unit, as text with a unit (`"90s"`,
`"500ms"`, `"2h"`), or as a `timedelta`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final, Literal

from msgspec import Struct

from queen import errors

Kind = Literal["number", "yes or no", "choice"]
_MAX: Final = 2**31 - 1


class QueueOption(Struct, frozen=True, kw_only=True, rename="camel"):
    """One option: what it is called here and on the wire, what it takes, and what it does.

    `together` says what it does with other options. `consulted` is False for those that older clients set and read
    back, and that change nothing.
    """

    name: str
    wire: str
    kind: Kind
    default: bool | int | str
    meaning: str
    together: str = ""
    example: str
    unit: Literal["s", "ms", "messages", ""] = ""
    minimum: int = 0
    choices: tuple[str, ...] = ()
    consulted: bool = True

    @property
    def allowed(self) -> str:
        """What it takes, for people."""
        if self.kind == "choice":
            return " or ".join(self.choices)
        if self.kind == "yes or no":
            return "true or false"
        unit = {"s": "seconds", "ms": "milliseconds", "messages": "messages", "": "a whole number"}[self.unit]
        return unit if self.minimum == 0 else f"{unit}, also below 0"


def _number(
    name: str, default: int, unit: Literal["s", "ms", "messages", ""], meaning: str, **more: Any
) -> QueueOption:
    return _option(name, "number", default, meaning, unit=unit, **more)


def _switch(name: str, meaning: str, *, default: bool = False, **more: Any) -> QueueOption:
    return _option(name, "yes or no", default, meaning, **more)


def _option(name: str, kind: Kind, default: int | str, meaning: str, **more: Any) -> QueueOption:
    first, *rest = name.split("_")
    given = {"wire": first + "".join(part.title() for part in rest), "example": f"{name}={_text(default)}", **more}
    return QueueOption(name=name, kind=kind, default=default, meaning=meaning, **given)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_ECHOED: Final = "Kept for older clients, which set it and read it back. Changes nothing"

QUEUE_OPTIONS: Final[tuple[QueueOption, ...]] = (
    _number(
        "lease_time", 300, "s",
        "How long a consumer has a batch before it is handed to another; 0 counts as 60.",
        together="`consume` renews it while the handler runs, so it only says how soon a crashed one's work goes on.",
        example="lease_time=30s",
    ),
    _number(
        "retry_limit", 3, "",
        "How often a failed message is delivered again before it is a dead letter: attempts are one more.",
        together="A lease that ran out spends no retry (see max_deliveries). Waits retry_delay in between.",
        example="retry_limit=5",
    ),
    _number(
        "retry_delay", 0, "ms",
        "Wait before a failed message is delivered again; its partition waits too. In milliseconds, as on the wire.",
        together="A task of an App with its own Backoff waits that long instead.",
        example="retry_delay=1500ms",
    ),
    _number(
        "max_deliveries", 0, "",
        "Dead letter after this many leases that ran out without an answer; 0: never.",
        together="For messages that kill their worker, which retry_limit never sees.",
        example="max_deliveries=5",
    ),
    _option(
        "partial_failure", "choice", "dlq",
        "What becomes of failed messages of a batch of which others are done: dead letters at once, or tried again.",
        together="`retry` holds the partition at the first that failed, and spends retry_limit.",
        choices=("dlq", "retry"), example="partial_failure=retry",
    ),
    _number(
        "delayed_processing", 0, "s",
        "Messages are handed out only once they are this old.",
        together="Adds to a `deliver_at` of a message: it is stored, and begins to age, when it is due.",
        example="delayed_processing=60s",
    ),
    _number(
        "window_buffer", 0, "s",
        "A partition is handed out only once nothing came for this long, so that a burst is one batch.",
        together="One that never rests is handed out when its oldest message is ten windows old.",
        example="window_buffer=5s",
    ),
    _number(
        "max_wait_time_seconds", 0, "s",
        "A message that waited longer is a dead letter (evicted) instead of being handed out; 0: never.",
        together="Counts from when it was stored, so delayed_processing must be less.",
        example="max_wait_time_seconds=1h",
    ),
    _switch(
        "retention_enabled",
        "Remove old messages.",
        together="Switches retention_seconds and completed_retention_seconds on; alone it removes nothing.",
        example="retention_enabled=true retention_seconds=7d",
    ),
    _number(
        "retention_seconds", 0, "s",
        "Remove messages of this age, whether consumed or not, except under a lease; 0: never.",
        together="Only with retention_enabled. With archive, only what is in the lake.",
        example="retention_seconds=30d",
    ),
    _number(
        "completed_retention_seconds", 0, "s",
        "Remove messages of this age that every known group is past; 0: never.",
        together="Only with retention_enabled. A forgotten group holds it back: `queen doctor` names those.",
        example="completed_retention_seconds=1d",
    ),
    _switch(
        "archive",
        "Remove nothing that is not archived in the lake yet.",
        together="With retention; where no archive pipeline has run, nothing is removed at all.",
        example="archive=true",
    ),
    _number(
        "max_queue_size", 0, "messages",
        "A push beyond this many messages that the slowest group has not passed is refused: QUEUE_FULL; 0: no limit.",
        together="Exact. `wait_for_room` of a push waits; a forgotten group fills the queue.",
        wire="maxSize", example="max_queue_size=10000",
    ),
    _number(
        "priority", 0, "",
        "Which queue a pop by namespace or task looks at first: the higher, the sooner.",
        together="Between queues only: within a queue, whichever partition is ready longest comes first.",
        minimum=-_MAX, example="priority=10",
    ),
    _switch(
        "encryption_enabled",
        "Store payloads sealed with AES-256-GCM.",
        together="Needs QUEEN_ENCRYPTION_KEY at every broker and direct client; SQL pushes must be sealed already.",
        example="encryption_enabled=true",
    ),
    _switch(
        "delivery_log",
        "Write one row per batch handed out: latency charts and traces read it.",
        default=True, example="delivery_log=false",
    ),
    _switch(
        "paused",
        "Hand out nothing; pushes go on. The same as `queen queue pause`.",
        example="paused=true",
    ),
    _number("ttl", 3600, "s", f"{_ECHOED}: retention_seconds removes old messages.", consulted=False),
    _switch("dead_letter_queue", f"{_ECHOED}: every queue has dead letters.", consulted=False),
    _switch("dlq_after_max_retries", f"{_ECHOED}: retry_limit=0 gives up at the first failure.", consulted=False),
)  # fmt: skip

BY_NAME: Final[Mapping[str, QueueOption]] = {option.name: option for option in QUEUE_OPTIONS}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def explain(name: str) -> QueueOption:
    """One option; InvalidRequest with the closest name when there is none of this name."""
    found = BY_NAME.get(name) or next((option for option in QUEUE_OPTIONS if option.wire == name), None)
    if found is None:
        close = get_close_matches(name, BY_NAME, n=1)
        hint = f"did you mean {close[0]}?" if close else f"allowed: {', '.join(sorted(BY_NAME))}"
        raise errors.InvalidRequest(name, f"{name} is not an option; {hint}")
    return found


def validate_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options in their units, or InvalidRequest naming the first one that is not allowed."""
    checked: dict[str, Any] = {}
    for name, value in options.items():
        option = explain(name)
        checked[option.name] = _checked(option, _in_unit(option, value))
    return checked


def _checked(option: QueueOption, value: Any) -> Any:
    name = option.name
    if option.kind == "number":
        if isinstance(value, bool) or not isinstance(value, int) or not -_MAX <= value <= _MAX:
            raise errors.InvalidRequest(name, f"{name} must be a whole number up to {_MAX}{_unit_of(option)}")
        if value < option.minimum:
            raise errors.InvalidRequest(name, f"{name} must not be negative")
    elif option.kind == "yes or no" and not isinstance(value, bool):
        raise errors.InvalidRequest(name, f"{name} must be true or false")
    elif option.kind == "choice" and value not in option.choices:
        raise errors.InvalidRequest(name, f"{name} must be {option.allowed}")
    return value


def _unit_of(option: QueueOption) -> str:
    return f' of {option.allowed}, or a duration such as "30s"' if option.unit in ("s", "ms") else ""


def _in_unit(option: QueueOption, value: Any) -> Any:
    """A duration as a number of the option's unit; anything else as it is."""
    if option.unit not in ("s", "ms"):
        return value
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str) and (found := _DURATION.fullmatch(value)):
        seconds = float(found[1]) * _SECONDS[found[2]]
    else:
        return value
    made = seconds / _SECONDS[option.unit]
    if abs(made - round(made)) > 1e-6:
        raise errors.InvalidRequest(option.name, f"{option.name} must be whole {option.allowed}, not {made:g}")
    return round(made)
