"""The operating-system account the embedded server runs under."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

# The least of the capabilities that let a process pass through directories closed to it.
CAPABILITIES = {"dac_read_search": 2, "dac_override": 1}


class AccountError(RuntimeError):
    """The account cannot reach what it needs."""


@dataclass(frozen=True, slots=True)
class Account:
    """Who owns the cluster: ourselves, or an unprivileged user when we are root."""

    uid: int
    gid: int
    switch: bool
    capability: str = ""

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

    def reaching(self, *paths: Path) -> Self:
        """The same account, able to reach these paths.

        Root often works below a directory closed to everyone else, such as /root. The directory
        stays closed: the server gets the capability to pass through it instead.
        """
        closed = next((place for path in paths for place in (path, *path.parents) if not self._may_enter(place)), None)
        if closed is None:
            return self
        for name, bit in CAPABILITIES.items():
            if shutil.which("setpriv") and _capabilities() >> bit & 1:
                return replace(self, capability=name)
        raise AccountError(
            f"the server runs as user {pwd.getpwuid(self.uid).pw_name}, who may not enter {closed}: "
            f"choose a path outside it (QUEEN_DATA_DIR), or allow it with `chmod o+x {closed}`"
        )

    def run(self, command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a program under this account and wait for it."""
        switched = self.switch and not self.capability
        return subprocess.run(
            [*self._prefix(), *command],
            capture_output=True,
            text=True,
            cwd="/",
            env=environment,
            check=False,
            user=self.uid if switched else None,
            group=self.gid if switched else None,
            extra_groups=[] if switched else None,
        )

    def _prefix(self) -> list[str]:
        if not self.capability:
            return []
        # Without this bit access(2), which PostgreSQL asks about its programs, leaves capabilities out.
        who = [
            "setpriv",
            f"--reuid={self.uid}",
            f"--regid={self.gid}",
            "--clear-groups",
            "--securebits=+no_setuid_fixup",
        ]
        return [*who, f"--inh-caps=+{self.capability}", f"--ambient-caps=+{self.capability}", "--"]

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

    def _may_enter(self, directory: Path) -> bool:
        found = directory.stat()
        if not self.switch:
            return True
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def _capabilities() -> int:
    try:
        match = re.search(r"^CapBnd:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(match[1], 16) if match else 0
