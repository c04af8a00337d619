"""The operating-system account the embedded server runs under."""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypedDict


class AccountError(RuntimeError):
    """The account cannot reach what it needs."""


class ProcessOptions(TypedDict, total=False):
    """Arguments for subprocess.run that start a program under another account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns the cluster: ourselves, or an unprivileged user when we are root."""

    uid: int
    gid: int
    switch: bool

    @classmethod
    def choose(cls) -> Self:
        """PostgreSQL refuses root, so root hands over to `postgres`, or to `nobody`."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid(), switch=False)
        for name in ("postgres", "nobody"):
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(entry.pw_uid, entry.pw_gid, switch=True)
        raise AccountError("PostgreSQL refuses to run as root and there is no user `nobody`: run as another user")

    def options(self) -> ProcessOptions:
        """How to start a program under this account."""
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def prepare(self, data_dir: Path, programs: Path) -> None:
        """Make the data directory and see that the account can reach it and the programs."""
        if not data_dir.exists():
            data_dir.mkdir(parents=True)
            if self.switch:
                data_dir.chmod(0o711)
        for path in (data_dir, programs):
            self._require_reachable(path)

    def own_directory(self, path: Path) -> None:
        """Make a directory that only this account can enter."""
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (self.uid, os.geteuid()):
            raise AccountError(f"{path} belongs to another user: remove it or choose another data directory")
        self._own(path)

    def own_file(self, path: Path) -> None:
        """Make a file, if it is missing, that only this account can read."""
        path.touch(mode=0o600)
        self._own(path)

    def _own(self, path: Path) -> None:
        if self.switch:
            os.chown(path, self.uid, self.gid)

    def _require_reachable(self, path: Path) -> None:
        if not self.switch:
            return
        for directory in [path, *path.parents]:
            found = directory.stat()
            if not self._may_enter(found):
                raise AccountError(
                    f"the server runs as user {pwd.getpwuid(self.uid).pw_name}, who may not enter {directory}: "
                    f"choose a path outside it (QUEEN_DATA_DIR), or allow it with `chmod o+x {directory}`"
                )

    def _may_enter(self, found: os.stat_result) -> bool:
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)
