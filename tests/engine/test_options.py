from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from queen.engine import Engine
from queen.engine.options import QUEUE_OPTIONS, explain, validate_options
from queen.errors import InvalidRequest
from queen.model import QueueConfig
from queen.server.routes.options import Changes

IDENTITY = {"id", "name", "namespace", "task", "created_at"}


def test_every_option_is_written_down_once() -> None:
    assert sorted(option.name for option in QUEUE_OPTIONS) == sorted(set(QueueConfig.__struct_fields__) - IDENTITY)
    on_the_wire = {field.encode_name for field in msgspec.structs.fields(Changes)} - IDENTITY
    assert {option.wire for option in QUEUE_OPTIONS} == on_the_wire


async def test_the_defaults_are_those_of_a_new_queue(engine: Engine) -> None:
    made = msgspec.structs.asdict(await engine.queues.configure("fresh", {}))
    assert {option.name: option.default for option in QUEUE_OPTIONS} == {
        name: value for name, value in made.items() if name not in IDENTITY
    }


def test_every_example_is_allowed() -> None:
    for option in QUEUE_OPTIONS:
        for part in option.example.split():
            name, _, text = part.partition("=")
            value = {"true": True, "false": False}.get(text, int(text) if text.isdigit() else text)
            assert validate_options({name: value}).keys() == {name}


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("lease_time", "5m", 300),
        ("lease_time", timedelta(hours=1), 3600),
        ("retry_delay", "1.5s", 1500),
        ("retry_delay", "250ms", 250),
        ("retry_delay", timedelta(seconds=2), 2000),
        ("retry_delay", 20, 20),
        ("retentionSeconds", "7d", 604_800),
    ],
)
def test_a_duration_may_say_its_unit(name: str, value: object, stored: int) -> None:
    assert list(validate_options({name: value}).values()) == [stored]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("lease_tim", 5, "did you mean lease_time"),
        ("nonsense", 5, "allowed: archive"),
        ("lease_time", "500ms", "must be whole seconds"),
        ("lease_time", 2.5, "seconds, or a duration"),
        ("retry_delay", "-1s", "milliseconds"),
        ("retry_limit", "5s", "whole number"),
        ("paused", 1, "true or false"),
        ("partial_failure", "no", "dlq or retry"),
    ],
)
def test_what_is_not_allowed_says_what_is(name: str, value: object, text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        validate_options({name: value})


def test_a_duration_and_a_typo_reach_no_queue() -> None:
    assert explain("retryDelay").unit == "ms"
    with pytest.raises(InvalidRequest, match="did you mean"):
        explain("max_queue_siz")
