"""Quotas of CPU, as Linux deals them out (``cpu.max``, or ``cpu.cfs_quota_us``): kernel/sched/fair.c.

The threads of a group may use so many core seconds in a period. They are dealt out to the cores that the group runs on
in pieces. A core that has used up its piece takes another one; where none is left it is held, with all threads of the
group that are on it, until a period begins in which it gets a piece, while another core may still have some of its own.
What is left of the quota at the end of a period is lost; what is left of a piece is not. A core that runs out of
threads gives back its piece but for a millisecond. As a period begins all that are held are let go at once, and who
asks first has the first piece: that is drawn. Where the quota is one piece, the others wait for another period.
"""

from __future__ import annotations

from math import floor

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import Record, Records, inner
from stormwright.simulator.kernel.arrays import records
from stormwright.simulator.kernel.shares import SHARE

#: Core seconds of a `period`, pieces in which they are dealt out; what is `left` until the period `ends`. Of every
#: period, `taken` cores are used whatever happens. Its cores are `count` from `first` on.
QUOTA = np.dtype(
    [
        *((name, np.float64) for name in ("amount", "period", "piece", "left", "ends", "taken")),
        *((name, np.int64) for name in ("first", "count")),
    ],
    align=True,
)

#: Core seconds that are none, and those that a core without threads keeps.
_NONE_S, _KEPT_S = 1e-9, 1e-3


def with_quotas(
    amounts: NDArray[np.float64], each: int, period_s: float, piece_s: float, begin: NDArray[np.float64]
) -> tuple[Records, Records]:
    """Nodes with quotas: their cores, of `stormwright.simulator.kernel.shares.SHARE`, and quotas, of `QUOTA`.

    Parameters
    ----------
    amounts
        Of every node, in cores, shape (N,).
    each
        Cores of a node that its threads run on.
    period_s, piece_s
        Of all quotas.
    begin
        In which part of its first period each node begins, shape (N,).
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
    """A core that has used up what it was dealt takes a piece, or is held."""
    if core.left > _NONE_S or core.held or core.count == 0:
        return
    begin(quota, now)
    _pay(quota, core, quota.piece - core.left)
    core.held = core.left <= _NONE_S


@inner
def give_back(quota: Record, core: Record, now: float) -> None:
    """A core has no threads at the moment."""
    if core.left > _KEPT_S:
        begin(quota, now)
        _pay(quota, core, _KEPT_S - core.left)


@inner
def count_held(quota: Record, cores: Records) -> int:
    """How many of its cores are held."""
    count = 0
    for number in range(quota.first, quota.first + quota.count):
        count += cores[number].held
    return count


@inner
def serve(quota: Record, cores: Records, place: int) -> int:
    """Of the cores that are held, that at a place among them takes a piece and goes on; -1 if there is none for it."""
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
    """Begin the period in which `now` is, if that is another one."""
    if now >= quota.ends:
        quota.ends += (floor((now - quota.ends) / quota.period) + 1.0) * quota.period
        quota.left = max(quota.amount - quota.taken * quota.period, 0.0)
