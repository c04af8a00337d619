"""Where the time goes between a push over HTTP and its delivery to a consumer that waits, at 500 messages a second.

    python bench/latency.py [--seconds 10] [--save]

One broker with one worker; it notes when each message passed each stage (`staged_server.py`), and the clock is one for
all processes of a machine. Prints the table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).parent))

from broker import DELIVERIES, RESULTS, run_broker
from http_load import CONSUMERS, Broker, Deliveries

from queen.db.embedded import EmbeddedServer

STAGES = (
    ("sent", "came", "to the broker: sent, read, parsed"),
    ("came", "push began", "waits for its call: pushes of the same moment share one"),
    ("push began", "pushed", "PostgreSQL stores it, to the commit on disk"),
    ("pushed", "pop began", "a waiting pop is woken, or the one under way ends"),
    ("pop began", "popped", "PostgreSQL hands it out"),
    ("popped", "heard", "to the consumer: the answer written, sent, read"),
)


class Noted(Deliveries):
    """Deliveries, and when each was heard of."""

    def __init__(self, broker: Broker, rate: int) -> None:
        super().__init__(broker, rate)
        self.heard: dict[str, float] = {}

    @property
    def sent(self) -> dict[str, float]:
        """When each was sent."""
        return {name.decode(): at for name, at in self._sent.items()}

    def hear(self, names: list[bytes], at: float) -> None:
        """Note when each came."""
        self.heard.update((name.decode(), at) for name in names)


async def measure(url: str, seconds: float) -> Noted:
    broker = Broker(url)
    noted = Noted(broker, DELIVERIES)
    await broker.run(noted.prepare())
    consumers = [asyncio.ensure_future(broker.run(noted.consume(seconds + 1.0))) for _ in range(CONSUMERS)]
    await asyncio.sleep(0.3)
    await noted.produce(1.0)
    noted.heard.clear()
    await noted.produce(seconds)
    await asyncio.gather(*consumers)
    return noted


def table(noted: Noted, stages: dict[str, dict[str, float]]) -> str:
    sent = noted.sent
    found = [
        {**stages[name], "sent": sent[name], "heard": heard}
        for name, heard in noted.heard.items()
        if name in sent and len(stages.get(name, {})) == 5
    ]
    lines = [f"| push to delivery at {DELIVERIES}/s, in ms | p50 | mean | p99 |", "|---|---:|---:|---:|"]
    for start, end, text in (*STAGES, ("sent", "heard", "**all of it**")):
        times = [(one[end] - one[start]) * 1000 for one in found]
        p99 = statistics.quantiles(times, n=100)[98]
        lines.append(f"| {text} | {statistics.median(times):.2f} | {statistics.mean(times):.2f} | {p99:.2f} |")
    return "\n".join([*lines, "", f"{len(found)} messages; a pop may begin before the push it delivers is committed."])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--save", action="store_true", help="write it to bench/results/latency.md, on a quiet machine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        directory.chmod(0o711)
        os.environ["STAGES"] = str(directory / "stages.json")
        with EmbeddedServer.start(directory / "data") as server:
            with (
                run_broker(server.dsn("postgres"), directory / "broker", 1, "staged") as (url, _),
                asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
            ):
                noted = runner.run(measure(url, options.seconds))
            stages = json.loads((directory / "stages.json").read_text())
    text = table(noted, stages)
    print(text)
    if options.save:
        (RESULTS / "latency.md").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
