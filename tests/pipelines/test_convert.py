"""A lake of the form before it was a Delta table becomes one."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from queen.cli import main
from queen.spark.errors import SparkError
from queen.spark.lake import Lake, convert
from queen.spark.lake.files import File
from queen.spark.lake.verify import verify
from tests.pipelines.support.lakes import Pond


def before(pond: Pond, old: Path) -> None:
    """The lake of a pond as the earlier release would have written it: commits, one that removes, a snapshot."""
    lake, state = pond.lake, pond.lake.state()
    (old / "manifest").mkdir(parents=True)
    said = {"format": 1, "id": "b6e1b5a0-0000-4000-8000-000000000001", "database": lake.identity.database}
    (old / "lake.json").write_text(json.dumps(said | {"created_at": "2026-01-01T00:00:00+00:00"}))
    reach = {"pos": state.reaches["messages"].pos, "removed": lake.identity.removed}
    files = [kept(pond, old, file) for file in state.of("messages")]
    gone = {**files[0], "path": "data/messages/gone.parquet"}
    commits: list[dict[str, Any]] = [
        {"version": 1, "kind": "append", "table": "messages", "added": [files[0], gone], "reach": {"pos": 3}},
        {"version": 2, "kind": "append", "table": "messages", "added": files[1:], "reach": reach},
        {"version": 3, "kind": "compact", "table": "messages", "removed": [gone["path"]]},
        {"version": 4, "kind": "append", "table": "deliveries", "reach": {"until": "2026-01-01T00:00:00.000001+00:00"}},
    ]
    for commit in commits:
        (old / "manifest" / f"{commit['version']:012}.json").write_text(json.dumps(commit))
    snapshot = {"version": 1, "files": [files[0], gone], "reaches": {"messages": {"pos": 3}}}
    (old / "manifest" / "000000000001.snapshot.json").write_text(json.dumps(snapshot))
    (old / "manifest" / "000000000001.json").unlink()


def kept(pond: Pond, old: Path, file: File) -> dict[str, Any]:
    source = pond.path / "messages" / file.path
    path = f"data/messages/queue={file.group}/date={file.date}/{source.name[:8]}.parquet"
    (old / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, old / path)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return {
        "path": path, "table": "messages", "group": file.group, "date": file.date, "rows": file.rows,
        "bytes": file.bytes, "sha256": digest, "low": file.low, "high": file.high,
    }  # fmt: skip


@pytest.fixture
def old(pond: Pond, tmp_path: Path) -> Pond:
    """A lake of the earlier form."""
    pond.queues.fill("orders", partitions=2, per_partition=20)
    pond.run("archive", rows="12")
    before(pond, tmp_path / "old")
    return Pond(pond.spark, pond.queues, tmp_path / "old")


def test_an_old_lake_is_refused_until_it_is_converted_and_goes_on_then(old: Pond, pond: Pond) -> None:
    with pytest.raises(SparkError, match="queen lake convert") as caught:
        old.run("archive")
    assert caught.value.code == "LAKE_TOO_OLD"
    shown = CliRunner().invoke(main, ["lake", "convert", "--lake", str(old.path)])
    assert shown.exit_code == 0, shown.output
    assert sorted(each.name for each in old.path.iterdir()) == ["deliveries", "messages"]
    assert old.contents("orders") == pond.contents("orders")
    assert verify(old.lake, old.queues.url).agrees
    reach = old.lake.reach("deliveries")
    assert reach is not None
    assert reach.until == 1_767_225_600_000_001
    old.queues.fill("orders", partitions=2, per_partition=5)
    assert old.run("archive").figures["messages"] == 10
    assert old.contents("orders") == {f"p{p}": [*range(1, 26)] for p in range(2)}
    again = CliRunner().invoke(main, ["lake", "convert", "--lake", str(old.path)])
    assert (again.exit_code, "no lake of the earlier form" in again.output) == (3, True)


def test_a_conversion_that_was_broken_off_is_done_again(old: Pond, pond: Pond, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(convert, "require_same", refuse)
        with pytest.raises(KeyboardInterrupt):
            convert.convert(old.path)
    with pytest.raises(SparkError, match="queen lake convert"):
        Lake.open(old.path)
    convert.convert(old.path)
    assert old.contents("orders") == pond.contents("orders")


def test_a_damaged_file_is_told_and_nothing_is_changed(old: Pond) -> None:
    victim = next((old.path / "data").rglob("*.parquet"))
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-1])
    with pytest.raises(SparkError, match="not what was written: restore it from a copy"):
        convert.convert(old.path)
    assert (old.path / "lake.json").exists()
    victim.write_bytes(whole)
    assert convert.convert(old.path).state().files
