"""Files that are on the disk when we say so, whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from queen.spark.errors import SparkError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_whole(path: Path, data: Any) -> None:
    """Make or replace a file at once and for good."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    with room_for(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def room_for(path: Path | str) -> Iterator[None]:
    """Say in one sentence that a disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise full(path) from error
        raise


def full(path: Path | str) -> SparkError:
    """The disk has no room."""
    return SparkError(
        "LAKE_FULL",
        f"there is no room for {path}: make room, then run again; nothing that was in the lake is changed, and no "
        "message is removed from the database before it is in the lake",
    )
