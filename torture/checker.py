"""The checker: what must be true of any run, whatever broke meanwhile. Each check yields what is not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice, pairwise

from torture.evidence import Batch, Evidence, Lane
from torture.plan import RELAYED

# Notes and rows are written within this much of what they tell about.
SLACK = 0.25
RETENTION_EARLY = 15.0
UNTIL_SEEN = 5.0


def check(evidence: Evidence) -> list[str]:
    """Every violation of every check."""
    checks = (
        stored_once, accepted_is_stored, positions_without_holes, producers_in_order, outbox_is_atomic, relayed_once,
        leases_are_exclusive, batches_are_as_granted, held_by_one, nothing_passed_unfinished, cursors_go_forward,
        finished_comes_not_again, stale_leases_are_refused, first_failure_spends_first_retry,
        dead_letters_were_received, dead_letters_have_a_reason,
    )  # fmt: skip
    return [f"{each.__name__}: {problem}" for each in checks for problem in each(evidence)]


def stored_once(evidence: Evidence) -> Iterator[str]:
    """A name is stored once in its partition, for as long as it is kept."""
    for (partition, name), seqs in evidence.seq_of.items():
        if len(seqs) > 1:
            first, last = evidence.spans.get(name, (0.0, 0.0))
            queue = evidence.queues.get(evidence.places[partition][0])
            removed = queue is not None and queue.options["retention_enabled"]
            if not (removed and last - first > RETENTION_EARLY):
                yield f"{evidence.places[partition]} holds {name} at {seqs}"


def accepted_is_stored(evidence: Evidence) -> Iterator[str]:
    """What was answered as accepted is stored, unless its record on disk was damaged or parked: those are named."""
    for (queue, partition, name), at in evidence.accepted.items():
        lane = evidence.lanes_of.get((queue, partition))
        if (lane is None or (lane, name) not in evidence.seq_of) and name not in evidence.excused:
            yield f"{name} was accepted for {queue}/{partition} at {at:.3f} and is nowhere"


def positions_without_holes(evidence: Evidence) -> Iterator[str]:
    """Positions are 1, 2, 3 in every partition."""
    for partition, messages in evidence.stored.items():
        if max(messages) != len(messages):
            missing = list(islice((seq for seq in range(1, max(messages)) if seq not in messages), 5))
            yield f"{evidence.places.get(partition)} has no {missing}"


def producers_in_order(evidence: Evidence) -> Iterator[str]:
    """What a producer pushed to a partition one after the other is there in that order."""
    for (producer, queue, partition), names in evidence.produced.items():
        lane = evidence.lanes_of.get((queue, partition), 0)
        places = [(evidence.seq_of[lane, name][0], name) for name in names if (lane, name) in evidence.seq_of]
        for one, two in pairwise(places):
            if two < one:
                yield f"{producer} in {queue}/{partition}: {two} is before {one}"


def outbox_is_atomic(evidence: Evidence) -> Iterator[str]:
    """A message of an application's transaction is there if and only if its row is."""
    stored = {name for _, name in evidence.seq_of if name in evidence.outbox}
    for name in stored ^ evidence.committed:
        yield f"{name}: {'message' if name in stored else 'row'} without the other"


def relayed_once(evidence: Evidence) -> Iterator[str]:
    """What was acknowledged and pushed on in one transaction was pushed on once."""
    counts: Counter[tuple[str, str]] = Counter()
    for lane, messages in evidence.stored.items():
        queue, partition = evidence.places[lane]
        if queue == RELAYED:
            counts.update((partition, message.name.rpartition(">")[0]) for message in messages.values())
    dead = {(row["partition_id"], row["seq"]) for row in evidence.letters if row["consumer_group"] == "relay"}
    for lane, messages in evidence.stored.items():
        queue, partition = evidence.places[lane]
        if queue not in evidence.queues or "relay" not in evidence.queues[queue].groups:
            continue
        for message in messages.values():
            expected = int(evidence.is_for((lane, "relay"), message) and (lane, message.seq) not in dead)
            found = counts[partition, message.name]
            if found != expected:
                yield f"{queue}/{partition} {message.seq} {message.name} was relayed {found} times, not {expected}"


def leases_are_exclusive(evidence: Evidence) -> Iterator[str]:
    """A partition is handed out to a group again only when the lease before it ended."""
    for lane, grants in evidence.grants.items():
        for grant in grants:
            if grant.live is not None:
                yield f"{_where(evidence, lane)}: {grant.lease} was given while {grant.live} was live"


def batches_are_as_granted(evidence: Evidence) -> Iterator[str]:
    """What a client got is what its lease covers, from the first message on, in order and without holes."""
    granted = {(lane, grant.lease): grant for lane, grants in evidence.grants.items() for grant in grants}
    for batch in evidence.batches:
        grant = granted.get((batch.lane, batch.lease))
        if grant is None:
            yield f"{batch.source}: {batch.lease} of {_where(evidence, batch.lane)} was never given"
            continue
        seqs = _seqs(evidence, batch)
        messages = evidence.stored[batch.lane[0]]
        first = seqs[0] if seqs else grant.first
        expected = [
            seq for seq in range(first, (seqs or [0])[-1] + 1)
            if seq in messages and evidence.is_for(batch.lane, messages[seq])
        ]  # fmt: skip
        if seqs != expected or not grant.first <= first or (seqs or [0])[-1] > grant.last:
            yield f"{batch.source}: {_where(evidence, batch.lane)} gave {seqs} for {grant.first} to {grant.last}"


def held_by_one(evidence: Evidence) -> Iterator[str]:
    """As clients see it: what one of them holds for certain no other one holds."""
    ended: dict[str, float] = {}
    for told in evidence.tellings:
        ended[told.lease] = min(told.at, ended.get(told.lease, told.at))
    spans: dict[Lane, list[tuple[float, float, str]]] = defaultdict(list)
    for batch in evidence.batches:
        queue = evidence.queues.get(evidence.places[batch.lane[0]][0])
        if queue is None or batch.lease in evidence.released:
            continue
        until = batch.asked + (batch.lease_seconds or queue.options["lease_time"]) - SLACK
        until = min(until, ended.get(batch.lease, until))
        if until > batch.at:
            spans[batch.lane].append((batch.at, until, batch.lease))
    for lane, held in spans.items():
        for (_, until, one), (start, _, two) in pairwise(sorted(held)):
            if one != two and start < until and not evidence.sought(lane, start - UNTIL_SEEN, until):
                yield f"{_where(evidence, lane)}: {two} began {until - start:.3f} s before {one} ended"


def nothing_passed_unfinished(evidence: Evidence) -> Iterator[str]:
    """A cursor passes a message only when it was told to be done, or is a dead letter, or somebody moved the group."""
    done = _told_done(evidence)
    dead = {(row["partition_id"], row["consumer_group"], row["seq"]) for row in evidence.letters}
    for lane, steps in evidence.steps.items():
        for step in steps:
            if evidence.sought(lane, step.at - SLACK, step.at + SLACK):
                continue
            for seq in range(step.was + 1, step.to + 1):
                message = evidence.stored[lane[0]].get(seq)
                if message is None or (*lane, seq) in dead or not evidence.is_for(lane, message):
                    continue
                if done[lane].get(seq, float("inf")) > step.at + SLACK:
                    yield f"{_where(evidence, lane)} passed {seq} {message.name} at {step.at:.3f}: nobody had done it"


def cursors_go_forward(evidence: Evidence) -> Iterator[str]:
    """A cursor goes back only when somebody moved the group."""
    for lane, steps in evidence.steps.items():
        for step in steps:
            if step.to < step.was and not evidence.sought(lane, step.at - SLACK, step.at + SLACK):
                yield f"{_where(evidence, lane)} went back from {step.was} to {step.to} at {step.at:.3f}"


def finished_comes_not_again(evidence: Evidence) -> Iterator[str]:
    """What was answered as done is not handed out again, unless somebody moved the group.

    Behind one that failed in the same call it may: where a queue says so, the partition goes back to that one.
    """
    finished: dict[tuple[Lane, str], float] = {}
    for told in evidence.tellings:
        if told.verdict == "acked" and told.company == {"completed"} and told.answered is not None:
            key = (told.lane, told.name)
            finished[key] = min(told.answered, finished.get(key, told.answered))
    for batch in evidence.batches:
        for name in batch.names:
            at = finished.get((batch.lane, name))
            if at is not None and batch.asked > at and not evidence.sought(batch.lane, at - UNTIL_SEEN, batch.at):
                yield f"{_where(evidence, batch.lane)} {name} was done at {at:.3f} and came again at {batch.at:.3f}"


def stale_leases_are_refused(evidence: Evidence) -> Iterator[str]:
    """An outcome under a lease that was given on does not count."""
    replaced: dict[tuple[Lane, str], float] = {}
    for lane, grants in evidence.grants.items():
        for one, two in pairwise(grants):
            replaced[lane, one.lease] = two.at
    for told in evidence.tellings:
        at = replaced.get((told.lane, told.lease))
        if told.verdict == "acked" and at is not None and at + SLACK < told.at:
            late = f"{told.at - at:.3f} s after it was given on"
            yield f"{_where(evidence, told.lane)} {told.name}: {told.lease} counted {late}"


def first_failure_spends_first_retry(evidence: Evidence) -> Iterator[str]:
    """A message that is handed out for the first time has no retries and no deliveries behind it."""
    for lane, grants in evidence.grants.items():
        high = 0
        for grant in grants:
            if grant.last > high and (grant.retries or grant.deliveries):
                counts = f"{grant.retries} retries, {grant.deliveries} deliveries"
                yield f"{_where(evidence, lane)}: {max(high + 1, grant.first)} came for the first time with {counts}"
            high = max(high, grant.last)


def dead_letters_were_received(evidence: Evidence) -> Iterator[str]:
    """Nothing becomes a dead letter that nobody was handed, unless it waited too long."""
    for row in evidence.letters:
        lane = (row["partition_id"], row["consumer_group"])
        queue, partition = evidence.places[lane[0]]
        handed = any(grant.first <= row["seq"] <= min(grant.last, grant.counted_to) for grant in evidence.grants[lane])
        if not (row["evicted"] or handed or (queue, lane[1], partition, row["name"]) in evidence.given):
            yield f"{_where(evidence, lane)} {row['seq']} {row['name']}: {row['error']}"


def dead_letters_have_a_reason(evidence: Evidence) -> Iterator[str]:
    """A message that only failed did so once more than the queue allows; one whose lease ran out, as often as that."""
    failures: Counter[tuple[Lane, str]] = Counter()
    at_once: set[tuple[Lane, str]] = set()
    for told in evidence.tellings:
        if told.status == "failed":
            failures[told.lane, told.name] += 1
        if told.status == "dlq" or (told.status == "failed" and len(told.company) > 1):
            at_once.add((told.lane, told.name))
    for row in evidence.letters:
        lane = (row["partition_id"], row["consumer_group"])
        queue = evidence.queues.get(evidence.places[lane[0]][0])
        if row["evicted"] or queue is None or (lane, row["name"]) in at_once:
            continue
        if row["error"].startswith("lease expired"):
            handed = sum(grant.first <= row["seq"] <= grant.last for grant in evidence.grants[lane])
            if not 0 < queue.options["max_deliveries"] <= handed:
                yield f"{_where(evidence, lane)} {row['seq']}: {row['error']}, handed out {handed} times"
        elif failures[lane, row["name"]] <= queue.options["retry_limit"]:
            found = failures[lane, row["name"]]
            yield f"{_where(evidence, lane)} {row['seq']} failed {found} times and is dead: {row['error']}"


def _told_done(evidence: Evidence) -> dict[Lane, dict[int, float]]:
    """When each message was first told to be done: itself, or one behind it in the same batch."""
    batches: dict[tuple[Lane, str], list[str]] = {}
    for batch in evidence.batches:
        batches.setdefault((batch.lane, batch.lease), []).extend(batch.names)
    done: dict[Lane, dict[int, float]] = defaultdict(dict)
    for told in evidence.tellings:
        if told.status != "completed":
            continue
        names = batches.get((told.lane, told.lease), [told.name])
        upto = names[: names.index(told.name) + 1] if told.name in names else [told.name]
        for name in upto:
            for seq in evidence.seq_of.get((told.lane[0], name), ()):
                done[told.lane][seq] = min(told.at, done[told.lane].get(seq, told.at))
    return done


def _seqs(evidence: Evidence, batch: Batch) -> list[int]:
    return [evidence.seq_of.get((batch.lane[0], name), [0])[-1] for name in batch.names]


def _where(evidence: Evidence, lane: Lane) -> str:
    return f"{'/'.join(evidence.places[lane[0]])} of {lane[1]}"
