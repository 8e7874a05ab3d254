"""DS2: as many executors as the true rates of one say."""

from __future__ import annotations

from math import ceil, inf

from stormwright.advise.adviser import Observation, WantedSize, target_rates, within_tasks

#: Rounding of a quotient that is a whole number.
_ROUNDING = 1e-9


class Ds2:
    """V. Kalavri, J. Liagouris, M. Hoffmann, D. Dimitrova, M. Forshaw, T. Roscoe, "Three steps is all you need: fast,
    accurate, automatic scaling decisions for distributed streaming dataflows", OSDI 2018, pages 783 to 798 (without a
    DOI).

    Optimal parallelism is what each operator is asked for, by what one of its instances does while it is not waiting
    (their equations 7 and 8): a component gets ⌈target / true rate of an executor⌉ executors. One pass over the graph
    from the sources on gives all components at once.

    Two things differ: spouts, whose number is given there, are counted in the same way; and no component gets more
    executors than it has tasks, which Storm fixes when a topology is submitted. It says nothing of workers.

    Parameters
    ----------
    target_ratio
        Rate that is counted for, in parts of the one wanted; 1 in the paper.
    """

    def __init__(self, target_ratio: float = 1.0) -> None:
        self._target_ratio = target_ratio

    def advise(self, seen: Observation) -> WantedSize:
        """See `Adviser`."""
        target = target_rates(seen)
        counts = {
            each.component: ceil(self._target_ratio * target[each.component] / each.true_tps - _ROUNDING)
            for each in seen.components
            if 0 < each.true_tps < inf
        }
        return WantedSize(within_tasks(counts, seen), why="what is wanted, by the true rate of an executor")
