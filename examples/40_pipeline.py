"""A pipeline of your own: who ordered most, from everything the lake remembers.

queen pipeline run archive --once --lake ./lake
queen pipeline run examples/40_pipeline.py --lake ./lake --option top=3
queen pipeline show best_customers --kind customers
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import queen
from queen.spark.pipelines import Context, Outcome


def by_customer(orders: DataFrame) -> DataFrame:
    """Orders and amounts by customer, the best first: a pure transform, easy to test."""
    amount = f.get_json_object("payload", "$.amount").cast("long")
    totals = orders.groupBy(f.col("partition").alias("customer")).agg(
        f.count("*").alias("orders"), f.sum(amount).alias("amount")
    )
    return totals.orderBy(f.desc("amount"))


@queen.pipeline("best_customers", summary="Who ordered most", reads=["messages"], options={"top": "10"})
def best_customers(context: Context) -> Outcome:
    orders = context.lake.read(context.spark, "messages").where("queue = 'orders'")
    best = by_customer(orders).limit(int(context.options["top"]))
    rows = context.write("customers", best, key="customer")
    return Outcome(rows, {"customers": rows})
