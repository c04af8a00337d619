"""report: one page for people with what the other pipelines found, complete in itself.

It shows the newest results of rollups, traces, triage and skew; the figures are in the page as JSON too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from queen.spark.database import Database
from queen.spark.lake.places import Place
from queen.spark.pipelines import pictures, results
from queen.spark.pipelines.definition import Context, Outcome, Period, pipeline

SECTIONS: Final = {
    "rollups": ("queues",),
    "traces": ("traces", "edges", "shapes", "broken"),
    "triage": ("clusters",),
    "skew": ("queues", "hot_partitions", "hot_keys", "blocked", "heat"),
}
SPANS: Final = (("minute", timedelta(hours=6)), ("hour", timedelta(days=15)))
MANY_BEHIND: Final = 50
LONG_BEHIND: Final = 900_000
Rows = list[dict[str, Any]]


@pipeline(
    "report",
    summary="One page with everything the other pipelines found",
    options={"path": "", "title": "Queen"},
    on_spark=False,
)
def report(context: Context) -> Outcome:
    """Write the page: `report.html` in the lake, or where `path` says."""
    context.progress.step("writing the page", 0, 1)
    database = Database(context.url)
    try:
        last = {name: last_run(database, name, context) for name in SECTIONS}
        found = {
            name: {kind: rows_of(database, name, kind, last[name]) for kind in SECTIONS[name]} for name in SECTIONS
        }
        series = read_series(database, context.period)
        runs = {name: json.loads(run["figures"]) if run else {} for name, run in last.items()}
    finally:
        database.close()
    page = rendered(context.options["title"], found, series, runs, datetime.now(UTC))
    path = Path(context.options["path"]) if context.options["path"] else None
    place = Place.of(path.parent) if path else context.lake.place
    name = path.name if path else "report.html"
    place.put(name, page.encode())
    context.progress.step("writing the page", 1, 1)
    counted = sum(len(rows) for kinds in found.values() for rows in kinds.values())
    return Outcome(counted, {"path": f"{place.address}/{name}", "bytes": len(page.encode())})


def last_run(database: Database, name: str, context: Context) -> dict[str, Any] | None:
    """The newest good run of a pipeline on this lake, over the very period of the report."""
    ask = {"pipeline": name, "lake": context.lake.place.address, **context.period.asked()}
    return next(iter(database.rows("pipelines/last_figures", **ask)), None)


def rows_of(database: Database, name: str, kind: str, run: Mapping[str, Any] | None) -> Rows:
    """What a run found."""
    return list(results.read(database, name, kind, run=run["id"])) if run else []


def read_series(database: Database, period: Period) -> Rows:
    """The rollups of whole queues in the period, in a grain that suits its length."""
    bounds = period.asked()
    (extent,) = database.rows("pipelines/rollup_extent", **bounds)
    if extent["low"] is None:
        return []
    length = extent["high"] - extent["low"]
    grain = next((grain for grain, limit in SPANS if length <= limit), "day")
    return database.rows("pipelines/read_series", grain=grain, **bounds)


def rendered(
    title: str, found: Mapping[str, Mapping[str, Rows]], series: Rows, runs: Mapping[str, Any], now: datetime
) -> str:
    """The page."""
    source = files("queen.spark.pipelines").joinpath("templates", "report.html").read_text(encoding="utf-8")
    environment = Environment(loader=DictLoader({"report": source}), autoescape=True, undefined=StrictUndefined)
    environment.filters |= {
        "duration": pictures.duration,
        "amount": pictures.amount,
        "when": when,
        "heat": lambda row: Markup(pictures.draw_heat(row["partitions"], row["counts"], row["queue"])),  # noqa: S704
        "spark": lambda counts: Markup(pictures.draw_spark(counts)),  # noqa: S704 - drawn by us
        "path": lambda hops: Markup(pictures.draw_path(hops)),  # noqa: S704 - drawn by us
        "drawn": Markup,
        "pretty": pretty,
    }
    figures = {"found": found, "runs": runs}
    return environment.get_template("report").render(
        title=title,
        now=now,
        charts=[Markup(chart) for chart in charts(series)],  # noqa: S704 - drawn by us
        lags=[Markup(chart) for chart in lag_charts(series)],  # noqa: S704 - drawn by us
        span=(series[0]["bucket"], series[-1]["bucket"]) if series else None,
        runs=runs,
        findings=findings(found, series),
        embedded=Markup(json.dumps(figures, default=str).replace("<", "\\u003c")),  # noqa: S704 - cannot end the script
        **{f"{name}_{kind}": rows for name, kinds in found.items() for kind, rows in kinds.items()},
    )


def when(moment: str | datetime | None) -> str:
    """A time for people."""
    if moment is None:
        return "-"
    time = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return f"{time.astimezone(UTC):%d %b %Y, %H:%M} UTC"


def pretty(payload: str | None) -> str:
    """A payload with its lines broken."""
    try:
        return json.dumps(json.loads(payload or "null"), indent=2, ensure_ascii=False)
    except ValueError:
        return payload or ""


def charts(series: Rows) -> list[str]:
    """What went in and out of each queue, and how long it waited."""
    drawn: list[str] = []
    for queue in sorted({row["queue"] for row in series}):
        mine = [row for row in series if row["queue"] == queue]
        times = axis(mine)
        groups = sorted({row["consumer_group"] for row in mine})
        went_in = {row["bucket"].timestamp(): row["messages_in"] for row in mine if row["consumer_group"] == groups[0]}
        lines: dict[str, list[float | None]] = {"in": [float(went_in.get(time, 0)) for time in times]}
        for group in groups:
            out = {row["bucket"].timestamp(): row["messages_out"] for row in mine if row["consumer_group"] == group}
            if group:
                lines[f"out: {group}"] = [float(out.get(time, 0)) for time in times]
        drawn.append(pictures.draw_lines(times, lines, f"{queue}: messages per {mine[0]['grain']}"))
        waits: dict[str, list[float | None]] = {}
        for group in filter(None, groups):
            p95 = {row["bucket"].timestamp(): row["wait_p95_ms"] for row in mine if row["consumer_group"] == group}
            waits[group] = [p95.get(time) for time in times]
        if waits:
            drawn.append(pictures.draw_lines(times, waits, f"{queue}: wait, 95th percentile", unit="ms"))
    return drawn


def lag_charts(series: Rows) -> list[str]:
    """How far behind groups were, where any was."""
    behind = sorted({(row["queue"], row["consumer_group"]) for row in series if (row["lag"] or 0) > 0})
    drawn: list[str] = []
    for queue in sorted({queue for queue, _ in behind}):
        mine = [row for row in series if row["queue"] == queue]
        times = axis(mine)
        lines = {group: carried(mine, group, times) for name, group in behind if name == queue}
        if max((value or 0 for line in lines.values() for value in line), default=0) >= 1:
            drawn.append(pictures.draw_lines(times, lines, f"{queue}: messages waiting"))
    return drawn


def axis(rows: Rows) -> list[float]:
    """Every bucket from the first to the last."""
    step = {"minute": 60, "hour": 3600, "day": 86_400}[rows[0]["grain"]]
    stamps = [row["bucket"].timestamp() for row in rows]
    return [float(time) for time in range(int(min(stamps)), int(max(stamps)) + 1, step)]


def carried(rows: Rows, group: str, times: Sequence[float]) -> list[float | None]:
    """The lag of a group; where nothing happened it is what it was."""
    known = {row["bucket"].timestamp(): row["lag"] for row in rows if row["consumer_group"] == group}
    last: float | None = None
    line: list[float | None] = []
    for time in times:
        value = known.get(time)
        last = float(value) if value is not None else last
        line.append(last)
    return line


def findings(found: Mapping[str, Mapping[str, Rows]], series: Rows) -> list[dict[str, str]]:
    """What deserves a look, most urgent first, each cause once."""
    told: list[dict[str, str]] = [
        {"kind": "behind", "text": text, "to": "queues"} for text in behind(series, found["skew"]["blocked"])
    ]
    for row in found["skew"]["blocked"]:
        words = (
            f"{row['queue']}/{row['partition']} was held up by message {row['held_by']} for "
            f"{pictures.duration(row['held_ms'])}; {row['messages']} messages waited"
        )
        told.append({"kind": "blocked", "text": words, "to": "skew"})
    for row in found["triage"]["clusters"]:
        if row["kind"] == "dead" and row["trend"] == "rising":
            words = f"{row['queue']} {row['version']}: {row['error']} ({row['count']} dead letters and rising)"
            told.append({"kind": "rising", "text": words, "to": "failures"})
    hot: dict[str, Rows] = {}
    for row in found["skew"]["hot_partitions"]:
        hot.setdefault(row["partition"], []).append(row)
    for partition, rows in hot.items():
        shares = ", ".join(
            f"{row['share']:.0%} of {row['queue']} ({row['times']:.0f} times the median)" for row in rows
        )
        told.append({"kind": "hot", "text": f"partition {partition} gets {shares}", "to": "skew"})
    broken = len(found["traces"]["broken"])
    if broken:
        words = f"{broken} traces are broken: a message names a parent that was never stored"
        told.append({"kind": "broken", "text": words, "to": "traces"})
    return told


def behind(series: Rows, blocked: Rows) -> Iterator[str]:
    """Groups that fell far behind, unless it was because a partition was held up: that is told of by itself."""
    held: Counter[tuple[str, str]] = Counter()
    for row in blocked:
        held[row["queue"], row["consumer_group"]] += row["messages"]
    lanes = groupby(series, key=lambda row: (row["queue"], row["consumer_group"]))
    for (queue, group), rows in lanes:
        known = [row for row in rows if row["lag"] is not None]
        late = [row for row in known if row["lag"] >= MANY_BEHIND and row["backlog_age_ms"] >= LONG_BEHIND]
        worst = max(late, key=lambda row: row["lag"], default=None)
        if worst is None or 2 * held[queue, group] >= worst["lag"]:
            continue
        left = known[-1]["lag"]
        now = f"{left:,} still wait" if left else "it has caught up since"
        yield (
            f"{queue}: group {group} fell {worst['lag']:,} messages behind ({when(worst['bucket'])}, the oldest waited "
            f"{pictures.duration(worst['backlog_age_ms'])}); {now}"
        )
