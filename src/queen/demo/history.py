"""History of the shop, made up: every message and delivery of some days, by chance but the same for the same seed."""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from queen.demo import shop
from queen.demo.flow import Order, Sent
from queen.demo.lanes import Delivery, Lane, work_through
from queen.demo.planted import BlockedLane, ErrorCluster, HotKey, KnownTrace, Planted
from queen.demo.shop import PAYMENTS, SECOND, STAGES, Weather

DAY: Final = 86_400 * SECOND
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
BUSY_HOURS: Final = tuple(1.0 + 0.8 * math.sin((hour - 9) / 24 * 2 * math.pi) for hour in range(24))
BLOCKED_BEHIND: Final = 25
KNOWN: Final = 20


@dataclass(slots=True)
class History:
    """All that happened: messages in the order they were stored, deliveries, and what was planted."""

    messages: list[Sent]
    lanes: dict[tuple[str, str, str], Lane]
    deliveries: list[Delivery]
    planted: Planted
    shift: int = 0

    def time(self, moment: int) -> datetime:
        """A moment of the history as a time."""
        return EPOCH + timedelta(microseconds=moment + self.shift)


def make_history(messages: int, days: float, *, seed: int, until: datetime, plain: bool = False) -> History:
    """`messages` messages over `days` days that end at `until`."""
    chance = random.Random(seed)  # noqa: S311 - a shop, not a secret
    customers = shop.customers_for(messages)
    weather = Weather.fine() if plain else Weather.stormy(chance, customers)
    end = (until - EPOCH) // timedelta(microseconds=1)
    orders = draw_orders(chance, messages, (end - round(days * DAY), end), customers, weather)
    planted = Planted(seed, messages=messages, traces=len(orders))
    history = History([], {}, [], planted)
    arriving: list[list[Sent]] = [[] for _ in STAGES]
    for order in orders:
        send(chance, order, 0, None, order.start, arriving)
    for stage in range(len(STAGES)):
        handle_stage(chance, stage, arriving, weather, history)
    last = max(max((one.ended for one in history.deliveries), default=0), history.messages[-1].created)
    history.shift = end - last
    describe(history, orders, weather)
    return history


def draw_orders(
    chance: random.Random, messages: int, span: tuple[int, int], customers: Sequence[str], weather: Weather
) -> list[Order]:
    """Orders in order of time, with exactly as many messages among them as asked for."""
    orders: list[Order] = []
    left = messages
    while left:
        when = pick_moment(chance, span)
        share = (when - span[0]) / (span[1] - span[0])
        version = shop.VERSIONS[share >= shop.RELEASE]
        shape = shop.pick_shape(chance) if left > 4 else shop.SHORT[min(left, 3)]
        order = Order(
            new_id(chance, when), "", shop.pick_customer(chance, customers, weather.hot), version, when, shape
        )
        order.defect = shop.pick_defect(chance, shape, version, share, weather)
        if order.defect is not None:
            order.shape = shop.cut(shape, order.defect.stage)
        order.broken = order.defect is None and len(shape) > 2 and chance.random() < weather.broken
        left -= len(order.shape)
        orders.append(order)
    orders.sort(key=lambda order: order.start)
    for number, order in enumerate(orders):
        order.number = f"o-{number:06}"
    return orders


def pick_moment(chance: random.Random, span: tuple[int, int]) -> int:
    """A moment of the span; more fall into the afternoon than into the night."""
    while True:
        moment = span[0] + int(chance.random() * (span[1] - span[0]))
        if chance.random() * 1.8 < BUSY_HOURS[moment // (3600 * SECOND) % 24]:
            return moment


def new_id(chance: random.Random, moment: int) -> UUID:
    """A UUIDv7 of a moment."""
    noise = chance.getrandbits(74)
    return UUID(int=(moment // 1000) << 80 | 7 << 76 | (noise >> 62) << 64 | 2 << 62 | noise & (1 << 62) - 1)


def send(
    chance: random.Random, order: Order, place: int, parent: Sent | None, moment: int, arriving: list[list[Sent]]
) -> None:
    """A message of an order goes to its queue."""
    stage = order.shape[place][0]
    payload = shop.details(chance, stage, order.number, order.customer, order.version)
    partition = str(payload[STAGES[stage].by])
    sent = Sent(new_id(chance, moment), order, place, stage, partition, payload, parent, moment)
    if parent is not None:
        sent.parent_id = parent.id
        if order.broken and stage == PAYMENTS:
            sent.parent_id = new_id(chance, parent.created)
    if order.defect is not None and order.defect.stage == stage and all(one.stage != stage for one in order.sent):
        sent.defect = order.defect
    order.sent.append(sent)
    arriving[stage].append(sent)


def handle_stage(
    chance: random.Random, stage: int, arriving: list[list[Sent]], weather: Weather, history: History
) -> None:
    """Everything that arrived at a queue is stored and worked on, and what follows is sent on."""
    lanes: dict[str, list[Sent]] = defaultdict(list)
    for sent in sorted(arriving[stage], key=lambda sent: sent.created):
        lanes[sent.partition].append(sent)
        sent.seq = len(lanes[sent.partition])
        if weather.stumbles and sent.defect is None and chance.random() < weather.stumbles:
            sent.stumbles = True
    if stage == PAYMENTS and weather.hot:
        block(lanes[weather.hot[0]], history)
    described = STAGES[stage]
    for partition, lane in lanes.items():
        done = work_through(chance, described.queue, described.group, lane, described.batch, described.work)
        history.lanes[described.queue, partition, described.group] = done
        history.deliveries += done.deliveries
        if stage == shop.ORDERS:
            seen = lane if not weather.hot else lane[: len(lane) * 9 // 10]
            watched = work_through(chance, described.queue, shop.WATCHERS, seen, 100, 0.005, looking_on=True)
            history.lanes[described.queue, partition, shop.WATCHERS] = watched
            history.deliveries += watched.deliveries
        for sent in lane:
            if sent.handled is not None:
                follow(chance, sent, sent.handled, arriving)
    history.messages += [sent for lane in lanes.values() for sent in lane]
    if stage == len(STAGES) - 1:
        history.messages.sort(key=lambda sent: (sent.created, sent.stage, sent.partition, sent.seq))


def follow(chance: random.Random, sent: Sent, moment: int, arriving: list[list[Sent]]) -> None:
    """While a message is handled, those that follow from it are pushed."""
    order = sent.order
    for place, (_, parent) in enumerate(order.shape):
        if parent == sent.place:
            send(chance, order, place, sent, moment, arriving)


def block(lane: list[Sent], history: History) -> None:
    """One message of a lane takes so long that many behind it wait."""
    first = len(lane) * 2 // 5
    behind = lane[first + 1 : first + 1 + BLOCKED_BEHIND]
    if len(behind) < BLOCKED_BEHIND or lane[first].defect is not None:
        return
    sent = lane[first]
    sent.stumbles = False
    sent.slow = behind[-1].created - sent.created
    described = STAGES[sent.stage]
    history.planted.blocked_lanes.append(
        BlockedLane(described.queue, sent.partition, described.group, sent.seq, sent.slow / SECOND)
    )


def describe(history: History, orders: Sequence[Order], weather: Weather) -> None:
    """What was planted, counted."""
    planted = history.planted
    planted.deliveries = len(history.deliveries)
    planted.since = history.time(history.messages[0].created).isoformat()
    planted.until = history.time(0).isoformat() if not history.messages else ends(history).isoformat()
    counts = Counter((sent.stage, sent.order.customer) for sent in history.messages)
    for stage, described in enumerate(STAGES):
        for customer in weather.hot:
            fields = ("partition", "customer") if described.by == "customer" else ("customer",)
            planted.hot_keys += [HotKey(described.queue, name, customer, counts[stage, customer]) for name in fields]
    dead = Counter(sent.defect for sent in history.messages if sent.error is not None and sent.defect is not None)
    planted.dead_letters = sum(dead.values())
    planted.error_clusters = [
        ErrorCluster(STAGES[defect.stage].queue, defect.version, defect.normalised, count)
        for defect, count in sorted(dead.items(), key=lambda item: (-item[1], item[0].normalised, item[0].version))
    ]
    planted.broken_traces = sorted(str(order.trace) for order in orders if order.broken)
    whole = [order for order in orders if not order.broken and order.defect is None]
    planted.known_traces = [known_trace(order) for order in whole[:: max(1, len(whole) // KNOWN)][:KNOWN]]


def ends(history: History) -> datetime:
    """When the last thing happened."""
    last = max((one.ended for one in history.deliveries), default=0)
    return history.time(max(last, history.messages[-1].created))


def known_trace(order: Order) -> KnownTrace:
    """The path to the message of an order that was finished last."""
    parents = {sent.parent.id for sent in order.sent if sent.parent is not None}
    leaf: Sent | None = max(
        (sent for sent in order.sent if sent.id not in parents), key=lambda sent: (sent.finished, str(sent.id))
    )
    path: list[Sent] = []
    while leaf is not None:
        path.append(leaf)
        leaf = leaf.parent
    path.reverse()
    seconds = (path[-1].finished - path[0].created) / SECOND
    return KnownTrace(str(order.trace), [str(sent.id) for sent in path], seconds)
