"""Programs of Debian that some tests need."""

from __future__ import annotations

import os
import shutil

import pytest


def find_program(name: str) -> str:
    """Where a program is; without it the test that asks is skipped, in CI it fails."""
    found = shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
    if found is None:
        assert not os.environ.get("CI"), f"{name} must be there in CI"
        pytest.skip(f"{name} is not installed")
    return found
