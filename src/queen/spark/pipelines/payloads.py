"""What payloads are made of: the fields of JSON objects, and which of them look like keys."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its usual name

SAMPLE: Final = 1000
"""As many as Spark looks for in each part by itself; for more it would sort everything."""
MANY_VALUES: Final = 15
REPEATED: Final = 2.5


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of the payloads of each queue, with the values found in a sample."""

    by_queue: dict[str, dict[str, Counter[Any]]]

    def names(self) -> dict[str, list[str]]:
        """By queue the fields with plain values."""
        return {queue: sorted(fields) for queue, fields in self.by_queue.items()}

    def keys(self, given: str = "") -> dict[str, list[str]]:
        """By queue the fields that look like keys: texts with many values that come again; or those given."""
        wanted = [name.strip() for name in given.split(",") if name.strip()]
        return {
            queue: [name for name, values in fields.items() if (name in wanted if wanted else looks_like_a_key(values))]
            for queue, fields in self.by_queue.items()
        }


def looks_like_a_key(values: Counter[Any]) -> bool:
    """Texts, many of them, most of which come more than once."""
    if len(values) < MANY_VALUES or not all(isinstance(value, str) for value in values):
        return False
    return values.total() / len(values) >= REPEATED


def some(messages: DataFrame) -> DataFrame:
    """Some messages of each queue, chosen by their ids."""
    chosen = Window.partitionBy("queue").orderBy(F.xxhash64("id"))
    ranked = messages.select("queue", "payload", F.row_number().over(chosen).alias("place"))
    return ranked.where(F.col("place") <= SAMPLE)


def sampled(messages: DataFrame) -> Fields:
    """The fields of some payloads of each queue."""
    found: dict[str, dict[str, Counter[Any]]] = defaultdict(lambda: defaultdict(Counter))
    for row in some(messages).toLocalIterator():
        payload = json.loads(row["payload"] or "null")
        for name, value in payload.items() if isinstance(payload, dict) else ():
            if isinstance(value, str | int | bool) and "'" not in name:
                found[row["queue"]][name][value] += 1
    return Fields({queue: dict(fields) for queue, fields in found.items()})


def valued(messages: DataFrame, fields: Mapping[str, Sequence[str]]) -> DataFrame:
    """Each message once for each of the fields of its queue, with its value; those without it are left out."""
    names = sorted({name for found in fields.values() for name in found})
    if not names:
        return messages.limit(0).withColumn("field", F.lit("")).withColumn("key", F.lit(""))
    each = F.array(
        *[
            F.struct(F.lit(name).alias("field"), F.get_json_object("payload", f"$['{name}']").alias("key"))
            for name in names
        ]
    )
    wanted = F.array(*[F.lit(f"{queue}/{name}") for queue, found in fields.items() for name in found])
    return (
        messages.select("queue", "partition", F.explode(each).alias("value"))
        .select("queue", "partition", "value.*")
        .where(F.col("key").isNotNull() & F.array_contains(wanted, F.concat_ws("/", "queue", "field")))
    )
