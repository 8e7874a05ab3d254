"""Time slicing: jobs that take turns on a core, as in Linux.

A running thread continues until it sleeps, or, if others wait, until its slice is over; then the thread that has waited
longest runs. So a thread with many tuples processes several of them before another one runs. That is the scheduler's
round robin among threads of the same weight that protects the running one (kernel/sched/fair.c, RUN_TO_PARITY): by its
deadlines alone the order might differ slightly.

Records are those of `stormwright.simulator.kernel.shares`, with a ring of jobs instead of a heap; `at` is the remaining
work of a job.
"""

from __future__ import annotations

from stormwright.jit.compiled import Record, Records, inner
from stormwright.simulator.kernel.arrays import NEVER

#: ``base_slice_ns`` of Linux on two cores; it grows with the logarithm of their number.
SLICE_S = 1.4e-3

#: No owner.
_NONE = -1

#: Tolerance of remaining work, relative to the time; and time that counts as 0.
_ROUNDING, _NONE_S = 1e-14, 1e-9


@inner
def run_on(core: Record, jobs: Records, now: float) -> None:
    """Advance the running job to `now`."""
    passed = now - core.since
    core.since = now
    if core.rate > 0.0:
        jobs[core.first + core.head].at -= passed * core.rate
        core.ran += passed
        core.left -= passed
        core.busy += passed


@inner
def turn_ends(core: Record, jobs: Records) -> float:
    """Return the next event time of a core, after `run_on` for now."""
    core.rate = 0.0
    if core.count == 0 or core.held:
        return NEVER
    if core.since < core.had:
        return float(core.had)
    core.rate = core.speed
    runs = min(max(jobs[core.first + core.head].at, 0.0) / core.speed, max(core.left, 0.0))
    if core.count > 1:
        runs = min(runs, max(SLICE_S - core.ran, 0.0))
    return float(core.since + runs)


@inner
def has_finished(core: Record, jobs: Records) -> bool:
    """Return whether the running job is done, up to rounding."""
    if core.count == 0 or core.held:
        return False
    return bool(jobs[core.first + core.head].at <= _ROUNDING * core.since)


@inner
def finish(core: Record, jobs: Records) -> int:
    """Remove the running job; return its owner, who may continue with another one."""
    core.turn = jobs[core.first + core.head].who
    core.head = core.head + 1 if core.head + 1 < core.room else 0
    core.count -= 1
    return int(core.turn)


@inner
def enter(core: Record, jobs: Records, who: int, work: float) -> None:
    """Insert the job of `who` with `work` into the ring `jobs` of a `core`: last, or first in its turn."""
    if core.turn == who and core.ran < SLICE_S - _NONE_S:
        core.head = core.head - 1 if core.head > 0 else core.room - 1
        place = core.head
    else:
        place = core.head + core.count
        place = place if place < core.room else place - core.room
    core.count += 1
    jobs[core.first + place].at, jobs[core.first + place].who = work, who


@inner
def end_turn(core: Record, jobs: Records) -> None:
    """End the turn of the owner of the finished job, unless it continued with another one."""
    if core.count == 0 or jobs[core.first + core.head].who != core.turn:
        core.turn, core.ran = _NONE, 0.0


@inner
def is_over(core: Record) -> bool:
    """Return whether the running job has used its slice, and others wait."""
    return bool(core.count > 1 and core.ran >= SLICE_S - _NONE_S and not core.held)


@inner
def give_way(core: Record, jobs: Records) -> None:
    """Preempt the running job."""
    at, who = jobs[core.first + core.head].at, jobs[core.first + core.head].who
    core.head = core.head + 1 if core.head + 1 < core.room else 0
    core.count -= 1
    core.turn, core.ran = _NONE, 0.0
    enter(core, jobs, who, at)


@inner
def withdraw(core: Record, jobs: Records, who: int) -> None:
    """Remove an unfinished job."""
    found, place = False, core.head
    for _ in range(core.count):
        later = place + 1 if place + 1 < core.room else 0
        if jobs[core.first + place].who == who:
            found = True
            if place == core.head:
                core.turn, core.ran = _NONE, 0.0
        if found:
            jobs[core.first + place].at, jobs[core.first + place].who = (
                jobs[core.first + later].at,
                jobs[core.first + later].who,
            )
        place = later
    core.count -= found
