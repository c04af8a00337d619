"""Files that are on the disk when we say so, whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from queen.spark.errors import SparkError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_new(path: Path, data: bytes) -> bool:
    """Make a file with this content, at once and for good; False when there is one already."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    with room_for(path):
        try:
            with draft.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            path.hardlink_to(draft)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        sync_directory(path.parent)
    return True


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    sync_file(path)


def digest(path: Path) -> str:
    """The fingerprint of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def room_for(path: Path) -> Iterator[None]:
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
