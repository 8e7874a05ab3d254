"""Processor sharing: jobs that share cores.

n jobs on c cores all run at the speed min(1, c / n) of a core. So all jobs progress equally, and a job with the work w
is done when each has done w more than now: jobs are in a heap by that, and none is updated when others enter or leave.

On a core with a quota (`stormwright.simulator.kernel.quotas`) jobs run one after the other
(`stormwright.simulator.kernel.turns`); its record is the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormwright.jit.compiled import Record, Records, inner
from stormwright.simulator.kernel.arrays import NEVER

#: `done` is what every job has done since the beginning, as of `since`, in seconds of a core; `speed` that of a core,
#: 1 as a rule; `busy` are core seconds that were worked; `taken` cores that are so whatever happens. Its jobs are
#: `count` of the heap from `first` on, which has room for `room`. Of a core with the quota `quota`, which others have
#: not (-1): core seconds that are `left` of it; if it is `held`; the ring's `head`; who has the `turn`,
#: and has `ran` for so long; from when on it is `had`, others being on it before. With a core for each job
#: (`alone`) there is nothing to share, and no heap.
SHARE = np.dtype(
    [
        *((name, np.float64) for name in ("done", "since", "rate", "cores", "speed", "taken", "busy")),
        *((name, np.float64) for name in ("left", "ran", "had")),
        *((name, np.int64) for name in ("first", "count", "room", "quota", "head", "turn")),
        *((name, np.bool_) for name in ("held", "alone")),
    ],
    align=True,
)

#: A job: progress at which it is done; and its owner.
JOB = np.dtype([("at", np.float64), ("who", np.int64)])

#: Tolerance of remaining work, relative to the time.
_ROUNDING = 1e-14


class Shares(NamedTuple):
    """Shared cores, of `SHARE`, and the heaps of their jobs, of `JOB`."""

    cores: Records
    jobs: Records


@inner
def go_on(here: Record, now: float) -> None:
    """Advance all jobs to `now`."""
    passed = now - here.since
    here.since = now
    here.done += passed * here.rate
    here.busy += passed * here.rate / here.speed * here.count


@inner
def next_end(here: Record, jobs: Records) -> float:
    """Update the speed of jobs and return the next event time, after `go_on` for now."""
    here.rate = 0.0
    if here.count == 0:
        return NEVER
    here.rate = here.speed * min(1.0, max(here.cores - here.taken, 0.0) / here.count)
    if here.rate <= 0.0:
        return NEVER
    return float(here.since + max(jobs[here.first].at - here.done, 0.0) / here.rate)


@inner
def has_done(here: Record, jobs: Records) -> bool:
    """Return whether the first job is done, up to rounding."""
    if here.count == 0:
        return False
    return bool(jobs[here.first].at - here.done <= _ROUNDING * max(here.since, here.done))


@inner
def put(here: Record, jobs: Records, who: int, work: float) -> None:
    """Insert the job of `who` with `work` into the heap `jobs` of `here`, which has space."""
    if here.count == 0:
        here.done = 0.0  # avoids rounding errors
    at, first, place = here.done + work, here.first, here.count
    here.count += 1
    while place > 0:
        above = (place - 1) >> 1
        if not _before(at, who, jobs[first + above]):
            break
        jobs[first + place].at, jobs[first + place].who = jobs[first + above].at, jobs[first + above].who
        place = above
    jobs[first + place].at, jobs[first + place].who = at, who


@inner
def take_first(here: Record, jobs: Records) -> int:
    """Remove the first job and return its owner."""
    first = here.first
    who = jobs[first].who
    drop(here, jobs, 0)
    return int(who)


@inner
def drop(here: Record, jobs: Records, place: int) -> None:
    """Remove the job at a place of the heap."""
    first = here.first
    here.count -= 1
    count = here.count
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
def drop_of(here: Record, jobs: Records, who: int) -> None:
    """Remove the job of `who`."""
    for place in range(here.count):
        if jobs[here.first + place].who == who:
            drop(here, jobs, place)
            break


@inner
def _before(at: float, who: int, other: Record) -> bool:
    return bool(at < other.at or (at == other.at and who < other.who))
