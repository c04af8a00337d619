"""Verify finds what is planted and calls it by its name; it also does so with Spark."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from queen.cli import main
from queen.transfer.generator import Sizes
from queen.transfer.link import open_link
from queen.transfer.model import Version
from queen.transfer.report import Difference, Report
from queen.transfer.verify import verify
from tests.support.postgres import TEMPLATE, Postgres
from tests.transfer.corruptions import CORRUPTIONS
from tests.transfer.places import ask, copied

SIZES = Sizes(queues=3, partitions=12, messages=400, groups=4)


@pytest.mark.parametrize("version", ["v2", "v3"])
async def test_each_planted_corruption_is_found_and_named(database: str, version: Version) -> None:
    async with copied(database, version, sizes=SIZES) as link:
        planted = [each for each in CORRUPTIONS if version in each.versions]
        assert len(planted) >= 10
        for each in planted:
            transaction = link.target.transaction()
            await transaction.start()
            assert await link.target.execute(each.statement) not in ("UPDATE 0", "DELETE 0", "INSERT 0 0")
            report = await verify(link)
            await transaction.rollback()
            assert not report.passed, each.name
            assert each.verdict in {found.verdict for found in report.differences}, (each, report.differences)
        assert (await verify(link)).passed


@pytest.mark.timeout(300)
def test_spark_gives_the_same_verdicts(postgres: Postgres, quick_java: None) -> None:
    async def plant(database: str, version: Version) -> list[Difference]:
        async with copied(database, version, sizes=SIZES) as link:
            for each in CORRUPTIONS:
                # A lost group takes its pairs out of both comparisons.
                if version in each.versions and each.name != "a group is lost":
                    await link.target.execute(each.statement)
            return (await verify(link)).differences

    async def compare(database: str, version: Version) -> Report:
        from queen.transfer.spark import verify_by_spark

        async with open_link(version, database) as link:
            return await verify_by_spark(link, "local[2]")

    versions: tuple[Version, ...] = ("v2", "v3")
    for version in versions:
        with postgres.scratch(TEMPLATE) as database:
            expected = asyncio.run(plant(database, version))
            report = asyncio.run(compare(database, version))
        assert not report.passed
        some = {"missing message", "changed order", "changed cursor", "missing dead letter", "changed lease"}
        assert {one.verdict for one in report.differences} >= some
        assert sorted(map(repr, report.differences)) == sorted(map(repr, expected))
        assert report.compared["messages"] > 5


def test_the_report_is_a_page_and_json_and_the_exit_code_tells(database: str, tmp_path: Path) -> None:
    async def plant(statement: str | None) -> None:
        async with copied(database, "v3", sizes=SIZES) as link:
            if statement:
                await link.target.execute(statement)

    asyncio.run(plant(CORRUPTIONS[3].statement))
    page, file = tmp_path / "report.html", tmp_path / "report.json"
    command = ["migrate", "from-v3", "--source", database, "verify", "--html", str(page), "--json", str(file)]
    told = CliRunner().invoke(main, command)
    assert (told.exit_code, "changed payload: shop.orders-" in told.output) == (1, True), told.output
    report = json.loads(file.read_text())
    assert (report["passed"], [each["verdict"] for each in report["differences"]]) == (False, ["changed payload"])
    assert "1 differences" in page.read_text()
    assert report["differences"][0]["name"] in page.read_text()
    kept = ask(database, "select passed, report ->> 'engine' from queen_transfer.reports order by id desc limit 1")
    assert kept == [(False, "sql")]
    refused = CliRunner().invoke(main, ["migrate", "from-v3", "--source", database, "cutover"])
    assert (refused.exit_code, "run `verify` first" in refused.output) == (4, True)
