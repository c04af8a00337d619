"""How many instructions PostgreSQL spends on a call: the same on every machine and in every hour.

    python bench/instructions.py     needs valgrind (Debian: apt install valgrind); about two minutes

Each call runs in a single-user server under callgrind, some times and then more often, once with the call and once with
only what it is made of; the differences leave the call. Prints a table and writes bench/results/instructions.json.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from loads import GROUP, PARTITIONS, QUEUE, Verbs, sql

from queen.db import migrate
from queen.db.embedded import EmbeddedServer
from queen.db.pool import Database
from queen.engine import Engine
from queen.ids import uuid7s

RESULTS = Path(__file__).parent / "results"
OPTIONS = ["-F", "-c", "fsync=off", "-c", "autovacuum=off", "-c", "synchronous_commit=off"]
CALLGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
WARM, FEW, MORE = 3, 2, 22
# Seconds for one server.
LIMIT = 300
# Messages in each partition, and partitions of which all are leased.
WAITING, LEASED = 120, 40


@dataclass(frozen=True)
class Case:
    """A call, made of so many messages and partitions."""

    name: str
    procedure: str
    size: int
    lanes: int = 1


CASES = [
    Case("bare INSERT of 100 rows, two unique indexes", "count_insert", 100),
    Case("push of 100 messages", "count_push", 100),
    Case("pop and ack of 100 messages", "count_pop_ack", 100),
    Case("pop and ack of one message", "count_pop_ack", 1),
    Case("109 single pushes to 80 partitions in one call", "count_push", 109, 80),
    Case("32 acknowledgements of one message in one call", "count_ack", 32),
]


def main() -> None:
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed; on Debian: apt install valgrind")
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        folder.chmod(0o711)
        with EmbeddedServer.start(folder / "data") as server:
            asyncio.run(prepare(server.dsn("postgres")))
            counted = Counted(server.bin_dir / "postgres", server.pgdata, folder / "copy")
        result = {case.name: counted.call(case) for case in CASES}
    (RESULTS / "instructions.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for name, instructions in result.items():
        print(f"{name:50} {instructions / 1000:>8,.0f} thousand")


async def prepare(dsn: str) -> None:
    """Partitions with messages waiting in all of them, some lanes leased, and the procedures."""
    async with migrate.connect(dsn) as connection:
        await migrate.up(connection)
        await connection.execute(sql("setup"))
        for procedure in {case.procedure for case in CASES}:
            await connection.execute(sql(procedure))
    async with Engine(Database(dsn), listen_url=dsn) as engine:
        verbs = Verbs(engine)
        await verbs.prepare()
        await verbs.fill(WAITING * PARTITIONS)
    async with migrate.connect(dsn) as connection:
        for lease in uuid7s(LEASED):
            await connection.fetch(sql("pop_lane"), QUEUE, GROUP, WAITING, lease)


@dataclass(frozen=True)
class Counted:
    """A server that counts, always on a fresh copy of the same data."""

    program: Path
    data: Path
    copy: Path

    def call(self, case: Case) -> int:
        """Instructions of one call."""
        print(f"counting: {case.name}", file=sys.stderr)
        with_calls = self._run(case, MORE, run=True) - self._run(case, FEW, run=True)
        without = self._run(case, MORE, run=False) - self._run(case, FEW, run=False)
        return (with_calls - without) // (MORE - FEW)

    def _run(self, case: Case, times: int, *, run: bool) -> int:
        shutil.copytree(self.data, self.copy)
        owner = self.data.stat()
        subprocess.run(["chown", "-R", f"{owner.st_uid}:{owner.st_gid}", self.copy], check=True)
        calls = sql("count_calls").format(
            procedure=case.procedure, size=case.size, lanes=case.lanes, run=run, warm=WARM, times=times
        )
        command = [*CALLGRIND, str(self.program), "--single", "-D", str(self.copy), *OPTIONS, "postgres"]
        try:
            done = subprocess.run(
                command, input=calls, capture_output=True, text=True, timeout=LIMIT, cwd="/", check=False,
                user=owner.st_uid, group=owner.st_gid,
            )  # fmt: skip
        finally:
            shutil.rmtree(self.copy)
        found = re.search(r"Collected : (\d+)", done.stderr)
        if found is None or "ERROR" in done.stderr:
            sys.exit(f"{case.name}: the server did not count\n{done.stderr[-2000:]}")
        return int(found[1])


if __name__ == "__main__":
    main()
