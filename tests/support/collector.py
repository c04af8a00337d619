"""Python's garbage collector, kept out of what is timed."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def light(request: pytest.FixtureRequest) -> Iterator[None]:
    """What is timed does not pay for the objects of the run: each full collection would walk half a million."""
    if request.node.get_closest_marker("measure") is None:
        yield
        return
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
