"""Homes of our own around what packages bring, each with one thing changed."""

from __future__ import annotations

import os
import tempfile
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path


def private_home(kind: str, origin: Path) -> Path | None:
    """A directory only we may write to, the same for each origin; None when somebody else has taken its name."""
    home = Path(tempfile.gettempdir()) / f"queen-{kind}-{os.getuid()}-{zlib.crc32(os.fsencode(origin)):08x}"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    return home if home.stat().st_uid == os.getuid() else None


def spark_home() -> Path | None:
    """A home for Spark in which Python workers load PySpark as it is installed; None when it is no wheel's.

    The wheel has PySpark twice: as a package, and as a zip file for machines that lack it. Workers would look
    into the zip first, where Python finds nothing compiled: each would compile it all again, for a second.
    """
    spec = find_spec("pyspark")
    origin = Path(next(iter((spec.submodule_search_locations or []) if spec else []), ""))
    if not (origin / "python" / "lib" / "pyspark.zip").is_file():
        return None
    home = private_home("spark", origin)
    if home is not None:
        (home / "python").mkdir(exist_ok=True)
        for part in ("bin", "sbin", "conf", "data", "jars", "licenses", "python/pyspark"):
            if (origin / part).is_dir():
                with suppress(FileExistsError):
                    (home / part).symlink_to(origin / part)
    return home
