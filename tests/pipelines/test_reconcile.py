from __future__ import annotations

from tests.pipelines.support.lakes import Pond
from tests.spark.support.queues import Queues
from tests.support.postgres import TEMPLATE, Postgres

DIFFERENCES = """select value ->> 'partition', value ->> 'transaction_id', value ->> 'difference'
                   from queen.pipeline_results where kind = 'messages' order by 1, 2"""


def fill(queues: Queues) -> None:
    for number in range(30):
        queues.push("orders", f"p{number % 3}", {"n": number}, transaction_id=f"t-{number:02}")


def test_a_database_beside_its_lake(pond: Pond) -> None:
    fill(pond.queues)
    pond.run("archive")
    pond.queues.rows(
        "select queen.remove_range(id, 2, 100, 'retention', now()) from queen.partitions where name = 'p0'"
    )
    pond.queues.push("orders", "p0", "not in the lake yet")
    same = pond.run("reconcile").figures
    assert (same["differing"], same["left"], same["right"]) == (0, 28, 28)
    pond.queues.rows("update queen.messages set payload = '0' where transaction_id = 't-04' returning 1")
    pond.queues.rows("delete from queen.messages where transaction_id = 't-05' returning 1")
    assert pond.run("reconcile").figures["differing"] == 2
    assert pond.queues.rows(DIFFERENCES) == [("p1", "t-04", "different"), ("p2", "t-05", "only right")]


def test_two_databases(pond: Pond, postgres: Postgres) -> None:
    fill(pond.queues)
    pond.run("archive")
    with postgres.scratch(TEMPLATE) as url, Queues(url) as other:
        other.push("unrelated", "a", 1)
        fill(other)
        assert pond.run("reconcile", other=url, queue="orders").figures["differing"] == 0
        other.push("orders", "p2", "more", transaction_id="t-more")
        found = pond.run("reconcile", other=url).figures
    assert (found["partitions"], found["differing"]) == (4, 2)
    assert [row[1:] for row in pond.queues.rows(DIFFERENCES)][-1] == ("t-more", "only right")
