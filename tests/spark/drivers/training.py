"""Loads the classes that Spark needs in most tests, by one small query. To be run by spark-submit."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

NEEDED_BESIDE = (
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.deploy.worker.ExecutorRunner",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend",
)
"""What clusters are made of."""


def main() -> None:
    spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.range(10).groupBy((col("id") % 2).alias("odd")).count().collect()
    assert spark._jvm is not None
    for name in NEEDED_BESIDE:
        spark._jvm.java.lang.Class.forName(name)
    spark.stop()


if __name__ == "__main__":
    main()
