from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr, lit, struct, to_json

from queen.spark.errors import SparkError
from queen.spark.options import sink_options
from queen.spark.sink import SHORT, Pace, Staged, ingest, stage, sweep
from tests.spark.support.queues import Queues
from tests.spark.support.streams import LIMIT, stream
from tests.support.wait import wait_for


def write(frame: DataFrame, queues: Queues, **options: object) -> None:
    writer = frame.write.format("queen").mode("append").option("url", queues.url)
    for name, value in options.items():
        writer = writer.option(name, str(value))
    writer.save()


def orders(spark: SparkSession, partitions: int, each: int) -> DataFrame:
    """Rows p, n sorted within tasks, a partition never in two tasks."""
    frame = spark.range(partitions * each, numPartitions=2)
    numbers = frame.select((col("id") / each).cast("int").alias("p"), (col("id") % each).alias("n"))
    return numbers.select(expr("'p' || p").alias("partition"), to_json(struct("p", "n")).alias("payload"))


def test_a_frame_becomes_messages_in_order(spark: SparkSession, queues: Queues) -> None:
    write(orders(spark, 20, 50), queues, queue="out")
    assert queues.contents("out") == {f"p{p}": [{"p": p, "n": n} for n in range(50)] for p in range(20)}
    heads = queues.rows("select distinct first_seq, next_seq from queen.partitions p where name <> 'Default'")
    assert heads == [(1, 51)]
    assert queues.rows("select from pg_class where relname like 'spark\\_stage\\_%%'") == []
    assert queues.rows("select from queen.sinks") == []


def test_pos_grows_with_seq_and_a_stream_reads_what_was_written(spark: SparkSession, queues: Queues) -> None:
    write(orders(spark, 5, 40), queues, queue="out")
    disordered = queues.rows(
        "select from queen.messages a join queen.messages b using (partition_id) where a.seq < b.seq and a.pos > b.pos"
    )
    assert disordered == []
    assert queues.value("select max(pos) from queen.messages") < queues.value("select queen.advance_horizon()")


def test_the_same_write_id_stores_nothing_again(spark: SparkSession, queues: Queues) -> None:
    for _ in range(2):
        write(orders(spark, 4, 10), queues, queue="out", writeId="import-7")
    assert sum(map(len, queues.contents("out").values())) == 40
    write(orders(spark, 4, 10), queues, queue="out", writeId="import-8")
    assert sum(map(len, queues.contents("out").values())) == 80


def test_a_transaction_id_is_stored_once_per_partition(spark: SparkSession, queues: Queues) -> None:
    queues.push("out", "p0", "first", transaction_id="t-3")
    frame = spark.range(10, numPartitions=2).select(
        lit("p0").alias("partition"),
        to_json(struct("id")).alias("payload"),
        expr("'t-' || (id % 5)").alias("transaction_id"),
    )
    write(frame, queues, queue="out")
    assert queues.contents("out")["p0"] == ["first", {"id": 0}, {"id": 1}, {"id": 2}, {"id": 4}]
    assert queues.rows("select seq from queen.messages order by seq") == [(n,) for n in range(1, 6)]


def test_every_column_has_its_place(spark: SparkSession, queues: Queues) -> None:
    trace = "0190a1b2-0000-7000-8000-000000000001"
    later = datetime.now(UTC) + timedelta(hours=1)
    rows = [("a", "x", '{"n": 1}', "t-1", trace, None), ("b", "y", None, None, None, later)]
    names = (
        "queue string, partition string, payload string, transaction_id string, trace_id string, deliver_at timestamp"
    )
    write(spark.createDataFrame(rows, names), queues)
    stored = queues.rows(
        """select q.name, p.name, m.payload, m.transaction_id, m.trace_id::text from queen.messages m
             join queen.partitions p on p.id = m.partition_id join queen.queues q on q.id = p.queue_id"""
    )
    assert stored == [("a", "x", {"n": 1}, "t-1", trace)]
    waiting = queues.rows("select partition_name, payload, deliver_at from queen.scheduled_messages")
    assert waiting == [("y", None, later)]


def test_consumers_find_what_was_written(spark: SparkSession, queues: Queues) -> None:
    queues.rows("select queen.subscribe('out', 'workers', 'all', null)")
    queues.rows("select queen.fill_subscription('out', 'workers')")
    write(orders(spark, 3, 2), queues, queue="out")
    ready = queues.rows("select from queen.partition_consumers where ready_at <= clock_timestamp()")
    assert len(ready) == 3


def test_a_full_queue_refuses_the_batch_whole_or_makes_it_wait(spark: SparkSession, queues: Queues) -> None:
    queues.push("out", "p0", 0)
    queues.rows("update queen.queues set max_queue_size = 15 where name = 'out' returning id")
    write(orders(spark, 1, 10), queues, queue="out")
    with pytest.raises(Exception, match="queue 'out' is full: 11 of 15 messages, and 10 more are to be written"):
        write(orders(spark, 1, 10), queues, queue="out")
    assert queues.value("select count(*) from queen.messages") == 11
    with pytest.raises(Exception, match="is full: 11 of 15 messages, and 20 more"):
        write(orders(spark, 1, 20), queues, queue="out", whenFull="wait")
    queues.rows("select queen.clear_queue('out')")
    write(orders(spark, 1, 10), queues, queue="out", whenFull="wait", fullTimeout="5s")
    assert queues.value("select count(*) from queen.messages") == 10


def test_a_large_batch_is_refused_whole_too(spark: SparkSession, queues: Queues) -> None:
    """Rows for a limited queue are one part, however many, and come before the others."""
    queues.push("limited", "p0", 0)
    queues.rows("update queen.queues set max_queue_size = 700 where name = 'limited' returning id")
    rows = (
        orders(spark, 20, 40)
        .withColumn("queue", lit("limited"))
        .unionByName(orders(spark, 20, 40).withColumn("queue", lit("free")))
    )
    with pytest.raises(Exception, match="queue 'limited' is full: 1 of 700 messages, and 800 more"):
        write(rows, queues, rowsPerTransaction=100, writeId="import-1")
    assert queues.value("select count(*) from queen.messages") == 1
    queues.rows("update queen.queues set max_queue_size = 801 where name = 'limited' returning id")
    write(rows, queues, rowsPerTransaction=100, writeId="import-1")
    assert {queue: sum(map(len, queues.contents(queue).values())) for queue in ("limited", "free")} == {
        "limited": 801, "free": 800,
    }  # fmt: skip


def test_a_large_batch_is_stored_in_short_transactions_in_order(spark: SparkSession, queues: Queues) -> None:
    write(orders(spark, 3, 700), queues, queue="out", rowsPerTransaction=100)
    assert queues.contents("out") == {f"p{p}": [{"p": p, "n": n} for n in range(700)] for p in range(3)}
    largest = queues.value("select max(n) from (select count(*) as n from queen.messages group by xmin::text) t")
    assert largest == 100
    assert queues.rows("select from pg_class where relname like 'spark\\_%%' and relkind = 'r'") == []


def test_a_batch_that_was_stored_in_part_is_finished_with_the_rows_it_began_with(queues: Queues) -> None:
    """A repeated batch may bring its rows in another order: then parts cut anew would store some twice, some never."""
    options = sink_options({"url": queues.url, "queue": "out", "rowsPerTransaction": "10", "ingestParallelism": "1"})

    def attempt(numbers: Sequence[int]) -> Staged:
        rows = pa.table({"partition": ["p0"] * len(numbers), "payload": [str(number) for number in numbers]})
        return stage(options, "job", iter(rows.to_batches()))

    first = attempt(range(100))
    queues.connection.execute(
        """create function queen.fail() returns trigger language plpgsql as $$
           begin if new.payload = '65' then raise exception 'planted'; end if; return new; end $$;
           create trigger fail before insert on queen.messages for each row execute function queen.fail()"""
    )
    with pytest.raises(SparkError, match="planted"):
        ingest(options, 0, [first])
    sweep(options, "job", drop=True, forget=False)
    assert queues.contents("out") == {"p0": list(range(60))}
    queues.connection.execute("drop trigger fail on queen.messages")
    ingest(options, 0, [attempt(range(99, -1, -1))])
    assert queues.contents("out") == {"p0": list(range(100))}
    ingest(options, 0, [attempt(range(100))])
    sweep(options, "job", drop=True, forget=False)
    assert queues.value("select count(*) from queen.messages") == 100
    assert queues.rows("select bucket, buckets, stored from queen.sink_batches") == [(0, 1, 100)]
    assert queues.rows("select from pg_class where relname like 'spark\\_%%' and relkind = 'r'") == []


def stage_of(queues: Queues) -> str:
    """The table that holds what was staged."""
    (row,) = queues.rows("select relname from pg_class where relname like 'spark\\_stage\\_%%' and relkind = 'r'")
    return str(row[0])


def test_a_stage_that_lost_rows_is_refused(queues: Queues) -> None:
    """Another run of the sink may have taken them; what is left is not the batch."""
    options = sink_options({"url": queues.url, "queue": "out"})
    rows = pa.table({"partition": ["p0"] * 100, "payload": [str(number) for number in range(100)]})
    staged = stage(options, "job", iter(rows.to_batches()))
    queues.connection.execute(f"delete from queen.{stage_of(queues)} where place % 100 = 7")
    with pytest.raises(SparkError, match="has 99 of 100 rows in its stage") as caught:
        ingest(options, 0, [staged])
    assert caught.value.code == "STAGE_LOST"
    assert queues.contents("out") == {}


def test_a_batch_stored_in_part_whose_rest_is_gone_is_refused(queues: Queues) -> None:
    options = sink_options({"url": queues.url, "queue": "out", "rowsPerTransaction": "10", "ingestParallelism": "1"})
    rows = pa.table({"partition": ["p0"] * 30, "payload": [str(number) for number in range(30)]})
    staged = stage(options, "job", iter(rows.to_batches()))
    queues.connection.execute(
        """create function queen.fail() returns trigger language plpgsql as $$
           begin if new.payload = '15' then raise exception 'planted'; end if; return new; end $$;
           create trigger fail before insert on queen.messages for each row execute function queen.fail()"""
    )
    with pytest.raises(SparkError, match="planted"):
        ingest(options, 0, [staged])
    queues.connection.execute(f"drop table queen.{stage_of(queues)}")
    with pytest.raises(SparkError, match=r"was stored in part \(1 of 3\)") as caught:
        ingest(options, 0, [staged])
    assert caught.value.code == "STAGE_LOST"
    assert queues.contents("out") == {"p0": list(range(10))}


def test_whoever_pushes_during_a_large_write_waits_for_one_part_only(queues: Queues) -> None:
    """Told by what the push waits for, not by a clock: it gets its place among the rows of the batch."""
    options = sink_options({"url": queues.url, "queue": "out", "rowsPerTransaction": "20", "ingestParallelism": "1"})
    rows = pa.table({"partition": ["p0"] * 2000, "payload": [str(number) for number in range(2000)]})
    staged = stage(options, "job", iter(rows.to_batches()))
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(ingest, options, 0, [staged])
        wait_for(lambda: queues.value("select count(*) from queen.messages") > 0)
        queues.push("out", "p0", "live")
        written.result(60)
    stored = queues.contents("out")["p0"]
    assert [payload for payload in stored if payload != "live"] == list(range(2000))
    assert 0 < stored.index("live") < 2000


def test_transactions_are_as_large_as_keeps_them_short() -> None:
    pace = Pace(2000)
    sizes = [pace.parts]
    for _ in range(5):
        pace.note(SHORT / 100)
        sizes.append(pace.parts)
    assert sizes == [1, 2, 4, 8, 8, 8], "from one part to as many as are allowed"
    pace.note(SHORT * 4)
    assert pace.parts == 2
    pace.note(SHORT * 100)
    assert pace.parts == 1
    small = Pace(10)
    small.note(SHORT / 100)
    assert small.parts == 1


def test_slow_rows_are_stored_in_small_transactions(queues: Queues) -> None:
    """Each row takes a fifth of a millisecond more: a part of 250 is as much as a push should wait for."""
    options = sink_options({"url": queues.url, "queue": "out", "ingestParallelism": "1"})
    queues.connection.execute(
        """create function queen.linger() returns trigger language plpgsql as $$
           begin perform pg_sleep(0.0002); return new; end $$;
           create trigger linger before insert on queen.messages for each row execute function queen.linger()"""
    )
    rows = pa.table({"partition": ["p0"] * 3000, "payload": [str(number) for number in range(3000)]})
    ingest(options, 0, [stage(options, "job", iter(rows.to_batches()))])
    sizes = queues.rows("select count(*) from queen.messages group by xmin::text")
    assert [count for (count,) in sizes] == [250] * 12
    assert queues.contents("out") == {"p0": list(range(3000))}


def test_a_stream_is_known_by_its_checkpoint_only(spark: SparkSession, queues: Queues, tmp_path: Path) -> None:
    queues.fill("in", partitions=1, per_partition=2)
    frame = stream(spark, queues, queue="in").select("partition", "payload")
    writer = frame.writeStream.format("queen").option("url", queues.url).option("queue", "out").option("writeId", "x")
    with pytest.raises(Exception, match="option `writeId` is for batch writes"):
        writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("'{}' as payload", {}, "say where to: by a column `queue` or the option `queue`"),
        ("id, '{}' as payload, 1 as price", {"queue": "q"}, "there is no place for column 'price' in a message"),
        ("1 as payload", {"queue": "q"}, "column 'payload' must be string, not int; use to_json"),
        ("'{' as payload", {"queue": "q"}, "a row cannot become a message: invalid input syntax for type json"),
        ("'{}' as payload, 'x' as trace_id", {"queue": "q"}, "column 'trace_id' has a value that is no UUID"),
        ("'{}' as payload", {"queue": "q", "whenfull": "go"}, "option `whenFull` must be fail or wait, not 'go'"),
        ("'{}' as payload", {"queue": "q", "writeIds": "x"}, "there is no option `writeids`; did you mean"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_told_in_a_sentence(
    spark: SparkSession, queues: Queues, columns: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message) as caught:
        write(spark.range(1).selectExpr(*columns.split(", ")), queues, **options)
    assert 'File "' not in str(caught.value)
    assert queues.value("select count(*) from queen.messages") == 0


def test_a_stream_writes_each_batch_once_and_leaves_no_stage(
    spark: SparkSession, queues: Queues, tmp_path: Path
) -> None:
    queues.fill("in", partitions=6, per_partition=20)
    frame = stream(spark, queues, queue="in", maxOffsetsPerTrigger=50).select("partition", "payload")
    writer = frame.writeStream.format("queen").option("url", queues.url).option("queue", "out")
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    assert query.awaitTermination(LIMIT)
    assert queues.contents("out") == queues.contents("in")
    ((sink, stage),) = queues.rows("select name, 'queen.spark_stage_' || id from queen.sinks")
    assert sink == query.id
    assert queues.value(f"select count(*) from {stage}") == 0
    assert [row[0] for row in queues.rows("select stored from queen.sink_batches order by batch")] == [50, 50, 20]
