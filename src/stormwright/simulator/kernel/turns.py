"""Jobs that take turns at a core, as Linux has them do it.

A thread that has a core keeps it until it sleeps, or, where others wait, until it has run for a slice; then the one
that has waited longest has its turn. So a thread that always has the next tuple to work on works on many of them before
another one does anything. That is the scheduler's round robin among threads of the same weight that protects the one
that runs (kernel/sched/fair.c, RUN_TO_PARITY): by its deadlines alone the order might be a little different.

Records are those of `stormwright.simulator.kernel.shares`, a core's jobs a ring in place of a heap; `at` is what is
left of a job.
"""

from __future__ import annotations

from stormwright.jit.compiled import Record, Records, inner
from stormwright.simulator.kernel.arrays import NEVER

#: ``base_slice_ns`` of Linux on two cores; it grows with the logarithm of their number.
SLICE_S = 1.4e-3

#: Nobody.
_NONE = -1

#: Work that is left by rounding only, in parts of the instant; and time that is none.
_ROUNDING, _NONE_S = 1e-14, 1e-9


@inner
def run_on(core: Record, jobs: Records, now: float) -> None:
    """Who has the turn has run until now."""
    passed = now - core.since
    core.since = now
    if core.rate > 0.0:
        jobs[core.first + core.head].at -= passed * core.rate
        core.ran += passed
        core.left -= passed
        core.busy += passed


@inner
def turn_ends(core: Record, jobs: Records) -> float:
    """When something is next to happen to a core; `run_on` was called for now."""
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
    """Whether the job that has its turn is done, up to rounding."""
    if core.count == 0 or core.held:
        return False
    return bool(jobs[core.first + core.head].at <= _ROUNDING * core.since)


@inner
def finish(core: Record, jobs: Records) -> int:
    """The job that has its turn leaves; whose it was, who may go on with another one."""
    core.turn = jobs[core.first + core.head].who
    core.head = core.head + 1 if core.head + 1 < core.room else 0
    core.count -= 1
    return int(core.turn)


@inner
def enter(core: Record, jobs: Records, who: int, work: float) -> None:
    """The job of `who`, which wants so much `work`, joins the ring `jobs` of a `core`: last, or first in its turn."""
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
    """The turn of whose job was done is over, unless they have gone on with another one."""
    if core.count == 0 or jobs[core.first + core.head].who != core.turn:
        core.turn, core.ran = _NONE, 0.0


@inner
def is_over(core: Record) -> bool:
    """Whether who has the turn has had it for long enough, and others wait."""
    return bool(core.count > 1 and core.ran >= SLICE_S - _NONE_S and not core.held)


@inner
def give_way(core: Record, jobs: Records) -> None:
    """Who has the turn waits for the next one."""
    at, who = jobs[core.first + core.head].at, jobs[core.first + core.head].who
    core.head = core.head + 1 if core.head + 1 < core.room else 0
    core.count -= 1
    core.turn, core.ran = _NONE, 0.0
    enter(core, jobs, who, at)


@inner
def withdraw(core: Record, jobs: Records, who: int) -> None:
    """A job leaves that is not done."""
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
