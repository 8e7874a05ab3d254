"""Cooling schedule: the temperature of a search by its progress.

With h the first and c the last temperature, relative to the typical change by a step, m, a cooling is ::

    T(x) = m · h^(1 - x) · c^x,   x from 0 to 1

so that it takes as long from 0.1 to 0.01 as from 0.01 to 0.001. Several coolings follow each other if there are
more steps than one needs: a second start does more than an even slower end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from stormwright.optimize.kernel.records import Layout

#: Stretches of one temperature in a search, and the least in each cooling.
_STRETCHES, _FEWEST_STRETCHES = 200, 40

#: Most steps of a cooling for each topology of E executors, factor × E ** power; then comes the next. It takes no fewer
#: than `_FEWEST_STRETCHES` × 50, or Python between them would take longer than the steps.
_COOLING, _COOLING_POWER, _SHORTEST_COOLING = 2, 2.7, 50 * _FEWEST_STRETCHES

#: First and last temperature, relative to the mean traffic of an executor and its price of uneven CPU; the first for
#: very many topologies, and the addition for a single one, which is never placed again as a whole. With few steps for
#: each executor there is no time to recover from a hot start.
_HOTTEST, _HOTTER, _HEAT_PER_STEP, _COLDEST = 0.1, 0.2, 1.2e-4, 0.001


@dataclass(frozen=True)
class Cooling:
    """Temperatures of a search, from hot to cold, once or several times.

    Parameters
    ----------
    mean
        Mean traffic of an executor, in tuples/s, and its price of uneven CPU where that has a price.
    hottest
        The first temperature, relative to that.
    times
        Number of times that the temperature falls from hot to cold.
    stretches
        Stretches of one temperature in all.
    steps_an_executor
        Steps of one cooling by movable executors, roughly.
    """

    mean: float
    hottest: float
    times: int
    stretches: int
    steps_an_executor: float

    @classmethod
    def of(cls, layout: Layout, steps: float) -> Self:
        """Return the cooling of a search with about this many steps."""
        executors = len(layout.free_executors)
        sizes = np.bincount(layout.executors["topology"][layout.free_executors])
        most = _HOTTEST + _HOTTER * sizes.max() / executors
        hottest = min(most, max(_HEAT_PER_STEP * steps / executors, _COLDEST))
        cooling = max(_COOLING * float((sizes.astype(float) ** _COOLING_POWER).sum()), _SHORTEST_COOLING)
        times = max(1, round(steps / cooling))
        mean = _mean_rise(layout)
        stretches = max(_STRETCHES, _FEWEST_STRETCHES * times)
        return cls(mean, hottest, times, stretches, steps / times / executors)

    def begun_at(self, hottest: float) -> Self:
        """Return the same with another first temperature."""
        return replace(self, hottest=max(hottest, _COLDEST))

    def temperature(self, part: float) -> float:
        """Return the temperature when `part` of the search is done, in units of the cost."""
        cooled = part * self.times % 1
        return float(self.mean * self.hottest ** (1 - cooled) * _COLDEST**cooled)


def _mean_rise(layout: Layout) -> float:
    """Return the mean traffic of a movable executor, plus twice its square of CPU on a mean node."""
    free = layout.executors[layout.free_executors]
    capacity = layout.nodes["cpu_hz"][layout.nodes["cpu_hz"] > 0]
    uneven = layout.imbalance_price * 2 * free["cpu_hz"].mean() ** 2 / capacity.mean() if len(capacity) else 0.0
    return float(free["tps"].mean() + uneven)
