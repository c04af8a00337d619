"""How fast the broker is over HTTP, against what the same PostgreSQL does with bare rows, in one run.

    python bench/broker.py                          the table, with one worker and with two
    python bench/broker.py --quick                  a short look
    python bench/broker.py --against http://...     beside another broker that speaks the contract

The load generator shares the machine. Rounds are interleaved and medians compared; beside each rate stands how
much of the machine the broker, PostgreSQL and the generator used. Prints a table, and writes it to
bench/results/broker.md and the numbers to bench/results/broker.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import uvloop

sys.path.insert(0, str(Path(__file__).parent))

from cores import Cores
from http_load import Broker
from loads import Ceilings, Done, open_pool, sql

from queen.db import migrate
from queen.db.embedded import EmbeddedServer

DELIVERIES = 500
RESULTS = Path(__file__).parent / "results"
GOALS = {
    "push batch 100": ("insert batch 100", 0.4),
    "pop+ack batch 100": ("insert batch 100", 0.3),
    "push 1 x 256": ("insert 1 x 32 connections", 1.0),
}


Load = Callable[[], Awaitable[float]]


def main() -> None:
    options = arguments()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.chmod(0o711)
        server = stack.enter_context(EmbeddedServer.start(directory / "data"))
        dsn = server.dsn("postgres")
        brokers, processes = {}, {"postgres": [server.pid or 0], "broker": []}
        for kind in options.server:
            for workers in options.workers:
                name = f"{kind} x {workers}"
                brokers[name], pid = stack.enter_context(run_broker(dsn, directory / name, workers, kind))
                processes["broker"].append(pid)
        brokers |= {url: url for url in options.against}
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            result = runner.run(measure(dsn, brokers, processes, options))
    text = table(result)
    print(text)
    if options.save:
        RESULTS.mkdir(exist_ok=True)
        saved = RESULTS / options.save
        saved.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        saved.with_suffix(".md").write_text(text, encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the broker against bare rows on the same PostgreSQL.")
    parser.add_argument("--quick", action="store_true", help="short rounds")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds of each load (default 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each round (default 2)")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2], help="brokers to run, by workers (1 2)")
    parser.add_argument("--against", action="append", default=[], metavar="URL", help="another broker to put beside")
    parser.add_argument("--server", nargs="*", default=["uvicorn"], help="HTTP servers to run: uvicorn, granian")
    parser.add_argument("--save", default="broker.json", help="file below bench/results; empty for none")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 2, 1.0
    return options


@contextmanager
def run_broker(dsn: str, directory: Path, workers: int, kind: str) -> Iterator[tuple[str, int]]:
    """A broker of its own process, as users run it: where it listens, and its process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "QUEEN_DATABASE_URL": dsn,
        "QUEEN_PORT": str(port),
        "QUEEN_WORKERS": str(workers),
        "QUEEN_DATA_DIR": str(directory),
        "QUEEN_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "queen", "serve"]
    if kind != "uvicorn":
        command = [sys.executable, str(Path(__file__).parent / f"{kind}_server.py")]
    process = subprocess.Popen(command, env=environment)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(300):
            try:
                urlopen(f"{url}/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(60)


async def measure(
    dsn: str, brokers: dict[str, str], processes: dict[str, list[int]], options: argparse.Namespace
) -> dict[str, Any]:
    async with migrate.connect(dsn) as connection:
        await migrate.up(connection)
    pool = await open_pool(dsn)
    await pool.execute(sql("setup"))
    ceilings = Ceilings(pool)
    seconds = options.seconds
    loads: dict[str, dict[str, Load]] = {
        "bare rows": {
            "insert batch 100": lambda: rate_of(ceilings.insert(seconds, 100, 8)),
            "insert 1 x 32 connections": lambda: rate_of(ceilings.rows(seconds, 32)),
        }
    }
    verbs = {name: Broker(url) for name, url in brokers.items()}
    for name, broker in verbs.items():
        await broker.prepare()
        loads[name] = verb_loads(broker, seconds)
    rates, cores = await rates_of(loads, verbs, processes, options)
    delivery = await deliveries_of(verbs, max(seconds * 2, 4.0), options.rounds)
    await pool.close()
    bare = rates["bare rows"]
    ratios = {
        name: {
            load: {"rate": rates[name][load], "ratio": rates[name][load] / bare[other], "of": other, "goal": goal}
            for load, (other, goal) in GOALS.items()
        }
        for name in verbs
    }
    return {"rates": rates, "cores": cores, "delivery": delivery, "ratios": ratios}


async def rate_of(work: Awaitable[Done]) -> float:
    return (await work).rate


def verb_loads(broker: Broker, seconds: float) -> dict[str, Load]:
    return {
        "push 1 x 1": lambda: broker.push(seconds, 1, 1),
        "push 1 x 32": lambda: broker.push(seconds, 1, 32),
        "push 1 x 256": lambda: broker.push(seconds, 1, 256),
        "push batch 100": lambda: broker.push(seconds, 100, 8),
        "pop+ack 1 x 32": lambda: broker.pop_ack(seconds, 1, 32),
        "pop+ack batch 100": lambda: broker.pop_ack(seconds, 100, 8),
    }


async def rates_of(
    loads: dict[str, dict[str, Load]],
    brokers: dict[str, Broker],
    processes: dict[str, list[int]],
    options: argparse.Namespace,
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, dict[str, float]]]]:
    """The median rate of each load, and the cores that were used in the last round."""
    samples: dict[str, dict[str, list[float]]] = {side: {name: [] for name in group} for side, group in loads.items()}
    cores: dict[str, dict[str, dict[str, float]]] = {side: {} for side in loads}
    for number in range(options.rounds + 1):
        for side, group in loads.items():
            for name, load in group.items():
                if name.startswith("pop+ack"):
                    await brokers[side].fill(int(options.seconds * (50_000 if "100" in name else 5_000)))
                meter = Cores(processes)
                rate = await load()
                cores[side][name] = meter.used()
                if number:  # the first round only warms up
                    samples[side][name].append(rate)
        print(f"round {number} of {options.rounds}", file=sys.stderr)
    medians = {
        side: {name: round(statistics.median(values), 1) for name, values in group.items()}
        for side, group in samples.items()
    }
    return medians, cores


async def deliveries_of(brokers: dict[str, Broker], seconds: float, rounds: int) -> dict[str, dict[str, float]]:
    """How long messages are on their way to consumers that wait: the medians of rounds in turns."""
    samples: dict[str, list[list[float]]] = {name: [] for name in brokers}
    for _ in range(rounds):
        for name, broker in brokers.items():
            samples[name].append(await broker.delivery(seconds, DELIVERIES))
    return {name: delivery(group) for name, group in samples.items()}


def delivery(samples: list[list[float]]) -> dict[str, float]:
    def median(share: float) -> float:
        return round(statistics.median(times[int((len(times) - 1) * share)] for times in samples) * 1000, 2)

    return {
        "sent per second": DELIVERIES,
        "delivered": sum(map(len, samples)),
        "p50 ms": median(0.5),
        "p99 ms": median(0.99),
        "max ms": round(max(times[-1] for times in samples) * 1000, 2),
    }


def table(result: dict[str, Any]) -> str:
    """The numbers as text that reads well as it is and as Markdown."""
    sides = list(result["rates"])
    lines = [
        "| messages/s | " + " | ".join(sides) + " | cores: broker + PostgreSQL + load |",
        "|---|" + "---:|" * len(sides) + "---|",
    ]
    names = [name for side in sides[:2] for name in result["rates"][side]]
    for name in names:
        rates = [result["rates"][side].get(name) for side in sides]
        used = [
            f"{one['broker']:.2f} + {one['postgres']:.2f} + {one['load']:.2f}"
            for side in sides
            if (one := result["cores"][side].get(name))
        ]
        cells = ["" if rate is None else f"{rate:,.0f}" for rate in rates]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {'; '.join(used)} |")
    lines += ["", "| against the goal | measured | goal | |", "|---|---:|---:|---|"]
    for side, group in result["ratios"].items():
        for name, row in group.items():
            verdict = "met" if row["ratio"] >= row["goal"] else "MISSED"
            lines.append(f"| {side}: {name} / {row['of']} | {row['ratio']:.2f} | {row['goal']:.1f} | {verdict} |")
    lines.append("")
    lines += [
        f"{side}: push to delivery at {row['sent per second']}/s: p50 {row['p50 ms']} ms, p99 {row['p99 ms']} ms, "
        f"at most {row['max ms']} ms ({row['delivered']} delivered)\n"
        for side, row in result["delivery"].items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
