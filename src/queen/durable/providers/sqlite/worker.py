"""The worker queue and its sessions, as functions that run inside a transaction."""

import heapq
import secrets
from collections.abc import Sequence

import msgspec

from queen.durable.messages import ActivityTask, OrchestratorMessage
from queen.durable.model import LockedTask, SessionConfig, TagFilter
from queen.durable.provider import ProviderError
from queen.durable.providers.rows import locked_task
from queen.durable.providers.sqlite.limits import settle
from queen.durable.providers.sqlite.orchestrator import Sent, names_list, queue_tasks, send
from queen.durable.providers.sqlite.statements import Row, Statements

__all__ = ["Wanted", "abandon", "ack", "enqueue", "fetch", "is_idle", "renew", "renew_sessions"]


class Wanted(msgspec.Struct, frozen=True):
    """What a worker asks for."""

    lock_timeout_ms: int
    limit: int
    session: SessionConfig | None
    tags: TagFilter
    names: tuple[str, ...] | None = None
    unknown_for_ms: int | None = None


def is_idle(store: Statements, wanted: Wanted) -> tuple[list[LockedTask], int | None] | None:
    """The answer of an empty fetch, found without a lock; ``None`` when there is something to lock."""
    now = store.now_ms()
    if not wanted.tags.matches_nothing() and _candidates(store, wanted, now, 1):
        return None
    return [], store.value("next_work_due", now=now)


def fetch(store: Statements, wanted: Wanted) -> tuple[list[LockedTask], int | None]:
    """Lock up to ``limit`` items; answers them and when the next one falls due."""
    now = store.now_ms()
    found: list[LockedTask] = []
    while len(found) < wanted.limit and not wanted.tags.matches_nothing():
        candidates = _candidates(store, wanted, now, wanted.limit - len(found))
        taken = [_lock(store, row, wanted, now) for row in candidates if _admit(store, row, wanted, now)]
        if not taken:
            break
        found += taken
    if found:
        settle(store)
    return found, store.value("next_work_due", now=now)


def _candidates(store: Statements, wanted: Wanted, now: int, limit: int) -> list[Row]:
    if wanted.unknown_for_ms is not None:
        return store.rows("unknown_work_items", before=now - wanted.unknown_for_ms, limit=limit)
    session = wanted.session
    conditions = {
        "now": now,
        "names": names_list(wanted.names),
        "limit": limit,
        "owner": session and session.owner,
        "may_claim": session is not None and _may_claim(store, session, now),
    }
    if wanted.tags.everything:
        return store.rows("ready_work_items_any", **conditions)
    tags: list[str | None] = [*sorted(wanted.tags.tags)]
    if wanted.tags.untagged:
        tags.append(None)
    found = [row for tag in tags for row in store.rows("ready_work_items_tag", **conditions, tag=tag)]
    return heapq.nsmallest(limit, found, key=lambda row: (-row[2], row[3], row[0]))


def _may_claim(store: Statements, session: SessionConfig, now: int) -> bool:
    if session.max_sessions is None:
        return True
    held: int = store.value("count_owned_sessions", owner=session.owner, now=now)
    return held < session.max_sessions


def _admit(store: Statements, row: Row, wanted: Wanted, now: int) -> bool:
    """Claim the item's session; an earlier item of the same fetch may have used up the last one."""
    session_id, owner = row[1], row[4]
    if session_id is None or wanted.session is None:
        return session_id is None
    if owner is None and not _may_claim(store, wanted.session, now) and not _owns(store, session_id, wanted, now):
        return False
    store.change(
        "claim_session",
        session_id=session_id,
        owner=wanted.session.owner,
        locked_until=now + wanted.session.lock_timeout_ms,
        now=now,
    )
    return True


def _owns(store: Statements, session_id: str, wanted: Wanted, now: int) -> bool:
    owner = store.value("session_owner", session_id=session_id, now=now)
    return wanted.session is not None and owner == wanted.session.owner


def _lock(store: Statements, row: Row, wanted: Wanted, now: int) -> LockedTask:
    token = secrets.token_hex(16)
    locked = store.row("lock_work_item", id=row[0], token=token, locked_until=now + wanted.lock_timeout_ms, now=now)
    assert locked is not None
    return locked_task(token, locked)


def ack(store: Statements, token: str, completion: OrchestratorMessage | None) -> Sent:
    """Delete the item and send its completion."""
    now = store.now_ms()
    finished = store.row("finish_work_item", token=token, now=now)
    if finished is None:
        raise ProviderError("ack_work_item", "the lock is not held", code="lock_lost")
    if finished[0] is not None:
        store.change("touch_session", session_id=finished[0], now=now)
    tasks = settle(store)
    return Sent(orchestrator_at=None if completion is None else send(store, completion, now), tasks=tasks)


def enqueue(store: Statements, task: ActivityTask) -> None:
    """Queue an activity outside of a turn."""
    queue_tasks(store, [task], store.now_ms())
    settle(store)


def abandon(store: Statements, token: str, delay_ms: int, *, ignore_attempt: bool) -> int:
    """Give an item back; returns when it is visible."""
    now = store.now_ms()
    visible_at = now + delay_ms
    given = store.change("release_work_item", token=token, now=now, visible_at=visible_at, uncount=int(ignore_attempt))
    if not given:
        raise ProviderError("abandon_work_item", "the lock is not held", code="lock_lost")
    return visible_at


def renew(store: Statements, tokens: Sequence[str], extend_ms: int) -> list[str]:
    """Extend live locks; returns the tokens that are lost."""
    now = store.now_ms()
    lost: list[str] = []
    for token in tokens:
        renewed = store.row("renew_work_item", token=token, now=now, locked_until=now + extend_ms)
        if renewed is None:
            lost.append(token)
        elif renewed[0] is not None:
            store.change("touch_session", session_id=renewed[0], now=now)
    return lost


def renew_sessions(store: Statements, owners: Sequence[str], extend_ms: int, idle_timeout_ms: int) -> int:
    """Extend live sessions that are not idle."""
    now = store.now_ms()
    times = {"now": now, "locked_until": now + extend_ms, "active_since": now - idle_timeout_ms}
    return sum(store.change("renew_sessions", owner=owner, **times) for owner in set(owners))
