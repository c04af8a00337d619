"""How far a run is: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
from time import monotonic

import click

WIDTH = 30
REFRESH = 0.1
LOG_EVERY = 10.0


class Bar:
    """Shows steps with rows per second and what is left. Fits `queen.spark.pipelines.Progress`."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._name = ""
        self._began = self._last = monotonic()
        self._shown = 0.0
        self._open = False

    def step(self, name: str, done: int, total: int | None) -> None:
        """Show how far a step is."""
        now = monotonic()
        if name != self._name:
            self.end()
            self._name, self._began, self._shown = name, self._last, 0.0
        self._last = now
        ended = done == total
        if not ended and now - self._shown < (REFRESH if self._live else LOG_EVERY):
            return
        self._shown = now
        text = described(name, done, total, done / max(now - self._began, 0.001))
        if self._live:
            click.echo(f"\r\x1b[K{text}", nl=ended, err=True)
            self._open = not ended
        else:
            click.echo(text, err=True)

    def end(self) -> None:
        """Leave the line as it is."""
        if self._open:
            click.echo(err=True)
            self._open = False


def described(name: str, done: int, total: int | None, rate: float) -> str:
    """A step in one line."""
    if total is None:
        return f"{name:<18} {done:,}  {rate:,.0f}/s"
    share = done / total if total else 1.0
    bar = "#" * round(WIDTH * share)
    left = f"{(total - done) / rate:,.0f} s left" if rate and done < total else "done"
    return f"{name:<18} [{bar:<{WIDTH}}] {done:,} of {total:,}  {rate:,.0f}/s  {left}"
