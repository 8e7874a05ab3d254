"""CPU quotas as Linux implements them (``cpu.max``, or ``cpu.cfs_quota_us``): kernel/sched/fair.c.

The threads of a group may use a number of core seconds in a period, distributed in slices to the cores that the group
runs on. A core that has used up its slice takes another one; if none is left it is throttled, with all threads of the
group on it, until a period begins in which it gets a slice, while another core may still have some of its own. The rest
of the quota expires at the end of a period; the rest of a slice does not. A core without threads returns its slice
except a millisecond. When a period begins all throttled cores are released at once, and the first to ask gets the first
slice: the order is random. If the quota is one slice, the others wait for another period.
"""

from __future__ import annotations

from math import floor

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import Record, Records, inner
from stormwright.simulator.kernel.arrays import records
from stormwright.simulator.kernel.shares import SHARE

#: Core seconds of a `period`, slices; the amount `left` until the period `ends`. `taken` cores of every period are
#: always in use. Its cores are `count` from `first` on.
QUOTA = np.dtype(
    [
        *((name, np.float64) for name in ("amount", "period", "piece", "left", "ends", "taken")),
        *((name, np.int64) for name in ("first", "count")),
    ],
    align=True,
)

#: Core seconds that count as 0, and those that a core without threads retains.
_NONE_S, _RETAINED_S = 1e-9, 1e-3


def with_quotas(
    amounts: NDArray[np.float64], each: int, period_s: float, piece_s: float, begin: NDArray[np.float64]
) -> tuple[Records, Records]:
    """Return nodes with quotas: their cores, of `stormwright.simulator.kernel.shares.SHARE`, and quotas, of `QUOTA`.

    Parameters
    ----------
    amounts
        Quota of every node, in cores, shape (N,).
    each
        Number of cores of a node for its threads.
    period_s, piece_s
        Period and slice of all quotas.
    begin
        Fraction of its first period at which each node begins, shape (N,).
    """
    cores, quotas = records(each * len(amounts), SHARE), records(len(amounts), QUOTA)
    cores["cores"], cores["speed"], cores["turn"] = 1.0, 1.0, -1
    cores["quota"] = np.repeat(np.arange(len(amounts)), each)
    quotas["period"], quotas["piece"], quotas["amount"] = period_s, piece_s, period_s * amounts
    quotas["first"], quotas["count"] = each * np.arange(len(amounts)), each
    quotas["left"], quotas["ends"] = quotas["amount"], period_s * (1.0 - begin)
    return cores, quotas


@inner
def account(quota: Record, core: Record, now: float) -> None:
    """Charge a core; if its slice is used up it takes another one, or is throttled."""
    if core.left > _NONE_S or core.held or core.count == 0:
        return
    begin(quota, now)
    _pay(quota, core, quota.piece - core.left)
    core.held = core.left <= _NONE_S


@inner
def give_back(quota: Record, core: Record, now: float) -> None:
    """Return the slice of a core without threads."""
    if core.left > _RETAINED_S:
        begin(quota, now)
        _pay(quota, core, _RETAINED_S - core.left)


@inner
def count_throttled(quota: Record, cores: Records) -> int:
    """Return the number of throttled cores."""
    count = 0
    for number in range(quota.first, quota.first + quota.count):
        count += cores[number].held
    return count


@inner
def serve(quota: Record, cores: Records, place: int) -> int:
    """Give a slice to the throttled core at `place` and release it; -1 if none is left."""
    if quota.left <= _NONE_S:
        return -1
    for number in range(quota.first, quota.first + quota.count):
        if cores[number].held:
            if place == 0:
                cores[number].held = False
                _pay(quota, cores[number], quota.piece - cores[number].left)
                return number
            place -= 1
    return -1


@inner
def _pay(quota: Record, core: Record, amount: float) -> None:
    amount = min(amount, quota.left)
    quota.left -= amount
    core.left += amount


@inner
def begin(quota: Record, now: float) -> None:
    """Begin the period that contains `now`, if it is a new one."""
    if now >= quota.ends:
        quota.ends += (floor((now - quota.ends) / quota.period) + 1.0) * quota.period
        quota.left = max(quota.amount - quota.taken * quota.period, 0.0)
