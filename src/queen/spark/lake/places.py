"""Where a lake is: a directory that all machines see, or a prefix of a bucket that speaks S3."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import fs

from queen.spark.errors import SparkError
from queen.spark.lake.durably import room_for, write_whole

SCHEME: Final = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]+):/+")


@dataclass(frozen=True)
class Place:
    """A directory or a prefix; what is below it is named by relative paths with `/`.

    Who may read and write a bucket says the environment of each process, in the usual names (AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL): nothing of it travels.
    """

    address: str

    @classmethod
    def of(cls, given: str | Path) -> Place:
        """The place somebody named."""
        if isinstance(given, Path) or not (found := SCHEME.match(given)):
            return cls(str(Path(given).absolute()))
        if found["scheme"].lower() not in ("s3", "s3a"):
            raise SparkError(
                "INVALID_OPTION",
                f"a lake must be a directory or s3://bucket/prefix, not {given!r}",
            )
        rest = given[found.end() :].strip("/")
        if not rest:
            raise SparkError("INVALID_OPTION", f"a lake must be s3://bucket/prefix, not {given!r}")
        return cls(f"s3://{rest}")

    @property
    def local(self) -> bool:
        """Whether this is a directory."""
        return not self.address.startswith("s3://")

    @property
    def shown(self) -> str:
        """For people: with the host, where that matters."""
        return f"{socket.gethostname()}:{self.address}" if self.local else self.address

    @property
    def storage(self) -> dict[str, str]:
        """What delta-rs has to be told besides what it finds in the environment."""
        plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        return {"AWS_ALLOW_HTTP": "true"} if plain and not self.local else {}

    def below(self, *parts: str) -> Place:
        """A place further down."""
        return Place("/".join((self.address, *parts)))

    @cached_property
    def filesystem(self) -> fs.FileSystem:
        """The way to its files, for this process."""
        if self.local:
            return fs.LocalFileSystem()
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or None
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None
        return fs.S3FileSystem(
            endpoint_override=endpoint,
            region=region or "us-east-1",
            scheme="http" if endpoint and endpoint.startswith("http://") else "https",
            connect_timeout=10,
            request_timeout=60,
        )

    def __getstate__(self) -> dict[str, str]:
        return {"address": self.address}

    def path(self, name: str = "") -> str:
        """A name as the filesystem wants it."""
        root = self.address.removeprefix("s3://")
        return f"{root}/{name}" if name else root

    def sizes(self, names: list[str]) -> list[int]:
        """How large files are; -1 for what is not there."""
        found = self.filesystem.get_file_info([self.path(name) for name in names])
        return [info.size if info.type == fs.FileType.File else -1 for info in found]

    def names(self) -> list[str]:
        """What lies directly below; nothing when there is no such place."""
        chosen = fs.FileSelector(self.path(), allow_not_found=True)
        return [info.base_name for info in self.filesystem.get_file_info(chosen)]

    def put(self, name: str, data: pa.Buffer | bytes) -> None:
        """Write a file, whole or not at all, on the disk when this returns."""
        if self.local:
            write_whole(Path(self.path(name)), data)
            return
        with room_for(self.path(name)), self.filesystem.open_output_stream(self.path(name)) as out:
            out.write(data)

    def get(self, name: str) -> pa.NativeFile:
        """A file to read from."""
        return self.filesystem.open_input_file(self.path(name))
