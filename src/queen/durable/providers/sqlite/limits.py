"""Places of limited runs, as functions that run inside a transaction."""

import msgspec

from queen.durable.limits import Place
from queen.durable.providers.sqlite.statements import Row, Statements

__all__ = ["settle"]


def settle(store: Statements) -> bool:
    """Give free places of groups that have changed to those who waited longest; whether somebody may run now or later.

    Never more than ``concurrency`` at once, never more than ``rate`` starts in any ``per_ms``: a start is followed by
    another when that time has passed, and whoever is given that start is ready from then on.
    """
    groups = [row[0] for row in store.rows("unsettled_limits")]
    if not groups:
        return False
    given = [_settle_group(store, group) for group in groups]
    store.change("forget_unsettled")
    return any(given)


def _settle_group(store: Statements, group: str) -> bool:
    given = False
    while (waiting := store.row("next_place", limit_group=group)) is not None:
        if not _give_place(store, group, waiting):
            break
        given = True
    return given


def _give_place(store: Statements, group: str, waiting: Row) -> bool:
    place_id, instance, execution_id, activity_id, limited, wanted_at = waiting
    wanted = msgspec.json.decode(limited, type=Place)
    (taken, coming, known), ready_at = store.rows("taken_places", limit_group=group)[0], wanted_at
    if wanted.concurrency is not None and taken >= wanted.concurrency:
        return False
    if wanted.rate is not None and coming + known >= wanted.rate:
        surplus = coming + known - wanted.rate
        past = store.rows("oldest_starts", limit_group=group, limit=surplus + 1)
        for start_id, _ in past:
            store.change("forget_start", id=start_id)
        if len(past) <= surplus:
            return False
        ready_at = max(wanted_at, past[-1][1])
    store.change("give_place", id=place_id, ready_at=ready_at)
    key = {"instance": instance, "execution_id": execution_id, "activity_id": activity_id}
    store.change("make_ready", **key, ready_at=ready_at)
    return True
