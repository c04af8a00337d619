from __future__ import annotations

import pytest
from click.testing import CliRunner

from queen.cli import main
from queen.spark.pipelines.definition import without_passwords
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
        "select queen.remove_ranges(array[id], array[2], array[2], now()) from queen.partitions where name = 'p0'"
    )
    pond.queues.push("orders", "p0", "not in the lake yet")
    same = pond.run("reconcile").figures
    assert (same["differing"], same["left"], same["right"]) == (0, 28, 28)
    pond.queues.rows("update queen.messages set payload = '0' where transaction_id = 't-04' returning 1")
    pond.queues.rows("delete from queen.messages where transaction_id = 't-05' returning 1")
    assert pond.run("reconcile").figures["differing"] == 2
    assert pond.queues.rows(DIFFERENCES) == [("p1", "t-04", "different"), ("p2", "t-05", "only right")]


def test_passwords_are_not_kept() -> None:
    given = {
        "a": "postgresql://me:hush@host:5432/db?sslmode=require", "b": "host=h password=hush user=me", "c": "12:30",
        "d": "postgresql://host/db?user=me&password=hush&x=1", "e": "postgresql:///db", "f": "where a = ':b'",
    }  # fmt: skip
    kept = without_passwords(given)
    assert "hush" not in str(kept)
    assert {name: kept[name] for name in "cef"} == {name: given[name] for name in "cef"}
    assert kept["a"] == "postgresql://me:***@host:5432/db?sslmode=require"


def test_two_databases(pond: Pond, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(pond.queues)
    pond.run("archive")
    with postgres.scratch(TEMPLATE) as url, Queues(url) as other:
        other.push("unrelated", "a", 1)
        fill(other)
        assert pond.run("reconcile", other=url, queue="orders").figures["differing"] == 0
        other.push("orders", "p2", "more", transaction_id="t-more")
        found = pond.run("reconcile", other=f"{url}&password=hush").figures
        kept = pond.queues.value("select string_agg(r::text, ' ') from queen.pipeline_runs r")
        assert "hush" not in kept
        assert "password=***" in kept
        monkeypatch.setenv("OTHER", url)
        assert pond.run("reconcile", other="env:OTHER").figures == found
        command = [
            "pipeline",
            "schedule",
            "reconcile",
            "--every",
            "60",
            "--url",
            pond.queues.url,
            "--lake",
            str(pond.path),
        ]
        shown = CliRunner().invoke(main, [*command, "--option", f"other={url}&password=hush"])
        assert shown.exit_code == 2
        assert "option 'other' has a password in it" in shown.output
        assert "hush" not in shown.output
        assert CliRunner().invoke(main, [*command, "--option", "other=env:OTHER"]).exit_code == 0
    assert (found["partitions"], found["differing"]) == (4, 2)
    assert [row[1:] for row in pond.queues.rows(DIFFERENCES)][-1] == ("t-more", "only right")
