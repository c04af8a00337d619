"""The shop: its queues, who works on them, how orders flow through them, and what can be wrong with them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SECOND: Final = 1_000_000
WAREHOUSES: Final = 12
STORES: Final = 12
VERSIONS: Final = ("2.3.0", "2.4.0")
RELEASE: Final = 0.6
"""The share of the time after which the second version is in use."""
QUEUE_OPTIONS: Final = {"lease_time": 300, "retry_limit": 3, "retry_delay": 2000}
ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class Stage:
    """One queue, the group that moves orders on from it, and how long that takes."""

    queue: str
    group: str
    work: float
    batch: int
    by: str


ORDERS, PAYMENTS, SHIPPING, NOTIFICATIONS = range(4)
STAGES: Final = (
    Stage("orders", "checkout", 0.06, 10, "customer"),
    Stage("payments", "billing", 0.35, 5, "customer"),
    Stage("shipping", "packing", 0.25, 20, "warehouse"),
    Stage("notifications", "mailer", 0.04, 20, "customer"),
)
WATCHERS: Final = "analytics"
"""A second group on orders that only looks on; it falls behind unless the shop is plain."""

Node = tuple[int, int]
Shape = tuple[Node, ...]
SHAPES: Final[tuple[tuple[float, Shape], ...]] = (
    (0.75, ((ORDERS, -1), (PAYMENTS, 0), (SHIPPING, 1), (NOTIFICATIONS, 2))),
    (0.15, ((ORDERS, -1), (PAYMENTS, 0), (SHIPPING, 1), (NOTIFICATIONS, 2), (NOTIFICATIONS, 1))),
    (0.10, ((ORDERS, -1), (PAYMENTS, 0), (NOTIFICATIONS, 1))),
)
"""How often, and the messages of a trace: each its stage and which one it follows from."""
SHORT: Final[tuple[Shape, ...]] = ((), ((ORDERS, -1),), ((ORDERS, -1), (PAYMENTS, 0)), SHAPES[2][1])
"""Cancelled orders, by number of messages."""


@dataclass(frozen=True, slots=True)
class Defect:
    """A kind of error that some messages meet: where, in which version, when, how often, and its text."""

    stage: int
    version: str
    since: float
    share: float
    template: str
    normalised: str
    rejected: bool = False

    def text(self, chance: random.Random, order: str) -> str:
        """The error of one case; numbers and names differ from case to case."""
        return self.template.format(order=order, a=chance.randrange(1000, 10000), b=chance.randrange(10, 60))


DECLINED: Final = (
    "CardDeclined: card ending {a} was declined with code {b}",
    "CardDeclined: card ending <n> was declined with code <n>",
)
NO_ANSWER: Final = (
    "GatewayTimeout: no answer from 10.0.3.{b}:8443 after {a} ms",
    "GatewayTimeout: no answer from <n> after <n> ms",
)
NO_POSTCODE: Final = (
    "AddressError: no postcode '{a}' for order {order}",
    "AddressError: no postcode <x> for order o-<n>",
)
NO_SUBJECT: Final = (
    "TemplateError: template 0x{a}f of order {order} has no subject",
    "TemplateError: template <x> of order o-<n> has no subject",
)
DEFECTS: Final = (
    Defect(PAYMENTS, "2.3.0", 0.0, 0.006, *DECLINED),
    Defect(PAYMENTS, "2.4.0", 0.6, 0.006, *DECLINED),
    Defect(PAYMENTS, "2.4.0", 0.9, 0.03, *NO_ANSWER),
    Defect(SHIPPING, "2.3.0", 0.2, 0.006, *NO_POSTCODE),
    Defect(NOTIFICATIONS, "2.4.0", 0.6, 0.01, *NO_SUBJECT, rejected=True),
)
HOT_SHARES: Final = (0.12, 0.07)
BROKEN_SHARE: Final = 0.004
STUMBLE_SHARE: Final = 0.005


@dataclass(frozen=True, slots=True)
class Weather:
    """What is wrong with the shop."""

    hot: tuple[str, ...]
    defects: tuple[Defect, ...]
    broken: float
    stumbles: float

    @classmethod
    def fine(cls) -> Weather:
        """Nothing."""
        return cls((), (), 0.0, 0.0)

    @classmethod
    def stormy(cls, chance: random.Random, customers: Sequence[str]) -> Weather:
        """Everything, with hot customers chosen by chance."""
        return cls(tuple(chance.sample(customers, len(HOT_SHARES))), DEFECTS, BROKEN_SHARE, STUMBLE_SHARE)


def customers_for(messages: int) -> list[str]:
    """The customers of a shop of this size."""
    return [f"customer-{number:04}" for number in range(max(20, min(400, messages // 100)))]


def pick_customer(chance: random.Random, customers: Sequence[str], hot: Sequence[str]) -> str:
    """A customer; the hot ones far more often."""
    if hot:
        dice = chance.random()
        for customer, share in zip(hot, HOT_SHARES, strict=True):
            if dice < share:
                return customer
            dice -= share
    return customers[int(chance.random() * len(customers))]


def pick_shape(chance: random.Random) -> Shape:
    """What becomes of an order, when all goes well."""
    dice = chance.random()
    for share, shape in SHAPES:
        if dice < share:
            return shape
        dice -= share
    return SHAPES[0][1]


def pick_defect(chance: random.Random, shape: Shape, version: str, when: float, weather: Weather) -> Defect | None:
    """The defect an order runs into, if any."""
    stages = {stage for stage, _ in shape}
    for defect in weather.defects:
        met = defect.version == version and when >= defect.since and defect.stage in stages
        if met and chance.random() < defect.share:
            return defect
    return None


def cut(shape: Shape, stage: int) -> Shape:
    """The shape of a trace that ends where its first message of a stage dies."""
    died = next(place for place, (where, _) in enumerate(shape) if where == stage)
    kept: list[Node] = []
    places: dict[int, int] = {-1: -1}
    for place, (where, parent) in enumerate(shape):
        if parent in places and parent != died:
            places[place] = len(kept)
            kept.append((where, places[parent]))
    return tuple(kept)


def details(chance: random.Random, stage: int, order: str, customer: str, version: str) -> dict[str, object]:
    """The payload of a message."""
    shared: dict[str, object] = {"order": order, "customer": customer, "version": version}
    dice = chance.random()
    if stage == ORDERS:
        return shared | {
            "store": f"store-{int(dice * STORES):02}",
            "sku": f"sku-{chance.randrange(200):03}",
            "amount": 500 + chance.randrange(20_000),
        }
    if stage == PAYMENTS:
        return shared | {
            "store": f"store-{int(dice * STORES):02}",
            "method": ("card", "card", "transfer", "wallet")[int(dice * 4)],
            "amount": 500 + chance.randrange(20_000),
        }
    if stage == SHIPPING:
        return shared | {"warehouse": f"warehouse-{int(dice * WAREHOUSES):02}", "weight": 100 + int(dice * 9000)}
    return shared | {"channel": ("mail", "push", "text")[int(dice * 3)], "store": f"store-{int(dice * STORES):02}"}
