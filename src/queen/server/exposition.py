"""The text that Prometheus reads, and distributions that cost little to keep and little to show.

A scrape shows several thousand lines; they are joined from labels that were written out once, so that it takes
milliseconds of the event loop.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

Kind = Literal["counter", "gauge"]
Labels = Mapping[str, str]
Value = int | float


def family(kind: Kind, name: str, text: str, samples: Iterable[tuple[Labels, Value]]) -> str:
    """A counter or gauge: its description and one line per sample."""
    shown = f"{name}_total" if kind == "counter" else name
    lines = [f"# HELP {shown} {text}", f"# TYPE {shown} {kind}"]
    lines += [f"{shown}{_braced(labels)} {_number(value)}" for labels, value in samples]
    return "\n".join(lines) + "\n"


class Distribution(Struct):
    """How often values fell below each bound (the last count is of those above all), and their sum."""

    counts: list[int]
    sum: float = 0.0

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)


class Histogram:
    """Distributions of one measure, by the values of one label."""

    def __init__(self, name: str, text: str, label: str, bounds: Sequence[float]) -> None:
        self.name = name
        self._text = text
        self._label = label
        self._bounds = bounds
        self._edges = [f'{_number(bound)}"}} ' for bound in bounds] + ['+Inf"} ']
        self.by_label: dict[str, Distribution] = {}

    def observe(self, label: str, value: float) -> None:
        """Count a value."""
        found = self.by_label.get(label)
        if found is None:
            found = self.by_label[label] = Distribution([0] * (len(self._bounds) + 1))
        found.counts[bisect_left(self._bounds, value)] += 1
        found.sum += value

    def expose(self, parts: Sequence[Mapping[str, Distribution]]) -> str:
        """The distributions of several processes as text, added up."""
        lines = [f"# HELP {self.name} {self._text}", f"# TYPE {self.name} histogram"]
        for label, own in merged(parts).items():
            named = f'{self._label}="{escape(label)}"'
            start, below = f'{self.name}_bucket{{{named},le="', 0
            for edge, count in zip(self._edges, own.counts, strict=True):
                below += count
                lines.append(f"{start}{edge}{below}")
            lines.append(f"{self.name}_count{{{named}}} {below}")
            lines.append(f"{self.name}_sum{{{named}}} {own.sum!r}")
        return "\n".join(lines) + "\n"


def merged(parts: Sequence[Mapping[str, Distribution]]) -> Mapping[str, Distribution]:
    """The distributions of several processes, added up by label."""
    if len(parts) == 1:
        return parts[0]
    whole: dict[str, Distribution] = {}
    for label, found in ((label, found) for part in parts for label, found in part.items()):
        known = whole.get(label)
        whole[label] = found if known is None else _added(known, found)
    return whole


def _added(one: Distribution, two: Distribution) -> Distribution:
    return Distribution([a + b for a, b in zip(one.counts, two.counts, strict=True)], one.sum + two.sum)


def escape(value: str) -> str:
    """A label's value as it stands between quotes."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _braced(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = [f'{name}="{escape(value)}"' for name, value in labels.items()]
    return f"{{{','.join(pairs)}}}"


def _number(value: Value) -> str:
    return "NaN" if math.isnan(value) else repr(float(value))
