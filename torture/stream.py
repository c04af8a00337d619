"""A Spark stream from queue to queue, killed like everything else: every message once, in order."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import asyncpg

from torture.plan import RELAYED, STREAMED

CONTENTS = (Path(__file__).parent / "sql" / "contents.sql").read_text()


def relay(url: str, folder: Path) -> None:
    """Relay what there is, again and again, until the run ends; a database that is away is waited for."""
    from pyspark.errors import StreamingQueryException

    from queen.spark import session

    settings = {"spark.driver.memory": "700m", "spark.ui.enabled": "false"}
    spark = session("local[1]", app="torture", settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    while (folder / "phase").read_text() != "end":
        try:
            reader = spark.readStream.format("queen").option("url", url).option("queue", RELAYED)
            messages = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 2000).load()
            named = messages.selectExpr("partition", "to_json(named_struct('of', transaction_id)) as payload")
            writer = named.writeStream.format("queen").option("url", url).option("queue", STREAMED)
            writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
            writer.trigger(availableNow=True).start().awaitTermination()
        except StreamingQueryException as error:
            sys.stderr.write(f"{error}\nbegun again\n")
        time.sleep(0.5)
    spark.stop()


async def compare(dsn: str) -> list[str]:
    """What differs between the queue and what the stream made of it; empty once the stream has come to the end."""
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        contents: dict[str, dict[str, list[str]]] = {}
        for queue in (RELAYED, STREAMED):
            rows = await connection.fetch(CONTENTS, queue)
            contents[queue] = {row["partition"]: row["names"] for row in rows}
    finally:
        await connection.close()
    return [
        f"stream: {partition} has {len(contents[STREAMED].get(partition, []))} of {len(names)}, or another order"
        for partition, names in contents[RELAYED].items()
        if contents[STREAMED].get(partition, []) != names
    ]


if __name__ == "__main__":
    relay(sys.argv[1], Path(sys.argv[2]))
