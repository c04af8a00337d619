"""What a verify found, for people (HTML) and programs (JSON)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from jinja2 import Environment

if TYPE_CHECKING:
    from queen.transfer.link import Link
    from queen.transfer.model import State


class Difference(msgspec.Struct, frozen=True, rename="camel"):
    """One thing that is not the same on both sides: what, where, and what each side says."""

    verdict: str
    queue: str
    partition: str
    name: str
    source: str | None
    target: str | None


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """Everything that was compared, and what differs."""

    passed: bool
    version: str
    phase: str
    engine: Literal["sql", "spark"]
    started_at: datetime
    ended_at: datetime
    compared: dict[str, int]
    differences: list[Difference]

    @classmethod
    def of(
        cls,
        link: Link,
        state: State,
        engine: Literal["sql", "spark"],
        started: datetime,
        counts: Mapping[str, int],
        differences: Sequence[Difference],
    ) -> Report:
        """A report that ends now."""
        ended = datetime.now(UTC)
        found = list(differences)
        return cls(not found, link.version, state.phase, engine, started, ended, dict(counts), found)

    def to_json(self) -> str:
        """The report as JSON text."""
        return msgspec.json.encode(self).decode()

    def to_html(self) -> str:
        """The report as a page of its own."""
        return _PAGE.render(report=self, seconds=(self.ended_at - self.started_at).total_seconds())


_PAGE: Final = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Transfer from {{ report.version }}: {{ "passed" if report.passed else "differences" }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #1c1c28 }
h1 { font-size: 1.4rem } .passed { color: #0a7d38 } .failed { color: #b3261e }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 } th, td { text-align: left; padding: .3rem .6rem;
border-bottom: 1px solid #ddd; vertical-align: top; overflow-wrap: anywhere } td.n { text-align: right }
</style>
</head>
<body>
<h1>Transfer from {{ report.version }}:
{% if report.passed %}<span class="passed">both sides are the same</span>
{% else %}<span class="failed">{{ report.differences | length }} differences</span>{% endif %}</h1>
<p>Compared by {{ report.engine }} in {{ "%.1f" | format(seconds) }} s, ended
{{ report.ended_at.strftime("%Y-%m-%d %H:%M:%S") }} UTC.</p>
<table><tr><th>Compared</th><th>How many</th></tr>
{% for kind, number in report.compared | dictsort %}
<tr><td>{{ kind }}</td><td class="n">{{ "{:,}".format(number) }}</td></tr>
{% endfor %}</table>
{% if report.differences %}
<table><tr><th>What</th><th>Queue</th><th>Partition</th><th>Of</th><th>Source</th><th>Target</th></tr>
{% for each in report.differences %}
<tr><td>{{ each.verdict }}</td><td>{{ each.queue }}</td><td>{{ each.partition }}</td><td>{{ each.name }}</td>
<td>{{ each.source or "" }}</td><td>{{ each.target or "" }}</td></tr>
{% endfor %}</table>
{% endif %}
</body>
</html>
""")
