"""The options of the source and the sink: their names, what they allow, and what they mean together."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, Literal

from pyspark.sql.datasource import CaseInsensitiveDict

from queen.spark.errors import SparkError
from queen.spark.limits import STATEMENT_LIMIT, seconds, statement_limit

URL_VARIABLE: Final = "QUEEN_DATABASE_URL"
LATEST: Final = -1
EARLIEST: Final = -2
TASKS: Final = 4
LEAST_PER_TASK: Final = 50_000
MOST_PER_TASK: Final = 250_000
ROWS_PER_TRANSACTION: Final = 2000
SNAPSHOT: Final = re.compile(r"[0-9A-F]+(-[0-9A-F]+)+")
SOURCE_OPTIONS: Final = (
    "url", "table", "queue", "queuePattern", "namespace", "assign", "startingOffsets", "endingOffsets",
    "startingTimestamp", "endingTimestamp", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "minPartitions", "maxRowsPerTask", "failOnDataLoss", "consumerGroup", "columns", "statementTimeout",
    "readUrl", "onFailover", "archive", "snapshot",
)  # fmt: skip
SINK_OPTIONS: Final = (
    "url", "queue", "partition", "writeId", "ingestParallelism", "rowsPerTransaction", "whenFull", "fullTimeout",
    "statementTimeout",
)  # fmt: skip
KAFKA_SAME: Final = {"subscribe": "queue", "subscribePattern": "queuePattern", "topic": "queue"}
"""Options of Kafka's connector that mean the same here."""
KAFKA_OTHER: Final = {
    "kafka.bootstrap.servers": "say by `url` which database",
    "kafka.group.id": "use `consumerGroup`",
    "groupIdPrefix": "use `consumerGroup`",
    "startingOffsetsByTimestamp": "use `startingTimestamp`",
    "endingOffsetsByTimestamp": "use `endingTimestamp`",
    "startingOffsetsByTimestampStrategy": "a time after the last message is always `latest` here",
    "includeHeaders": "messages have no headers; `trace_id`, `parent_id` and `producer_sub` are columns",
    "maxRecordsPerPartition": "use `maxRowsPerTask`",
}
"""Options of Kafka's connector that do not, and what to do instead."""

Seqs = dict[str, dict[str, int]]
"""Queue, partition, seq: what Kafka writes as topic, partition, offset."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """`startingOffsets` or `endingOffsets`: a word, a position, or a seq per partition."""

    word: Literal["earliest", "latest", "group", ""] = ""
    position: Mapping[str, Any] | None = None
    seqs: Seqs | None = None

    @property
    def by_position(self) -> bool:
        """Whether this is a position, given or to be found."""
        return self.position is not None or self.word == "group"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read. Made by `source_options`."""

    url: str | None = None
    table: str = "messages"
    queues: tuple[str, ...] = ()
    pattern: str | None = None
    namespace: str | None = None
    assign: dict[str, list[str]] | None = None
    starting: Offsets = field(default_factory=Offsets)
    ending: Offsets = field(default_factory=lambda: Offsets("latest"))
    since: datetime | None = None
    until: datetime | None = None
    most: int | None = None
    least: int | None = None
    delay: float = 900.0
    min_partitions: int = 1
    rows_per_task: int | None = None
    fail_on_data_loss: bool = True
    group: str | None = None
    columns: tuple[str, ...] = ()
    statement_limit: float = STATEMENT_LIMIT
    archive: str = ""
    """How the archive reads: every queue, payloads as they are stored; `lenient`: without what was cleared by hand."""
    read_url: str | None = None
    """A replica that tasks read from; what to read is asked at `url`."""
    adopt: bool = False
    """Go on with positions of a server that this one took over from, when everything below them came here."""
    snapshot: str | None = None
    """The moment to read as of, exported by somebody who keeps it open; positions to begin and end at are given."""

    @property
    def address(self) -> str:
        """Where the database is, for the process that asks."""
        return address(self.url)

    @property
    def read_address(self) -> str:
        """Where tasks read from."""
        return address(self.read_url or self.url, "readUrl" if self.read_url else "url")

    @property
    def by_position(self) -> bool:
        """Whether the read begins or ends at a position, which no partition's seqs tell."""
        return self.starting.by_position or self.ending.by_position

    def task_size(self, total: int) -> int:
        """How many of so many rows a task reads at most: few tasks are cheaper, but all cores should have one."""
        return self.rows_per_task or min(max(-(-total // TASKS), LEAST_PER_TASK), MOST_PER_TASK)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write. Made by `sink_options`."""

    url: str | None = None
    queue: str | None = None
    partition: str | None = None
    write_id: str | None = None
    parallelism: int = 2
    when_full: Literal["fail", "wait"] = "fail"
    full_timeout: float = 300.0
    statement_limit: float = STATEMENT_LIMIT
    rows_per_transaction: int = ROWS_PER_TRANSACTION

    @property
    def address(self) -> str:
        """Where the database is, for the process that asks."""
        return address(self.url)


def address(url: str | None, option: str = "url") -> str:
    """The option if it was given, else what the environment of this very process says."""
    found = url or os.environ.get(URL_VARIABLE)
    if not found:
        raise SparkError(
            "INVALID_OPTION",
            f"no database: set the option `url`, or {URL_VARIABLE} in the environment of the driver and the executors",
        )
    if not found.startswith(("postgresql://", "postgres://")):
        raise SparkError("INVALID_OPTION", f"the option `{option}` must start with postgresql://")
    return found


def source_options(given: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """Check the options of a reader."""
    given = require_known(given, SOURCE_OPTIONS)
    queues = words(given.get("queue") or "")
    assign = parsed_json(given, "assign")
    wheres = [name for name in ("queue", "queuePattern", "namespace", "assign") if given.get(name)]
    if len(wheres) > 1 and set(wheres) != {"queuePattern", "namespace"}:
        raise refused("queue", f"one of queue, queuePattern, namespace and assign; got {' and '.join(wheres)}")
    if assign is not None:
        require_assignment(assign)
    if streaming and given.get("endingOffsets"):
        raise refused("endingOffsets", "for batch reads only")
    least, most = whole(given, "minOffsetsPerTrigger"), whole(given, "maxOffsetsPerTrigger")
    if least and most and least > most:
        raise refused("minOffsetsPerTrigger", f"at most maxOffsetsPerTrigger ({most})")
    pattern = given.get("queuePattern")
    if pattern:
        require_pattern(pattern)
    from_now_on = streaming and not given.get("startingTimestamp")
    starting = offsets(given, "startingOffsets", "latest" if from_now_on else "earliest")
    ending = offsets(given, "endingOffsets", "latest")
    if (starting.by_position or ending.by_position) and (assign or starting.seqs or ending.seqs):
        raise refused("startingOffsets", "seqs like endingOffsets and assign, or none of them: a position fits no seqs")
    return SourceOptions(
        url=given.get("url"),
        table=given.get("table") or "messages",
        queues=tuple(assign) if assign else queues,
        pattern=pattern,
        namespace=given.get("namespace"),
        assign=assign,
        starting=starting,
        ending=ending,
        since=moment(given, "startingTimestamp"),
        until=moment(given, "endingTimestamp"),
        most=most,
        least=least,
        delay=duration(given, "maxTriggerDelay", 900.0),
        min_partitions=whole(given, "minPartitions") or 1,
        rows_per_task=whole(given, "maxRowsPerTask"),
        fail_on_data_loss=truth(given, "failOnDataLoss", default=True),
        group=given.get("consumerGroup"),
        columns=words(given.get("columns") or ""),
        statement_limit=duration(given, "statementTimeout", statement_limit()),
        archive=one_of(given, "archive", ("", "strict", "lenient")),
        read_url=given.get("readUrl") or None,
        adopt=one_of(given, "onFailover", ("fail", "adopt")) == "adopt",
        snapshot=snapshot(given),
    )


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    """Check the options of a writer."""
    given = require_known(given, SINK_OPTIONS)
    when_full = given.get("whenFull") or "fail"
    if when_full not in ("fail", "wait"):
        raise refused("whenFull", "fail or wait", when_full)
    return SinkOptions(
        url=given.get("url"),
        queue=given.get("queue"),
        partition=given.get("partition"),
        write_id=given.get("writeId"),
        parallelism=min(whole(given, "ingestParallelism") or 2, 8),
        when_full="wait" if when_full == "wait" else "fail",
        full_timeout=duration(given, "fullTimeout", 300.0),
        statement_limit=duration(given, "statementTimeout", statement_limit()),
        rows_per_transaction=whole(given, "rowsPerTransaction") or ROWS_PER_TRANSACTION,
    )


def require_known(given: Mapping[str, str], known: tuple[str, ...]) -> Mapping[str, str]:
    """The options under our names. A misspelt one is refused, and so is one of Kafka's that means nothing here.

    Others may be Spark's own, which it hands to every source and sink.
    """
    same = {theirs.lower(): ours for theirs, ours in KAFKA_SAME.items() if ours in known}
    other = {theirs.lower(): hint for theirs, hint in KAFKA_OTHER.items()}
    ours: dict[str, str] = {}
    for name in given:
        if name.lower() in other or name.lower().startswith("kafka."):
            hint = other.get(name.lower(), "settings of Kafka's clients mean nothing here")
            raise SparkError("INVALID_OPTION", f"there is no option `{name}`, which is Kafka's: {hint}")
        if name.lower() in same:
            mine = same[name.lower()]
            if given.get(mine):
                raise refused(mine, f"given once, either as `{mine}` or as `{name}`")
            ours[mine] = given[name]
            continue
        near = get_close_matches(name.lower(), [option.lower() for option in known], n=1, cutoff=0.85)
        if near and near[0] != name.lower():
            meant = next(option for option in known if option.lower() == near[0])
            raise SparkError("INVALID_OPTION", f"there is no option `{name}`; did you mean `{meant}`?")
    return CaseInsensitiveDict({**given, **ours}) if ours else given


def require_assignment(assign: object) -> None:
    """`assign` is a map of queues to lists of partitions."""
    fits = isinstance(assign, dict) and all(
        isinstance(names, list) and names and all(isinstance(name, str) for name in names) for names in assign.values()
    )
    if not fits or not assign:
        raise refused("assign", 'JSON like {"orders": ["customer-1", "customer-2"]}')


def require_pattern(pattern: str) -> None:
    """A pattern has to be one; PostgreSQL's dialect differs in details only."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise refused("queuePattern", f"a regular expression ({error})", pattern) from None


def offsets(given: Mapping[str, str], name: str, default: Literal["earliest", "latest"]) -> Offsets:
    """A word, a number, or JSON."""
    text = (given.get(name) or default).strip()
    if text == "earliest":
        return Offsets("earliest")
    if text == "latest":
        return Offsets("latest")
    if text == "group" and name == "startingOffsets":
        if not given.get("consumerGroup"):
            raise refused(name, "group only together with consumerGroup")
        return Offsets("group")
    value = parsed_json(given, name)
    if isinstance(value, int):
        return Offsets(position={"pos": value})
    if isinstance(value, dict) and "pos" in value:
        return Offsets(position=value)
    fits = isinstance(value, dict) and all(
        isinstance(lanes, dict) and all(isinstance(seq, int) and seq >= EARLIEST for seq in lanes.values())
        for lanes in value.values()
    )
    if not fits:
        raise refused(name, 'earliest, latest, group, a position, or JSON like {"orders": {"customer-1": 17}}', text)
    return Offsets(seqs=value)


def parsed_json(given: Mapping[str, str], name: str) -> Any:
    """The option as JSON, None when it is not given."""
    text = given.get(name)
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        allowed = "earliest, latest, group, a position, or JSON" if name.endswith("Offsets") else "JSON"
        raise refused(name, allowed, text) from None


def words(text: str) -> tuple[str, ...]:
    """A list separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def whole(given: Mapping[str, str], name: str) -> int | None:
    """A positive whole number, None when it is not given."""
    text = given.get(name)
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise refused(name, "a whole number from 1 up", text)
    return int(text)


def truth(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    """True or false."""
    text = (given.get(name) or str(default)).lower()
    if text not in ("true", "false"):
        raise refused(name, "true or false", text)
    return text == "true"


def one_of(given: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """A word among some; the first of them when it is not given."""
    text = given.get(name) or allowed[0]
    if text not in allowed:
        raise refused(name, " or ".join(filter(None, allowed)), text)
    return text


def moment(given: Mapping[str, str], name: str) -> datetime | None:
    """A time: ISO 8601, UTC unless it says otherwise, or milliseconds since 1970 as in Kafka's connector."""
    text = given.get(name)
    if not text:
        return None
    try:
        found = datetime.fromtimestamp(int(text) / 1000, UTC) if text.isdigit() else datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise refused(name, "a time like 2026-01-31T12:00:00Z, or milliseconds since 1970", text) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def snapshot(given: Mapping[str, str]) -> str | None:
    """The name of a snapshot, None when it is not given."""
    text = given.get("snapshot")
    if text and not SNAPSHOT.fullmatch(text):
        raise refused("snapshot", "a name given by pg_export_snapshot()", text)
    return text or None


def duration(given: Mapping[str, str], name: str, default: float) -> float:
    """A length of time like 500ms, 30s, 15m."""
    text = given.get(name)
    if not text:
        return default
    found = seconds(text)
    if found is None:
        raise refused(name, "a time like 500ms, 30s, 15m or 1h", text)
    return found


def refused(name: str, allowed: str, value: str | None = None) -> SparkError:
    """An option that is not as it should be."""
    got = "" if value is None else f", not {value!r}"
    return SparkError("INVALID_OPTION", f"option `{name}` must be {allowed}{got}")
