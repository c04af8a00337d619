"""What a seed stands for: queues with their options, clients, and the schedule of what breaks when."""

from __future__ import annotations

import random
from typing import Any, Final, Literal

from msgspec import Struct

from queen.model import QUEUE_MODE

RELAYED: Final = "relayed"
BALLAST: Final = "ballast"
STREAMED: Final = "streamed"
ASIDE: Final = (RELAYED, BALLAST, STREAMED)
Size = Literal["short", "full"]


class QueuePlan(Struct, frozen=True, kw_only=True):
    """A queue, its options, how many partitions get messages, and who reads it.

    A quiet one is drained most of the time, so that acknowledgements and pushes meet where nothing else waits.
    """

    name: str
    options: dict[str, Any]
    partitions: int
    groups: list[str]
    namespace: str = "torture"
    quiet: bool = False


class ActorPlan(Struct, frozen=True, kw_only=True):
    """One thing a client process does; `seed` draws everything it chooses."""

    kind: str
    seed: int
    queue: str = ""
    group: str = ""


class ClientPlan(Struct, frozen=True, kw_only=True):
    """A client process: where it calls (`direct`, or a broker's name) and what runs in it."""

    name: str
    over: str
    actors: list[ActorPlan]


class Act(Struct, frozen=True, kw_only=True):
    """One act of the nemesis: when (seconds after the start), what, on whom, and for how long."""

    at: float
    kind: str
    target: str
    lasts: float
    seed: int


class Plan(Struct, frozen=True, kw_only=True):
    """Everything a run depends on but the scheduling of the machine. As JSON it can be kept and run again."""

    seed: int
    seconds: float
    queues: list[QueuePlan]
    brokers: dict[str, int]
    clients: list[ClientPlan]
    workers: int
    acts: list[Act]
    standby: bool = False
    spark: bool = False
    pace: float = 1.0
    crowd: int = 800
    defect: str = ""


def draw(
    seed: int, seconds: float, size: Size = "full", *, standby: bool = False, spark: bool = False, soak: bool = False
) -> Plan:
    """The plan of a seed; the same arguments give the same plan. `soak`: slower producers, and everything ages out."""
    rng = random.Random(seed)
    count = 4 if size == "full" else 2
    queues = [_queue(rng, number, soak=soak, quiet=number == count - 1) for number in range(count)]
    brokers = {"a": 1, "b": 2} if size == "full" else {"a": 1}
    clients = _clients(rng, queues, list(brokers), size)
    workers = 2 if size == "full" else 1
    names = [client.name for client in clients] + (["spark"] if spark else [])
    acts = _schedule(rng, seconds, list(brokers), names, workers, size, standby=standby)
    return Plan(
        seed=seed, seconds=seconds, queues=queues, brokers=brokers, clients=clients, workers=workers, acts=acts,
        standby=standby, spark=spark, pace=5.0 if soak else 1.0 if size == "full" else 2.0,
        crowd=800 if size == "full" else 300,
    )  # fmt: skip


def _queue(rng: random.Random, number: int, *, soak: bool, quiet: bool) -> QueuePlan:
    window = rng.choice((0, 0, 0, 1))
    completed = 20 if soak else rng.choice((0, 20))
    options = {
        "lease_time": rng.choice((2, 3)),
        "retry_limit": rng.randint(0, 3),
        "retry_delay": rng.choice((0, 0, 50, 200)),
        "partial_failure": rng.choice(("dlq", "retry")),
        "max_deliveries": rng.choice((0, 0, 3)),
        "delayed_processing": rng.choice((0, 0, 0, 1)),
        "window_buffer": window,
        "max_wait_time_seconds": 0 if window else rng.choice((0, 0, 12)),
        "retention_enabled": completed > 0,
        "completed_retention_seconds": completed,
        "encryption_enabled": rng.random() < 0.25,
        "max_queue_size": rng.choice((0, 0, 400)),
        "delivery_log": rng.random() < 0.8,
        "priority": rng.randint(0, 5),
    }
    if quiet:
        plain = ("delayed_processing", "window_buffer", "max_wait_time_seconds", "max_queue_size")
        options |= dict.fromkeys(plain, 0) | {"encryption_enabled": False}
    groups = [QUEUE_MODE, "g"] + (["relay"] if number == 0 else [])
    partitions = 1 if quiet else rng.choice((1, 3, 6))
    return QueuePlan(name=f"q{number}", options=options, partitions=partitions, groups=groups, quiet=quiet)


def _clients(rng: random.Random, queues: list[QueuePlan], brokers: list[str], size: Size) -> list[ClientPlan]:
    """Processes straight on the database and over each broker; every group of every queue has two consumers apart."""
    places = ["direct", *brokers] if size == "short" else ["direct", *brokers, "direct"]
    actors: list[list[ActorPlan]] = [[] for _ in places]

    def add(place: int, kind: str, queue: str = "", group: str = "") -> None:
        actors[place % len(places)].append(ActorPlan(kind=kind, seed=rng.getrandbits(32), queue=queue, group=group))

    for turn, queue in enumerate(queues):
        add(turn, "producer", queue.name)
        add(turn + 1, "producer", queue.name)
        for group in queue.groups:
            kinds = ["relay", "relay"] if group == "relay" else rng.sample(("pop", "consume", "batches", "consume"), 2)
            for offset, kind in enumerate(kinds):
                add(turn + offset, kind, queue.name, group)
    for place in range(len(places)):
        add(place, "producer", rng.choice(queues).name)
    add(0, "outbox", queues[-1].name)
    add(0, "starter")
    add(1, "operator")
    add(1, "matching", group=QUEUE_MODE)
    if size == "full":
        add(2, "operator")
        add(3, "outbox", rng.choice(queues).name)
        add(3, "starter")
    return [ClientPlan(name=f"client{n}", over=over, actors=actors[n]) for n, over in enumerate(places)]


def _schedule(
    rng: random.Random,
    seconds: float,
    brokers: list[str],
    clients: list[str],
    workers: int,
    size: Size,
    *,
    standby: bool,
) -> list[Act]:
    """An act every few seconds, from all that can go wrong; some of them overlap."""
    processes = [*(f"broker-{name}" for name in brokers), *clients, *(f"worker{n}" for n in range(workers))]
    ways: list[tuple[str, list[str], float, float]] = [
        ("kill", ["postgres"], 0.0, 0.5),
        ("pause", ["postgres"], 0.5, 4.0),
        ("kill", [f"broker-{name}" for name in brokers], 0.0, 1.5),
        ("pause", [f"broker-{name}" for name in brokers], 0.5, 5.0),
        ("kill", clients, 0.0, 0.5),
        ("pause", clients, 0.5, 6.0),
        ("kill", [f"worker{n}" for n in range(workers)], 0.0, 1.0),
        ("pause", [f"worker{n}" for n in range(workers)], 0.5, 5.0),
        ("cut", ["postgres", *brokers], 0.0, 2.0),
        ("slow", ["postgres", *brokers], 1.0, 4.0),
        ("deaf", ["postgres", *brokers], 0.2, 2.0),
        ("maintenance", brokers, 1.0, 3.0),
        ("damage", brokers, 1.0, 2.0),
        ("fill", brokers, 1.0, 2.0),
        ("clock", processes, 1.0, 6.0),
        ("snapshot", ["postgres"], 2.0, 8.0),
        ("hold", ["postgres"], 0.3, 2.0),
    ]  # fmt: skip
    if size == "short":
        ways = [way for way in ways if way[0] not in ("fill", "snapshot")]
    acts: list[Act] = []
    deck: list[tuple[str, list[str], float, float]] = []
    at = 2.0 if size == "full" else 0.5
    while at < seconds - 1:
        if not deck:
            deck = rng.sample(ways, len(ways))
        kind, targets, least, most = deck.pop()
        if size == "short":
            most = min(most, 1.5)
        lasts = round(rng.uniform(min(least, most), most), 2)
        acts.append(Act(at=round(at, 2), kind=kind, target=rng.choice(targets), lasts=lasts, seed=rng.getrandbits(32)))
        at += rng.uniform(0.5, 4.0) if size == "full" else rng.uniform(0.2, 0.8)
    if standby:
        half = round(seconds / 2, 2)
        acts.append(Act(at=half, kind="promote", target="postgres", lasts=0.0, seed=rng.getrandbits(32)))
    return sorted(acts, key=lambda act: act.at)
