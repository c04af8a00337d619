from __future__ import annotations

import gzip
from importlib.resources import files

LIMIT = 150_000


def test_all_scripts_together_are_small() -> None:
    folder = files("queen.dashboard").joinpath("static")
    scripts = [entry.read_bytes() for entry in folder.iterdir() if entry.name.endswith(".js")]
    assert len(scripts) == 5
    assert sum(len(gzip.compress(script)) for script in scripts) < LIMIT


def test_files_of_others_come_with_their_licences() -> None:
    folder = files("queen.dashboard").joinpath("static")
    told = folder.joinpath("vendored.md").read_text(encoding="utf-8")
    for entry in folder.iterdir():
        assert ".min." not in entry.name or f"`{entry.name}`" in told
    assert "The MIT License" in told
    assert "Zero-Clause BSD" in told
