"""Runs at the start of every process of the rack: its clock can be moved, and a planted defect is put in place.

The clock is a number in a file of eight bytes, milliseconds ahead, which the nemesis changes while the process runs.
"""

from __future__ import annotations

import mmap
import os
import struct
import time


def _move_clock(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    ahead = mmap.mmap(descriptor, 8, prot=mmap.PROT_READ)
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + struct.unpack_from("<q", ahead)[0] / 1000
    time.time_ns = lambda: nanoseconds() + struct.unpack_from("<q", ahead)[0] * 1_000_000


if _path := os.environ.get("TORTURE_CLOCK"):
    _move_clock(_path)
if _defect := os.environ.get("TORTURE_DEFECT"):
    from torture.defects import plant_in_process

    plant_in_process(_defect)
