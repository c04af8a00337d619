"""Series for charts: what happened bucket by bucket, gaps left as gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from markupsafe import Markup
from msgspec import field

from queen import errors
from queen.dashboard.look import Minute, Sample
from queen.db.pool import Row
from queen.server.wire import Wire

RANGES: Final[Mapping[str, tuple[str, float, int]]] = {
    "5m": ("5 min", 5 * 60, 60),
    "1h": ("1 h", 3600, 60),
    "24h": ("24 h", 86_400, 900),
    "7d": ("7 d", 7 * 86_400, 7200),
    "30d": ("30 d", 30 * 86_400, 21_600),
}
BY_MINUTE: Final = 2 * 86_400
MARKS: Final = 30
SPARK_WIDTH: Final = 96
SPARK_HEIGHT: Final = 22


class Series(Wire, kw_only=True):
    """Points on one time axis (seconds since 1970), null where nothing was collected; and what people did meanwhile."""

    at: list[int]
    pushed: list[float | None]
    done: list[float | None]
    failed: list[float | None]
    waiting: list[float | None]
    oldest: list[float | None]
    marks: list[tuple[int, str]] = field(default_factory=list)


def wanted_range(given: str | None) -> str:
    """The range asked for, one hour unless given."""
    if given is None:
        return "1h"
    if given not in RANGES:
        raise errors.InvalidRequest("range", f"range must be one of {', '.join(RANGES)}")
    return given


def from_rows(rows: Sequence[Row], chosen: str, now: datetime) -> Series:
    """A series of stored statistics: rates per second, and what waited at most."""
    _, length, step = RANGES[chosen]
    end = int(now.timestamp()) // step * step
    places = range(end - int(length) // step * step, end + step, step)
    by_place = {int(row["bucket"].timestamp()): row for row in rows}
    last = max(by_place, default=end)
    series = Series(at=list(places), pushed=[], done=[], failed=[], waiting=[], oldest=[])
    for place in places:
        row = by_place.get(place)
        # The bucket under way covers less time than it will.
        seconds = max(min(step, now.timestamp() - place), 10) if place == last else step
        series.pushed.append(None if row is None else round(row["pushed"] / seconds, 2))
        series.done.append(None if row is None else round(row["acked"] / seconds, 2))
        series.failed.append(None if row is None else round(row["failed"] / seconds, 2))
        series.waiting.append(None if row is None else row["waiting"])
        series.oldest.append(None if row is None else round(row["max_lag_ms"] / 1000, 1))
    return series


def from_samples(samples: Sequence[Sample], now: float) -> Series:
    """A series of the looks taken lately, for the shortest range."""
    series = Series(at=[], pushed=[], done=[], failed=[], waiting=[], oldest=[])
    for earlier, later in pairwise(samples):
        if later.at < now - RANGES["5m"][1] or later.at <= earlier.at:
            continue
        seconds, gap = later.at - earlier.at, later.at - earlier.at > 30
        series.at.append(int(later.at))
        series.pushed.append(None if gap else round(max(later.pushed - earlier.pushed, 0) / seconds, 2))
        series.done.append(None if gap else round(max(later.done - earlier.done, 0) / seconds, 2))
        series.failed.append(None if gap else round(max(later.failed - earlier.failed, 0) / seconds, 2))
        series.waiting.append(later.waiting)
        series.oldest.append(round(later.oldest, 1))
    return series


def spark(minutes: Sequence[Minute], now: datetime) -> Markup:
    """What came in during the last hour, as a line small enough for a row; minutes without a number are gaps."""
    end = int(now.timestamp()) // 60
    by_minute = {int(each.bucket.timestamp()) // 60: each.pushed for each in minutes}
    most = max(by_minute.values(), default=0) or 1
    path, pen_up = [], True
    for place in range(60):
        value = by_minute.get(end - 60 + place)
        if value is None:
            pen_up = True
            continue
        x, y = place * SPARK_WIDTH / 59, 1 + (SPARK_HEIGHT - 2) * (1 - value / most)
        path.append(f"{'M' if pen_up else 'L'}{x:.1f} {y:.1f}")
        pen_up = False
    return _drawn("".join(path))


def line(values: Sequence[float]) -> Markup:
    """Numbers as a line small enough for a row."""
    most = max(values, default=0) or 1
    step = SPARK_WIDTH / max(len(values) - 1, 1)
    points = [f"{place * step:.1f} {1 + (SPARK_HEIGHT - 2) * (1 - v / most):.1f}" for place, v in enumerate(values)]
    return _drawn("M" + "L".join(points) if points else "")


def _drawn(path: str) -> Markup:
    return Markup(
        '<svg class="spark" viewBox="0 0 {w} {h}" width="{w}" height="{h}" aria-hidden="true"><path d="{d}"/></svg>'
    ).format(w=SPARK_WIDTH, h=SPARK_HEIGHT, d=path)


def now_of(look_now: datetime | None) -> datetime:
    """The moment of a look, or now."""
    return look_now or datetime.now(UTC)
