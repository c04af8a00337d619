"""A queue as a table, a stream and a sink. Needs no database and no Java, only PySpark:

pip install -c constraints.txt -e '.[spark]'
python examples/spark/first_steps.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from pyspark.sql.functions import expr

from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.engine import Engine
from queen.model import NewMessage
from queen.spark import session

DATA = Path(os.environ.get("QUEEN_DATA_DIR", ".queen"))


async def push_baskets(url: str) -> None:
    """Three baskets each of two customers."""
    async with migrate.connect(url) as connection:
        await migrate.up(connection)
    async with Engine.connect(url) as engine:
        for number in range(3):
            await engine.push(
                [
                    NewMessage(queue="baskets", partition=f"customer-{customer}", payload=f'{{"price": {10 + number}}}')
                    for customer in (1, 2)
                ]
            )


def main() -> None:
    """Push, read, transform, write back, and read again."""
    with EmbeddedServer.start(DATA) as server, tempfile.TemporaryDirectory() as checkpoint:
        url = server.dsn()
        asyncio.run(push_baskets(url))
        spark = session("local[2]")

        baskets = spark.read.format("queen").option("url", url).option("queue", "baskets").load()
        baskets.select("partition", "seq", "payload").orderBy("partition", "seq").show(truncate=False)

        stream = spark.readStream.format("queen").option("url", url).option("queue", "baskets")
        prices = (
            stream.option("startingOffsets", "earliest")
            .load()
            .selectExpr(
                "partition", "to_json(named_struct('gross', 1.2 * get_json_object(payload, '$.price'))) as payload"
            )
        )
        writer = prices.writeStream.format("queen").option("url", url).option("queue", "gross-baskets")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()

        gross = spark.read.format("queen").option("url", url).option("queue", "gross-baskets").load()
        total = "sum(get_json_object(payload, '$.gross')) as total"
        gross.groupBy("partition").agg(expr("count(*) as baskets"), expr(total)).orderBy("partition").show()
        spark.stop()


if __name__ == "__main__":
    main()
