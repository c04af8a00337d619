"""The disk buffer: where pushes go while the database is away or push maintenance is on.

One directory is shared by all workers of a broker:

    0000…0042.records   a segment: records in the order they were accepted, named for its first seq
    state               what the workers agree on, and the lock they write under
    drain               the lock of the one worker that stores what waits
    failed/             what could not be stored or read, and why (`queen buffer ls`)

A record is one push, all or none. It is answered once it is on disk (one fdatasync for all who write at that moment)
and has a seq from the one count of the directory: in that order it is stored, whichever worker took it. While
something of a partition waits, later pushes to that partition queue behind it, on every worker.

Messages got their ids before they came here, and draining looks each one up before it is stored: a push whose
outcome was unknown, or a drain that was cut off, stores nothing twice.
"""

from queen.server.buffer.buffer import Buffer, BufferFull, BufferStats

__all__ = ["Buffer", "BufferFull", "BufferStats"]
