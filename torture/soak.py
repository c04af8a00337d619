"""What an hour does: memory, tables and latency over time as a picture, and whether they stay flat."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import median

from torture.history import read

# Allowed beyond what there was in the second quarter: room for a collector that has not run yet.
GROWTH = 1.35
SPARE = {"memory": 48 << 20, "sizes": 16 << 20}
Series = dict[str, list[tuple[float, float]]]


def samples(folder: Path) -> dict[str, Series]:
    """What was measured while it ran, by kind and name: time since the start, and the figure."""
    found: dict[str, Series] = {"memory": defaultdict(list), "sizes": defaultdict(list)}
    start: float | None = None
    for line in (folder / "samples.jsonl").read_text().splitlines():
        at, kind, figures = json.loads(line)
        start = at if start is None else start
        for name, figure in figures.items():
            if figure:
                found[kind][name].append((at - start, figure))
    found["latency"] = latencies(folder)
    return found


def latencies(folder: Path) -> Series:
    """Seconds from the answer to a push until a group first has the message: medians and 99th percentiles by minute."""
    pushed: dict[str, float] = {}
    first: dict[str, float] = {}
    open_calls: dict[tuple[str, int], list[str]] = {}
    for note in read(folder):
        if note.kind == "push":
            open_calls[note.source, note.fields[0]] = [name for _, _, name, later in note.fields[1] if not later]
        elif note.kind == "pushed":
            pushed.update(dict.fromkeys(open_calls.pop((note.source, note.fields[0])), note.at))
        elif note.kind == "popped":
            for _, _, _, messages in note.fields[4]:
                for name, _ in messages:
                    first[name] = min(note.at, first.get(name, note.at))
    start = min(pushed.values(), default=0.0)
    minutes: dict[int, list[float]] = defaultdict(list)
    for name, at in pushed.items():
        if name in first:
            minutes[int((at - start) // 60)].append(max(first[name] - at, 0.0))
    found: Series = defaultdict(list)
    for minute, waits in sorted(minutes.items()):
        waits.sort()
        found["p50"].append((minute * 60.0, median(waits)))
        found["p99"].append((minute * 60.0, waits[int(len(waits) * 0.99)]))
    return found


def not_flat(folder: Path) -> list[str]:
    """What grew from the second to the last quarter of the run, beyond what is allowed."""
    found: list[str] = []
    for kind, series in samples(folder).items():
        for name, points in series.items():
            if kind not in SPARE or len(points) < 40:
                continue
            quarter = len(points) // 4
            before = median(figure for _, figure in points[quarter : 2 * quarter])
            after = median(figure for _, figure in points[-quarter:])
            if after > before * GROWTH + SPARE[kind]:
                found.append(f"flat: {kind} of {name} went from {before / 2**20:.0f} to {after / 2**20:.0f} MiB")
    return found


def draw(folder: Path, picture: Path) -> None:
    """The three of them, one below the other."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 1, figsize=(10, 11), sharex=True)
    titles = {"memory": ("memory of processes", "MiB"), "sizes": ("tables", "MiB"), "latency": ("push to pop", "s")}
    for axis, (kind, series) in zip(axes, samples(folder).items(), strict=True):
        title, unit = titles[kind]
        scale = 2**20 if unit == "MiB" else 1
        for name, points in sorted(series.items()):
            axis.plot([at / 60 for at, _ in points], [value / scale for _, value in points], label=name, linewidth=1)
        axis.set_title(title)
        axis.set_ylabel(unit)
        axis.set_ylim(bottom=0)
        axis.legend(fontsize=7, ncol=3)
    axes[-1].set_xlabel("minutes")
    figure.tight_layout()
    figure.savefig(picture, dpi=90)
    pyplot.close(figure)
