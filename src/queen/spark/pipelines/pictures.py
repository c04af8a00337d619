"""Pictures as SVG, drawn by hand: they need nothing from elsewhere and take their colours from the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from math import ceil, log10
from typing import Any, Final

BOX: Final = (168, 52)
GAP: Final = (44, 14)
INK, FAINT, PANEL = "var(--ink, #1c2230)", "var(--faint, #6b7385)", "var(--panel, #f3f5f9)"
LINE, WAIT, WORK = "var(--line, #d6dbe6)", "var(--wait, #d98a2b)", "var(--work, #2f7dd1)"
COLOURS: Final = (
    "var(--a, #2f7dd1)",
    "var(--b, #d98a2b)",
    "var(--c, #2a9d76)",
    "var(--d, #c2478b)",
    "var(--e, #7a5bd0)",
)
FONT: Final = 'font-family="ui-sans-serif, system-ui, sans-serif"'


def svg(width: float, height: float, inside: Sequence[str], title: str) -> str:
    """A picture of this size, which a page may scale."""
    size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" {FONT} '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(inside)}</svg>'
    )


def text(x: float, y: float, words: str, *, size: float = 12, fill: str = INK, anchor: str = "start") -> str:
    """Words at a place."""
    style = f'font-size="{size:g}" fill="{fill}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def duration(milliseconds: float | None) -> str:
    """A length of time for people."""
    if milliseconds is None:
        return "-"
    for limit, unit, size in ((1000, "ms", 1), (120_000, "s", 1000), (7_200_000, "min", 60_000)):
        if milliseconds < limit:
            value = milliseconds / size
            return f"{value:.0f} {unit}" if value >= 10 or value == 0 else f"{value:.1f} {unit}"
    hours = milliseconds / 3_600_000
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"


def draw_shape(nodes: Sequence[Mapping[str, Any]], count: int) -> str:
    """A trace's shape as a tree from left to right, with the median wait and work of each hop."""
    spots = place_nodes([str(node["place"]) for node in nodes])
    width = max((x for x, _ in spots.values()), default=0) + BOX[0] + 2
    height = max((y for _, y in spots.values()), default=0) + BOX[1] + 2
    drawn: list[str] = []
    for node in nodes:
        place = str(node["place"])
        x, y = spots[place]
        parent = place.rpartition(" > ")[0]
        if parent in spots:
            px, py = spots[parent][0] + BOX[0], spots[parent][1] + BOX[1] / 2
            bend, middle = (x - px) / 2, y + BOX[1] / 2
            path = f"M{px:g} {py:g} C{px + bend:g} {py:g} {x - bend:g} {middle:g} {x:g} {middle:g}"
            drawn.append(f'<path d="{path}" fill="none" stroke="{FAINT}" stroke-width="1.5"/>')
        drawn += draw_node(node, x, y, count)
    return svg(width, height, drawn, f"shape of {count} traces")


def draw_node(node: Mapping[str, Any], x: float, y: float, count: int) -> list[str]:
    """One hop: its queue, and how much of its time was waiting."""
    wait, work = node.get("wait_p50_ms") or 0.0, node.get("work_p50_ms") or 0.0
    times = round(node["count"] / count) if count else 1
    name = str(node["place"]).rpartition(" > ")[2]
    label = (name if len(name) <= 20 else name[:19] + "…") + (f" x{times}" if times > 1 else "")
    bar = BOX[0] - 20
    part = bar * wait / (wait + work) if wait + work else 0
    return [
        f'<rect x="{x + 1:g}" y="{y + 1:g}" width="{BOX[0]}" height="{BOX[1]}" rx="8" fill="{PANEL}" stroke="{LINE}"/>',
        text(x + 11, y + 20, label, size=13),
        text(x + 11, y + 35, f"wait {duration(wait)} · work {duration(work)}", size=10.5, fill=FAINT),
        f'<rect x="{x + 11:g}" y="{y + 42:g}" width="{part:.1f}" height="4" fill="{WAIT}"/>',
        f'<rect x="{x + 11 + part:.1f}" y="{y + 42:g}" width="{bar - part:.1f}" height="4" fill="{WORK}"/>',
    ]


def place_nodes(places: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Where each hop goes: depth to the right, leaves below one another, parents beside their first child."""
    children: dict[str, list[str]] = {}
    for place in sorted(places):
        children.setdefault(place.rpartition(" > ")[0], []).append(place)
    spots: dict[str, tuple[float, float]] = {}
    row = 0
    for place in sorted(places, reverse=True):
        depth = place.count(" > ")
        below = [spots[child][1] for child in children.get(place, []) if child in spots]
        if below:
            y = min(below)
        else:
            y = row * (BOX[1] + GAP[1])
            row += 1
        spots[place] = (depth * (BOX[0] + GAP[0]), y)
    return spots


def nice(top: float) -> float:
    """A round number not below `top`."""
    if top <= 0:
        return 1.0
    step = 10.0 ** (ceil(log10(top)) - 1)
    return float(next(step * size for size in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15) if step * size >= top))


def draw_lines(
    times: Sequence[float], series: Mapping[str, Sequence[float | None]], title: str, *, unit: str = ""
) -> str:
    """Lines over time, one per name; gaps stay gaps."""
    width, height, left, bottom, top = 640, 190, 46, 22, 26
    values = [value for line in series.values() for value in line if value is not None]
    most = nice(max(values, default=1))
    first, last = (times[0], times[-1]) if times else (0.0, 1.0)
    across = (width - left - 8) / ((last - first) or 1)
    up = (height - bottom - top) / most
    drawn = [text(left, 14, title, size=12.5)]
    for part in range(3):
        value = most * part / 2
        y = height - bottom - value * up
        drawn.append(f'<path d="M{left} {y:.1f}H{width - 8}" stroke="{LINE}"/>')
        drawn.append(text(left - 6, y + 4, amount(value, unit), size=10.5, fill=FAINT, anchor="end"))
    drawn += draw_days(first, last, left, across, height)
    legend = float(width - 8)
    for place, (name, line) in enumerate(reversed(list(series.items()))):
        colour = COLOURS[(len(series) - 1 - place) % len(COLOURS)]
        drawn.append(text(legend, 14, name, size=11, fill=colour, anchor="end"))
        legend -= 7 * len(name) + 14
        points = [
            None if value is None else (left + (time - first) * across, height - bottom - value * up)
            for time, value in zip(times, line, strict=True)
        ]
        drawn.append(f'<path d="{trail(points)}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    return svg(width, height, drawn, title)


def trail(points: Sequence[tuple[float, float] | None]) -> str:
    """A line through points, broken where there is none."""
    parts: list[str] = []
    pen = "M"
    for point in points:
        if point is None:
            pen = "M"
        else:
            parts.append(f"{pen}{point[0]:.1f} {point[1]:.1f}")
            pen = "L"
    return "".join(parts)


def draw_days(first: float, last: float, left: float, across: float, height: float) -> list[str]:
    """Marks below a chart: days, or hours of a short time."""
    step = next((step for step in (3600, 4 * 3600, 86_400, 7 * 86_400) if (last - first) / step <= 10), 30 * 86_400)
    shape = "%H:%M" if step < 86_400 else "%d %b"
    marks: list[str] = []
    mark = ceil(first / step) * step
    while mark <= last:
        x = left + (mark - first) * across
        marks.append(f'<path d="M{x:.1f} {height - 22}v4" stroke="{FAINT}"/>')
        said = datetime.fromtimestamp(mark, UTC).strftime(shape)
        marks.append(text(x, height - 6, said, size=10.5, fill=FAINT, anchor="middle"))
        mark += step
    return marks


def amount(value: float, unit: str = "") -> str:
    """A number for people, short."""
    if unit == "ms":
        return duration(value)
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {letter}{unit}"
    return f"{value:.3g}{' ' if unit else ''}{unit}"


def draw_heat(names: Sequence[str], counts: Sequence[Sequence[int]], title: str) -> str:
    """Rows of cells, the darker the more."""
    left, cell, high = 120.0, 10.6, 15.0
    most = max((count for row in counts for count in row), default=0) or 1
    drawn = [text(0, 13, title, size=12.5)]
    for place, (name, row) in enumerate(zip(names, counts, strict=True)):
        y = 22 + place * high
        drawn.append(text(left - 8, y + 11, name if len(name) <= 17 else name[:16] + "…", size=10.5, anchor="end"))
        for slot, count in enumerate(row):
            if count:
                shade = 0.08 + 0.92 * count / most
                drawn.append(
                    f'<rect x="{left + slot * cell:.1f}" y="{y:g}" width="{cell - 1:.1f}" height="{high - 1.5:g}" '
                    f'rx="1.5" fill="{WORK}" fill-opacity="{shade:.2f}"><title>{escape(name)}: {count}</title></rect>'
                )
    width = left + max((len(row) for row in counts), default=1) * cell
    return svg(width, 24 + len(names) * high, drawn, title)


def draw_spark(counts: Sequence[int]) -> str:
    """A small bar chart."""
    most = max(counts, default=0) or 1
    highs = [22 * count / most for count in counts]
    bars = [
        f'<rect x="{place * 5}" y="{24 - high:.1f}" width="4" height="{high + 1:.1f}" fill="{WAIT}"/>'
        for place, high in enumerate(highs)
    ]
    return svg(len(counts) * 5, 26, bars, "how many over time")


def draw_path(hops: Sequence[Mapping[str, Any]]) -> str:
    """A critical path as one bar: waiting and work, hop after hop."""
    total = sum((hop.get("wait_ms") or 0) + (hop.get("work_ms") or 0) for hop in hops) or 1
    x, drawn = 0.0, []
    for hop in hops:
        for part, colour in (("wait_ms", WAIT), ("work_ms", WORK)):
            value = hop.get(part) or 0.0
            wide = 300 * value / total
            words = f"{hop['queue']} {part[:4]} {duration(value)}"
            drawn.append(
                f'<rect x="{x:.1f}" y="2" width="{max(wide - 0.6, 0.4):.1f}" height="12" fill="{colour}">'
                f"<title>{escape(words)}</title></rect>"
            )
            x += wide
    return svg(300, 16, drawn, "waiting and work along the critical path")
