"""Shows a stream's progress as a consumer group's cursor, so that its lag is seen like any other."""

from __future__ import annotations

from collections.abc import Sequence

from queen.spark.database import Database

STEP = 200_000


class Mirror:
    """Moves the cursors of one group up to where a stream has come. Spark's checkpoint stays the truth."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._known: set[int] = set()
        self._done: int | None = None

    def move(self, database: Database, queues: Sequence[int], pos: int) -> None:
        """Everything below `pos` is read: let the cursors say so."""
        self._subscribe(database, queues)
        if self._done is None:
            least = database.row("position_of_group", queues=list(queues), group=self._group)["pos"]
            self._done = pos if least is None else min(least, pos)
        while self._done < pos:
            end = min(self._done + STEP, pos)
            database.rows("mirror_group", queues=list(queues), group=self._group, **{"from": self._done, "to": end})
            self._done = end

    def _subscribe(self, database: Database, queues: Sequence[int]) -> None:
        for queue in set(queues) - self._known:
            more = database.row("subscribe", queue=queue, group=self._group)["more"]
            while more:
                more = database.row("fill_subscription", queue=queue, group=self._group)["more"]
            self._known.add(queue)
