"""Durable workflows beside the duroxide wheel, in one run: sequential steps, throughput, hello-world latency.

Ours alone: what a step costs when the history is short and when it is long, and what two workers that have different
activities cost beside one that has both.

    python bench/durable.py --rival .venv-duroxide/bin/python

The same code drives both engines, since the generator style is name-compatible. Each engine runs in a
process of its own; the engines take turns, and the median of the rounds counts. Without `--rival` only
ours is measured. `--rival` is the interpreter of a virtual environment with `pip install duroxide`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SEQUENCES, STEPS = 3, 50
INSTANCES, PARALLEL = 200, 5
HELLOS = 40
KEYS, TURNS, AT_ONCE = 100, 5, 16
LENGTHS = (50, 1_000, 5_000)
MEASURED_STEPS = 100
GOALS = {"long history": 1.5, "different workers": 1.2}
CONTENDERS: dict[str, dict[str, int]] = {
    "queen": {},
    "duroxide": {},
    "duroxide 10 ms": {"dispatcher_poll_interval_ms": 10},
}
UNITS = {"sequential": "activities/s", "throughput": "instances/s", "hello": "ms (median)"}
TARGETS = {
    ("sequential", "duroxide"): 5.0,
    ("hello", "duroxide"): 5.0,
    ("throughput", "duroxide"): 2.0,
    ("sequential", "duroxide 10 ms"): 2.0,
}


def sequential(ctx: Any, steps: int) -> Any:
    total = 0
    for number in range(steps):
        total += yield ctx.schedule_activity("echo", number)
    return total


def parallel(ctx: Any, count: int) -> Any:
    results = yield ctx.all([ctx.schedule_activity("echo", number) for number in range(count)])
    return sum(each["ok"] for each in results)


def hello(ctx: Any, name: str) -> Any:
    return (yield ctx.schedule_activity("echo", f"Hello, {name}!"))


def other_hello(ctx: Any, name: str) -> Any:
    greeting = yield ctx.schedule_activity("echo", f"Hello, {name}!")
    return (yield ctx.schedule_activity("other", greeting))


def marked(ctx: Any, given: dict[str, int]) -> Any:
    """Steps without activities up to a length, then steps whose cost is measured from outside."""
    for _ in range(given["before"]):
        yield ctx.utc_now()
    yield ctx.wait_for_event("go")
    for number in range(given["steps"]):
        yield ctx.schedule_activity("echo", number)
    return given["steps"]


def open_store(engine: Any, url: str) -> Any:
    if url.startswith("postgres"):
        return engine.PostgresProvider.connect_with_schema(url, f"bench_{uuid.uuid4().hex[:12]}")
    return engine.SqliteProvider.open(url)


def measure(module: str, url: str, options: dict[str, int]) -> dict[str, float]:
    """All three scenarios in this process."""
    engine = importlib.import_module(module)
    store = open_store(engine, url)
    runtime = engine.Runtime(store, engine.RuntimeOptions(log_level="error", **options))
    runtime.register_activity("echo", lambda _ctx, value: value)
    for code in (sequential, parallel, hello):
        runtime.register_orchestration(code.__name__, code)
    runtime.start()
    client = engine.Client(store)
    client.start_orchestration("warm", "hello", "you")
    client.wait_for_orchestration("warm", 60_000)
    found = {
        "sequential": time_sequential(client),
        "throughput": time_throughput(client),
        "hello": time_hello(client),
    }
    runtime.shutdown(1000)
    return found


def time_sequential(client: Any) -> float:
    rates: list[float] = []
    for number in range(SEQUENCES):
        begun = time.perf_counter()
        client.start_orchestration(f"sequential-{number}", "sequential", STEPS)
        result = client.wait_for_orchestration(f"sequential-{number}", 120_000)
        assert result.output == sum(range(STEPS)), result
        rates.append(STEPS / (time.perf_counter() - begun))
    return statistics.median(rates)


def time_throughput(client: Any) -> float:
    begun = time.perf_counter()
    for number in range(INSTANCES):
        client.start_orchestration(f"parallel-{number}", "parallel", PARALLEL)
    for number in range(INSTANCES):
        result = client.wait_for_orchestration(f"parallel-{number}", 120_000)
        assert result.output == sum(range(PARALLEL)), result
    return INSTANCES / (time.perf_counter() - begun)


def time_hello(client: Any) -> float:
    times: list[float] = []
    for number in range(HELLOS):
        begun = time.perf_counter()
        client.start_orchestration(f"hello-{number}", "hello", "world")
        client.wait_for_orchestration(f"hello-{number}", 60_000)
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def measure_ours(url: str) -> dict[str, float]:
    """What only ours promises, in milliseconds: CPU per step at each length, and the latency over two workers."""
    engine = importlib.import_module("queen.durable")
    store = open_store(engine, url)
    found = time_lengths(engine, store)
    found |= time_workers(engine, url)
    found["turns by mailbox"] = asyncio.run(time_mailbox(engine, url))
    found["turns by provider"] = asyncio.run(time_provider(engine, url))
    return found


def started(engine: Any, store: Any, activities: tuple[str, ...], codes: tuple[Any, ...]) -> Any:
    runtime = engine.Runtime(store, engine.RuntimeOptions(log_level="error"))
    for name in activities:
        runtime.register_activity(name, lambda _ctx, value: value)
    for code in codes:
        runtime.register_orchestration(code.__name__, code)
    runtime.start()
    return runtime


def time_lengths(engine: Any, store: Any) -> dict[str, float]:
    runtime = started(engine, store, ("echo",), (marked,))
    client = engine.Client(store)
    costs: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for turn in range(3):
        for length in LENGTHS:
            name = f"marked-{length}-{turn}"
            client.start_orchestration(name, "marked", {"before": length // 2, "steps": MEASURED_STEPS})
            while len(client.read_execution_history(name, 1)) < length:
                time.sleep(0.05)
            begun = time.process_time()
            client.raise_event(name, "go", None)
            client.wait_for_orchestration(name, 120_000)
            costs[length].append((time.process_time() - begun) * 1000 / MEASURED_STEPS)
    runtime.shutdown(1000)
    return {f"step at {length}": min(values) for length, values in costs.items()}


def time_workers(engine: Any, url: str) -> dict[str, float]:
    """One worker that has both activities and two that have one each, on stores of their own, in turns."""
    crews: dict[str, list[tuple[str, ...]]] = {
        "one worker": [("echo", "other")],
        "two workers": [("echo",), ("other",)],
    }
    with tempfile.TemporaryDirectory() as directory:
        targets = {name: url if url.startswith("postgres") else str(Path(directory) / name) for name in crews}
        stores = {name: open_store(engine, target) for name, target in targets.items()}
        runtimes = [
            started(engine, stores[name], has, (other_hello,)) for name, workers in crews.items() for has in workers
        ]
        clients = {name: engine.Client(store) for name, store in stores.items()}
        times: dict[str, list[float]] = {name: [] for name in crews}
        for number in range(4 * HELLOS):
            for name, client in clients.items():
                begun = time.perf_counter()
                client.start_orchestration(f"other-{number}", "other_hello", "you")
                client.wait_for_orchestration(f"other-{number}", 60_000)
                times[name].append((time.perf_counter() - begun) * 1000)
        for runtime in runtimes:
            runtime.shutdown(1000)
    return {name: statistics.median(found[HELLOS:]) for name, found in times.items()}


async def time_mailbox(engine: Any, url: str) -> float:
    """Turns per second through the generic mailbox: a message in, two events and a message out."""
    async with await engine.open_mailbox(fresh(url, "mailbox")) as mailbox:
        for number in range(KEYS):
            await mailbox.enqueue("bench", f"k{number}", b"0")

        async def work() -> None:
            while (batch := await mailbox.dequeue_batch("bench")) is not None:
                turn, key = int(batch.messages[0].body), batch.routing_key
                events = tuple(engine.StoredEvent(key, 1, 2 * turn + n, "Bench", "{}") for n in (1, 2))
                again = (engine.Outgoing("bench", key, str(turn + 1).encode()),) if turn + 1 < TURNS else ()
                await mailbox.ack(batch.lock_token, engine.UnitOfWork(events=events, outgoing=again))

        begun = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        return KEYS * TURNS / (time.perf_counter() - begun)


async def time_provider(engine: Any, url: str) -> float:
    """The same through the provider, which also keeps instances and executions."""
    model, events, messages = (
        importlib.import_module(f"queen.durable.{name}") for name in ("model", "events", "messages")
    )
    async with await engine.open_provider(fresh(url, "provider")) as provider:
        for number in range(KEYS):
            start = messages.StartMessage(instance=f"p{number}", name="bench", input="null", version="1.0.0")
            await provider.enqueue_for_orchestrator(start)

        async def turn(item: Any) -> None:
            stamp = {"instance": item.instance, "execution_id": 1, "timestamp_ms": 0, "version": "1.0.0"}
            first = item.last_event_id + 1
            delta = tuple(events.ExternalEvent(event_id=first + n, name="bench", data="{}", **stamp) for n in (0, 1))
            again = messages.QueueMessage(instance=item.instance, name="bench", data="{}")
            named = model.ExecutionMetadata(name="bench", version="1.0.0") if first == 1 else model.ExecutionMetadata()
            commit = model.TurnCommit(
                execution_id=1,
                history_delta=delta,
                orchestrator_items=(again,) if first + 1 < 2 * TURNS else (),
                metadata=named,
                owner="bench",
            )
            await provider.ack_orchestration_item(item.token, commit)

        async def work() -> None:
            running: set[asyncio.Task[None]] = set()
            wanted = {"lock_timeout_ms": 30_000, "owner": "bench"}
            left = KEYS * TURNS
            while left:
                found = await provider.fetch_orchestration_items(
                    **wanted, limit=AT_ONCE - len(running), poll_timeout_ms=1_000
                )
                left -= len(found)
                running |= {asyncio.create_task(turn(item)) for item in found}
                while len(running) == AT_ONCE or (running and not left):
                    _, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                running = {each for each in running if not each.done()}

        begun = time.perf_counter()
        await work()
        return KEYS * TURNS / (time.perf_counter() - begun)


def fresh(url: str, name: str) -> str:
    """A store nobody has used: a file beside the given one, or the default schema, where queues are apart."""
    return url if url.startswith("postgres") else f"{url}.{name}"


def run_ours(kind: str, url: str | None) -> dict[str, float]:
    """The measurements of ours alone, in a process of their own."""
    with tempfile.TemporaryDirectory() as directory:
        target = url or str(Path(directory) / "durable.db")
        command = [sys.executable, __file__, "--measure", "ours", "--url", target]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    found: dict[str, float] = json.loads(ran.stdout.strip().splitlines()[-1])
    found["long history"] = found[f"step at {LENGTHS[-1]}"] / found[f"step at {LENGTHS[0]}"]
    found["different workers"] = found["two workers"] / found["one worker"]
    print(kind, found, file=sys.stderr)
    return {name: round(value, 2) for name, value in found.items()}


def run_contender(interpreter: str, name: str, url: str) -> dict[str, float] | None:
    """One round of one engine in a process of its own; None when an instance of it failed."""
    module = "queen.durable" if name == "queen" else "duroxide"
    command = [interpreter, __file__, "--measure", module, "--url", url, "--options", json.dumps(CONTENDERS[name])]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = ran.stdout.strip().splitlines()
    if ran.returncode != 0 or not lines:
        print(f"{name} failed: {ran.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(lines[-1])
    return found


def run_store(kind: str, url: str | None, rival: str | None, rounds: int) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, list[float]]] = {}
    names = list(CONTENDERS) if rival else ["queen"]
    for _ in range(rounds):
        for name in names:
            with tempfile.TemporaryDirectory() as directory:
                target = url or str(Path(directory) / "durable.db")
                found = run_contender(sys.executable if name == "queen" else str(rival), name, target)
            for scenario, value in (found or {}).items():
                rows.setdefault(name, {}).setdefault(scenario, []).append(value)
            print(kind, name, found, file=sys.stderr)
    return {
        name: {scenario: round(statistics.median(values), 2) for scenario, values in found.items()}
        for name, found in rows.items()
    }


def ratios(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    """How many times better ours is, for each target."""
    found = {}
    for scenario, name in TARGETS:
        if name in rows and scenario in rows[name]:
            ours, theirs = rows["queen"][scenario], rows[name][scenario]
            found[f"{scenario} vs {name}"] = round(theirs / ours if scenario == "hello" else ours / theirs, 2)
    return found


def report(results: dict[str, Any]) -> str:
    lines = ["# Durable workflows beside duroxide", ""]
    load, nice = results["load"], results["niceness"]
    lines += [f"{results['machine']}. Median of {results['rounds']} rounds, engines taking turns."]
    lines += [f"Load average of the machine {load['before']} before and {load['after']} after; niceness {nice}.", ""]
    for kind, rows in results["stores"].items():
        lines += [f"## {kind}", "", "| engine | " + " | ".join(f"{s}, {u}" for s, u in UNITS.items()) + " |"]
        lines += ["|---|" + "--:|" * len(UNITS)]
        for name, row in rows.items():
            lines.append(f"| {name} | " + " | ".join(str(row.get(scenario, "")) for scenario in UNITS) + " |")
        lines.append("")
        ours = results["ours"][kind]
        lines += [
            "A step costs " + ", ".join(f"{ours[f'step at {n}']} ms of CPU at {n} events" for n in LENGTHS) + ".",
            f"Two steps over two workers take {ours['two workers']} ms, over one {ours['one worker']} ms.",
            f"Turns/s by the mailbox: {ours['turns by mailbox']}, by the provider: {ours['turns by provider']}.",
            "",
            *(f"- {name}: **{ours[name]}x** (at most {most}x)" for name, most in GOALS.items()),
        ]
        for name, value in results["ratios"][kind].items():
            scenario, _, rival = name.partition(" vs ")
            lines.append(f"- {name}: **{value}x** (target {TARGETS[scenario, rival]}x)")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rival", help="interpreter of an environment with duroxide installed")
    parser.add_argument("--postgres", help="URL of a PostgreSQL database; default: an embedded server")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--options", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure == "ours":
        print(json.dumps(measure_ours(given.url)))
        return
    if given.measure:
        print(json.dumps(measure(given.measure, given.url, json.loads(given.options))))
        return
    load_before = os.getloadavg()[0]
    stores = {"SQLite file": run_store("SQLite file", None, given.rival, given.rounds)}
    ours = {"SQLite file": run_ours("SQLite file", None)}
    with postgres(given.postgres) as url:
        stores["PostgreSQL"] = run_store("PostgreSQL", url, given.rival, given.rounds)
        ours["PostgreSQL"] = run_ours("PostgreSQL", url)
    results = {
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}",
        "load": {"before": round(load_before, 1), "after": round(os.getloadavg()[0], 1)},
        "niceness": os.nice(0),
        "rounds": given.rounds,
        "stores": stores,
        "ours": ours,
        "ratios": {kind: ratios(rows) for kind, rows in stores.items()},
    }
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "durable.json").write_text(json.dumps(results, indent=2) + "\n")
    (given.out / "durable.md").write_text(report(results) + "\n")
    print(report(results))


@contextmanager
def postgres(url: str | None) -> Iterator[str]:
    """The given database, or an embedded server with everything durable."""
    if url is not None:
        yield url
        return
    embedded = importlib.import_module("queen.db.embedded")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        with embedded.EmbeddedServer.start(Path(directory), port=port) as server:
            yield server.tcp_dsn("postgres")


if __name__ == "__main__":
    main()
