"""Every proof a page names is there."""

from __future__ import annotations

import re

from tests.support.tree import ROOT


def test_every_proof_exists() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[\w/.]+)`", text))
    assert len(named) > 10
    assert {name for name in named if not (ROOT / name).exists()} == set()
