"""Where a lake is: a directory that all machines see, or a prefix of a bucket: S3, Google Cloud Storage, Azure."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import fs

from queen.spark.errors import SparkError
from queen.spark.lake.durably import room_for, write_whole

SCHEME: Final = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]+):/+")
SCHEMES: Final = {"s3": "s3", "s3a": "s3", "gs": "gs", "abfs": "abfss", "abfss": "abfss"}
"""What people write, and what delta-rs calls it."""
AZURE: Final = re.compile(r"(?P<container>[^@/]+)(@(?P<account>[^./]+)\.[^/]+)?(?P<rest>/.*)?")
ALLOWED: Final = (
    "a directory, s3://bucket/prefix, gs://bucket/prefix or abfss://container@account.dfs.core.windows.net/prefix"
)


@dataclass(frozen=True)
class Place:
    """A directory or a prefix; what is below it is named by relative paths with `/`.

    Who may read and write a bucket says the environment of each process, in the usual names (AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL; GOOGLE_APPLICATION_CREDENTIALS; AZURE_STORAGE_ACCOUNT_NAME,
    AZURE_STORAGE_ACCOUNT_KEY): nothing of it travels.
    """

    address: str

    @classmethod
    def of(cls, given: str | Path) -> Place:
        """The place somebody named."""
        if isinstance(given, Path) or not (found := SCHEME.match(given)):
            return cls(str(Path(given).absolute()))
        scheme = SCHEMES.get(found["scheme"].lower())
        rest = given[found.end() :].strip("/")
        if scheme is None or not rest:
            raise SparkError("INVALID_OPTION", f"a lake must be {ALLOWED}, not {given!r}")
        if scheme == "abfss":
            require_account(rest)
        return cls(f"{scheme}://{rest}")

    @property
    def local(self) -> bool:
        """Whether this is a directory."""
        return SCHEME.match(self.address) is None

    @property
    def shown(self) -> str:
        """For people: with the host, where that matters."""
        return f"{socket.gethostname()}:{self.address}" if self.local else self.address

    @property
    def storage(self) -> dict[str, str]:
        """What delta-rs has to be told besides what it finds in the environment."""
        plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        return {"AWS_ALLOW_HTTP": "true"} if plain and self.address.startswith("s3:") else {}

    def below(self, *parts: str) -> Place:
        """A place further down."""
        return Place("/".join((self.address, *parts)))

    @cached_property
    def filesystem(self) -> fs.FileSystem:
        """The way to its files, for this process."""
        if self.local:
            return fs.LocalFileSystem()
        if self.address.startswith("gs:"):
            return fs.GcsFileSystem(retry_time_limit=timedelta(seconds=60))
        if self.address.startswith("abfss:"):
            account, key = require_account(SCHEME.sub("", self.address)), os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
            return fs.AzureFileSystem(account, account_key=key)
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
        root = SCHEME.sub("", self.address, count=1)
        if self.address.startswith("abfss:") and (parts := AZURE.fullmatch(root)):
            root = parts["container"] + (parts["rest"] or "")
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

    def remove(self, names: Sequence[str]) -> int:
        """Remove files; returns how many were there."""
        removed = 0
        for name in names:
            with suppress(FileNotFoundError):
                self.filesystem.delete_file(self.path(name))
                removed += 1
        return removed


def require_account(rest: str) -> str:
    """The account of Azure that an address names, or the environment."""
    parts = AZURE.fullmatch(rest)
    account = parts["account"] if parts else None
    account = account or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if not account:
        raise SparkError(
            "INVALID_OPTION",
            "a lake on Azure must be abfss://container@account.dfs.core.windows.net/prefix, or "
            "AZURE_STORAGE_ACCOUNT_NAME must be in the environment of the driver and the executors",
        )
    return account
