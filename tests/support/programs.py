"""Programs of Debian that some tests need."""

from __future__ import annotations

import os
import shutil


def find_program(name: str) -> str:
    """Where a program is; without it the test that asks fails: what is not run is not shown."""
    found = shutil.which(name, path=f"{os.environ['PATH']}{os.pathsep}/usr/sbin")
    assert found is not None, f"{name} is not installed: `scripts/install-debian {name}:{name}` does that"
    return found
