"""The call of a task as a message: plain JSON that any client can push, `{"task": "send", "args": {"to": "a@b.c"}}`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from queen.client.message import Delivered, Reject
from queen.client.payload import decode, encode
from queen.client.work import name_of, require_function

# What `push` takes itself.
RESERVED: Final = frozenset(
    {"partition", "delay", "deliver_at", "unique", "trace_id", "wait_for_room", "connection", "keep_result"}
)
_SHAPE: Final = 'it must be {"task": NAME, "args": {NAME: VALUE, ...}}'


class Envelope(Struct, omit_defaults=True):
    """What a message says: which task, with which arguments.

    `attempt` and `first` are there in one that was pushed again after a failure, `result` when somebody asks for it,
    `unique` in one that is removed when it is done, so that its key is free again.
    """

    task: str
    args: Raw = Raw(b"{}")
    attempt: int = 1
    first: UUID | None = None
    result: bool = False
    unique: bool = False


def read(message: Delivered[Any]) -> Envelope:
    """The call in a message; Reject when it is none."""
    try:
        return msgspec.json.decode(message.payload, type=Envelope)
    except msgspec.MsgspecError as error:
        raise Reject(f"the payload is no call of a task: {error}; {_SHAPE}") from None


class Signature:
    """The parameters of a task: arguments to JSON and back, as the types they are declared with."""

    def __init__(self, function: Callable[..., Any]) -> None:
        require_function(function)
        self._signature = inspect.signature(function)
        self._name = name_of(function)
        for parameter in self._signature.parameters.values():
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(
                    f"the task {self._name} has a parameter {parameter}: arguments travel by name, so every parameter "
                    "needs one"
                )
            if parameter.name in RESERVED:
                raise TypeError(
                    f"the task {self._name} has a parameter {parameter.name}, which push takes itself: rename it"
                )
        try:
            hints = get_type_hints(function if inspect.isroutine(function) else type(function).__call__)
        except NameError as error:
            raise TypeError(
                f"an annotation of {self._name} cannot be read ({error}): define its type at module level"
            ) from error
        self.parameters = list(self._signature.parameters)
        self.returns: Any = hints.get("return", Any)
        fields = [
            (each.name, hints.get(each.name, Any))
            if each.default is each.empty
            else (each.name, hints.get(each.name, Any) | UnsetType, UNSET)
            for each in self._signature.parameters.values()
        ]
        self._kind = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Raw:
        """The arguments of a call as a JSON object; TypeError as a call of the function itself would raise it."""
        return Raw(encode(self._signature.bind(*args, **kwargs).arguments).encode())

    def decode(self, args: Raw) -> dict[str, Any]:
        """The arguments back; DecodeError when they do not fit."""
        made = decode(bytes(args).decode(), self._kind)
        return {name: value for name in self._kind.__struct_fields__ if (value := getattr(made, name)) is not UNSET}
