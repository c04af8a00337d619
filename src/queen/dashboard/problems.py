"""What is wrong at the moment: each with its cause, since when, and one safe thing to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

from queen.dashboard.look import GroupLook, Look, Minute, ParkedLook, QueueLook, StuckLook
from queen.dashboard.words import count, group_name, number, plural, size, span, url
from queen.server.wire import Wire

if TYPE_CHECKING:
    from queen.server.broker import Broker

GROWING_OVER: Final = 10
GROWING_LEAST: Final = 100
UNUSED: Final = 300.0
OLD_TRANSACTION: Final = 300.0
REPLICA_LAG: Final = 30.0
REPLICA_BYTES: Final = 256 * 1024 * 1024


class Problem(Wire, kw_only=True):
    """One thing that is wrong. `ask` is a dialog to open, `link` a page to go to."""

    kind: str
    severity: Literal["bad", "warn"]
    subject: str
    text: str
    why: str
    seconds: float | None = None
    queue: str | None = None
    action: str = "Look at it"
    link: str | None = None
    ask: str | None = None


def find_problems(look: Look, broker: Broker) -> list[Problem]:
    """Everything that is wrong, what is broken before what will be, the longest first."""
    if look.problem is not None or not broker.watch.up:
        return [_away(look, broker)]
    now = look.now or datetime.now(UTC)
    found = [
        *_stuck(look, now),
        *_dead(look, now),
        *_growing(look),
        *_unused(look, now),
        *_parked(look, now),
        *_held_back(look, broker),
        *_replicas(look),
    ]
    return sorted(found, key=lambda each: (each.severity != "bad", -(each.seconds or 0.0)))


def _away(look: Look, broker: Broker) -> Problem:
    kept = f"{plural(broker.buffer.pending, 'message')} kept on disk so far" if broker.buffer.pending else "none so far"
    return Problem(
        kind="away",
        severity="bad",
        subject="The database",
        text="does not answer; pushes are kept in the disk buffer and stored in order when it returns",
        why=f"{broker.watch.problem or look.problem or 'no answer'} · {kept}",
        action="System",
        link="system",
    )


def _stuck(look: Look, now: datetime) -> Iterator[Problem]:
    """One for each group and queue: the partition that waits longest, and how many are like it."""
    shown: dict[tuple[int, str], int] = {}
    for lane in look.stuck:
        if lane.retry_count or lane.lease_acquired_at:
            shown[lane.queue_id, lane.consumer_group] = shown.get((lane.queue_id, lane.consumer_group), 0) + 1
    told: set[tuple[int, str]] = set()
    for lane in look.stuck:
        queue = look.queues.get(lane.queue_id)
        key = lane.queue_id, lane.consumer_group
        if queue is None or key in told or key not in shown or not (lane.retry_count or lane.lease_acquired_at):
            continue
        told.add(key)
        others = f" · {plural(shown[key] - 1, 'more partition')} like it" if shown[key] > 1 else ""
        yield _one_stuck(queue, lane, now, others)


def _one_stuck(queue: QueueLook, lane: StuckLook, now: datetime, others: str) -> Problem:
    if lane.lease_acquired_at is not None and lane.lease_expires_at is not None:
        cause = f"held by a consumer for {span((now - lane.lease_acquired_at).total_seconds())}, "
        cause += f"free again in {span((lane.lease_expires_at - now).total_seconds())} unless renewed"
        if lane.retry_count:
            cause = f"failed {_times(lane.retry_count)} before, {cause}"
    else:
        due = (lane.ready_at - now).total_seconds() if lane.ready_at else 0.0
        cause = f"failed {_times(lane.retry_count)}, next try {'in ' + span(due) if due > 1 else 'now'}"
    behind = f" · {plural(lane.waiting - 1, 'message')} behind it" if lane.waiting > 1 else ""
    message = {"partition": lane.partition_id, "transaction": lane.transaction_id}
    return Problem(
        kind="stuck",
        severity="bad",
        subject=f"{queue.name} / {lane.partition_name}",
        text=f"waits behind message {count(lane.seq)} for {group_name(lane.consumer_group)}",
        why=f"{cause}{behind}{others}",
        seconds=(now - lane.oldest_at).total_seconds(),
        queue=queue.name,
        action="Dead-letter it…",
        link=url("message", **message),
        ask=url("ask/bury", group=lane.consumer_group, queue=queue.name, **message),
    )


def _times(number_of: int) -> str:
    return "once" if number_of == 1 else f"{number_of} times"


def _dead(look: Look, now: datetime) -> Iterator[Problem]:
    for cluster in look.errors:
        names = [look.queues[each].name for each in cluster.queue_ids if each in look.queues]
        if not cluster.lately or not names:
            continue
        age = (now - cluster.first_failed_at).total_seconds()
        earlier = (cluster.dead_letters - cluster.lately) / max(age / 3600 - 1, 1.0)
        rising = cluster.lately > max(2 * earlier, 1)
        before = f"{plural(cluster.dead_letters, 'dead letter')} of this kind in {span(age)}"
        first = cluster.sample.splitlines()[0] if cluster.sample.strip() else "no error text"
        groups = ", ".join(map(group_name, cluster.consumer_groups[:3]))
        yield Problem(
            kind="rising" if rising else "failing",
            severity="bad" if rising else "warn",
            subject=", ".join(names[:3]),
            text=f"{plural(cluster.lately, 'dead letter')} in the last hour: {first[:200]}",
            why=f"{before if cluster.lately < cluster.dead_letters else 'none of this kind before'} · group {groups}",
            seconds=age,
            queue=names[0],
            action="Look at them",
            link=url("dead-letters", error=cluster.error),
        )


def _growing(look: Look) -> Iterator[Problem]:
    for queue in look.queues.values():
        minutes = look.pace.get(queue.id, [])[-GROWING_OVER:]
        if len(minutes) < 3 or queue.paused or queue.waiting < GROWING_LEAST:
            continue
        if all(later.lag >= earlier.lag for earlier, later in pairwise(minutes)):
            first, last = minutes[0], minutes[-1]
            if last.lag > first.lag * 1.1:
                yield _one_growing(queue, minutes, look.groups_of(queue.id))


def _one_growing(queue: QueueLook, minutes: list[Minute], groups: list[GroupLook]) -> Problem:
    seconds = max((minutes[-1].bucket - minutes[0].bucket).total_seconds(), 60.0)
    gained = (minutes[-1].lag - minutes[0].lag) / seconds
    pushed = sum(minute.pushed for minute in minutes[1:]) / seconds
    slowest = groups[0] if groups else None
    who = f"group {group_name(slowest.consumer_group)}" if slowest else "nobody consumes it, and it"
    workers = f" · {plural(slowest.leases, 'lease')} out" if slowest else ""
    return Problem(
        kind="growing",
        severity="warn",
        subject=queue.name,
        text=f"takes in {number(pushed)}/s and {who} finishes {number(max(pushed - gained, 0.0))}/s",
        why=f"{count(queue.waiting)} waiting, {count(gained * 3600)} more every hour at this pace{workers}",
        seconds=seconds,
        queue=queue.name,
        action="Open queue",
        link=url("queue", name=queue.name),
    )


def _unused(look: Look, now: datetime) -> Iterator[Problem]:
    for group in look.groups:
        queue = look.queues.get(group.queue_id)
        if queue is None or queue.paused or group.oldest_at is None or group.leases or group.failing:
            continue
        waited = (now - group.oldest_at).total_seconds()
        idle = (now - (group.last_consumed_at or group.created_at)).total_seconds()
        if min(waited, idle) >= UNUSED:
            yield Problem(
                kind="idle",
                severity="warn",
                subject=queue.name,
                text=f"nobody takes messages for {group_name(group.consumer_group)}",
                why=f"{plural(group.waiting, 'message')} waiting in {plural(group.behind, 'partition')}"
                f" · last done {span(idle)} ago",
                seconds=min(waited, idle),
                queue=queue.name,
                action="Open group",
                link=url("group", queue=queue.name, name=group.consumer_group),
            )
    for queue in look.queues.values():
        if queue.paused and queue.waiting:
            yield Problem(
                kind="paused",
                severity="warn",
                subject=queue.name,
                text=f"is paused with {plural(queue.waiting, 'message')} waiting",
                why="pushes are stored, nothing is handed out until it is resumed",
                queue=queue.name,
                action="Resume…",
                link=url("queue", name=queue.name),
                ask=url("ask/resume", queue=queue.name),
            )


def _held_back(look: Look, broker: Broker) -> Iterator[Problem]:
    modes = broker.watch.modes
    if modes.push or modes.pop or broker.buffer.pending:
        what = "pops are switched off" if modes.pop else "pushes go to disk" if modes.push else "the disk buffer drains"
        yield Problem(
            kind="buffer",
            severity="warn",
            subject="Broker",
            text=f"{what}; {plural(broker.buffer.pending, 'message')} in the disk buffer",
            why="maintenance is switched on" if modes.push or modes.pop else "they are stored in order",
            action="System",
            link="system",
        )
    for late in look.late:
        yield Problem(
            kind="late",
            severity="bad",
            subject=f"Service {late['service']}",
            text="has had no success for three of its intervals",
            why=f"last error: {late['last_error']}" if late["last_error"] else "no error was reported",
            action="System",
            link="system",
        )
    oldest = look.oldest_transaction
    if oldest is not None and (oldest["seconds"] or 0) > OLD_TRANSACTION:
        yield Problem(
            kind="held back",
            severity="warn",
            subject=f"Session {oldest['pid']}",
            text="holds a transaction open, so that no dead row can be cleaned up",
            why=f"{oldest['application'] or 'no application name'} · {oldest['state']}",
            seconds=oldest["seconds"],
            action="System",
            link="system",
        )


def _parked(look: Look, now: datetime) -> Iterator[Problem]:
    """One for each kind of workflow: the one parked longest, and how many are like it."""
    kinds: dict[str, list[ParkedLook]] = {}
    for each in look.parked:
        kinds.setdefault(each.name, []).append(each)
    for name, parked in kinds.items():
        first = parked[0]
        others = f" · {plural(len(parked) - 1, 'more')} like it" if len(parked) > 1 else ""
        reason = (first.output or "no reason was given").splitlines()[0]
        yield Problem(
            kind="parked",
            severity="bad",
            subject=f"{name} / {first.instance}",
            text="is parked: its code does not fit what it has done so far",
            why=f"{reason[:200]}{others}",
            seconds=max(now.timestamp() - first.updated_at / 1000, 0.0),
            action="Try again…",
            link=url("workflow", id=first.instance),
            ask=url("ask/workflow", id=first.instance, what="retry"),
        )


def _replicas(look: Look) -> Iterator[Problem]:
    for each in look.replicas:
        seconds, behind = each["seconds"] or 0.0, each["bytes"] or 0
        if seconds > REPLICA_LAG or behind > REPLICA_BYTES:
            how = span(seconds) if seconds > REPLICA_LAG else size(behind)
            yield Problem(
                kind="replica",
                severity="warn",
                subject=f"Replica {each['name'] or 'without a name'}",
                text=f"is {how} behind",
                why=f"{each['state']} · reads from it are old, and a failover would lose that much",
                seconds=seconds or None,
                action="System",
                link="system?tab=postgres",
            )
