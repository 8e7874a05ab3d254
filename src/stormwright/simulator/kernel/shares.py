"""Jobs that share the cores of a node: processor sharing, with a quota of CPU or without.

n jobs on c cores all run at the speed min(1, c / n) of a core. So what they have done since a moment is the same for
all, and a job that wants the work w is done when everyone has done w more than now: jobs wait in a heap by that, and no
job is touched when others come or go.

A node with a quota runs on all its cores until it has used up what it may in a period, then stands still until the next
one begins, as Linux's ``cpu.max`` does it. What is left of a period is not kept for the next.
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

import numpy as np

from stormwright.compiling.compiled import Record, Records, inner
from stormwright.simulator.kernel.arrays import NEVER

#: `done` is what every job has done since the beginning, as of `since`, in seconds of a core; `speed` that of a core,
#: 1 as a rule; `busy` are core seconds that were worked; `taken` cores that are so whatever happens. Its jobs are
#: `count` of the heap from `first` on, which has room for `room`. Of a quota of `quota` core seconds a `period`, `left`
#: were left; it is `held` once that is 0. Each of `pollers` that has no job uses up `polls` cores of it while the node
#: runs.
SHARE = np.dtype(
    [
        *((name, np.float64) for name in ("done", "since", "rate", "cores", "speed", "taken", "busy", "polls")),
        *((name, np.float64) for name in ("quota", "period", "left", "ends")),
        *((name, np.int64) for name in ("first", "count", "room", "pollers")),
        ("held", np.bool_),
    ],
    align=True,
)

#: A job: when everyone has done that much it is done; and whose it is.
JOB = np.dtype([("at", np.float64), ("who", np.int64)])

#: Work that is left by rounding only, in parts of the instant; and core seconds that are none.
_ROUNDING, _NONE_S = 1e-14, 1e-9


class Shares(NamedTuple):
    """Nodes, of `SHARE`, and the heaps of their jobs, of `JOB`."""

    nodes: Records
    jobs: Records


@inner
def go_on(node: Record, now: float) -> None:
    """All its jobs have run until now."""
    passed = now - node.since
    node.since = now
    node.done += passed * node.rate
    if node.quota > 0.0:
        node.left -= passed * _used(node)
        if now >= node.ends:
            node.ends += (floor((now - node.ends) / node.period) + 1.0) * node.period
            node.left, node.held = node.quota, False
        elif node.left <= _NONE_S and not node.held:
            node.left, node.held = 0.0, True
    node.busy += passed * node.rate / node.speed * node.count


@inner
def next_end(node: Record, jobs: Records) -> float:
    """How fast its jobs run from now on, and when something is next to happen to it; `go_on` was called for now."""
    cores = node.cores if node.quota > 0.0 else max(node.cores - node.taken, 0.0)
    node.rate = 0.0
    if node.count == 0:
        return NEVER
    if node.held:
        return float(node.ends)
    node.rate = node.speed * min(1.0, cores / node.count)
    if node.rate <= 0.0:
        return NEVER
    first = node.since + max(jobs[node.first].at - node.done, 0.0) / node.rate
    if node.quota > 0.0:
        first = min(first, node.ends, node.since + node.left / _used(node))
    return float(first)


@inner
def _used(node: Record) -> float:
    """Cores of its quota that are in use."""
    polling = 0.0 if node.held else node.polls * max(node.pollers - node.count, 0)
    return float(node.rate / node.speed * node.count + node.taken + polling)


@inner
def has_done(node: Record, jobs: Records) -> bool:
    """Whether its first job is done by now, up to rounding."""
    if node.count == 0 or node.held:
        return False
    return bool(jobs[node.first].at - node.done <= _ROUNDING * max(node.since, node.done))


@inner
def put(node: Record, jobs: Records, who: int, work: float) -> None:
    """The job of `who`, which wants so much `work`, joins the heap `jobs` of a `node`; there is room."""
    if node.count == 0:
        node.done = 0.0  # small numbers are exact
    at, first, place = node.done + work, node.first, node.count
    node.count += 1
    while place > 0:
        above = (place - 1) >> 1
        if not _before(at, who, jobs[first + above]):
            break
        jobs[first + place].at, jobs[first + place].who = jobs[first + above].at, jobs[first + above].who
        place = above
    jobs[first + place].at, jobs[first + place].who = at, who


@inner
def take_first(node: Record, jobs: Records) -> int:
    """Its first job leaves; whose it was."""
    first = node.first
    who = jobs[first].who
    drop(node, jobs, 0)
    return int(who)


@inner
def drop(node: Record, jobs: Records, place: int) -> None:
    """The job at a place of its heap leaves."""
    first = node.first
    node.count -= 1
    count = node.count
    at, who = jobs[first + count].at, jobs[first + count].who
    while place > 0 and _before(at, who, jobs[first + ((place - 1) >> 1)]):
        above = (place - 1) >> 1
        jobs[first + place].at, jobs[first + place].who = jobs[first + above].at, jobs[first + above].who
        place = above
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and _before(jobs[first + below + 1].at, jobs[first + below + 1].who, jobs[first + below]):
            below += 1
        if _before(at, who, jobs[first + below]):
            break
        jobs[first + place].at, jobs[first + place].who = jobs[first + below].at, jobs[first + below].who
        place = below
    jobs[first + place].at, jobs[first + place].who = at, who


@inner
def _before(at: float, who: int, other: Record) -> bool:
    return bool(at < other.at or (at == other.at and who < other.who))
