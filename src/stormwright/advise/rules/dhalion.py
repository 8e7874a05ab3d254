"""Dhalion: from symptoms to a diagnosis to one change at a time, and no change again that did not help."""

from __future__ import annotations

from math import ceil

from stormwright.advise.adviser import ComponentSeen, Observation, WantedSize, within_tasks

#: Less of the time than this is no back pressure.
_LEAST_HELD_BACK = 0.01

#: A change that raised the rate by less than this part did not help.
_HELPED = 0.01


class Dhalion:
    """A. Floratou, A. Agrawal, B. Graham, S. Rao, K. Ramasamy, "Dhalion: self-regulating stream processing in Heron",
    PVLDB 10(12), 2017, https://doi.org/10.14778/3137765.3137786, its policy of dynamic resource provisioning.

    Symptom: a bolt holds spouts back. Diagnosis: it has too few instances. Resolver: for a part s of the time in which
    spouts were held back it is scaled by 1 + s / (1 − s). Without back pressure, bolts with next to nothing in their
    queues are scaled down by a part. A change after which things did not become better is not tried again.

    Two things differ: slow instances and skewed ones, which Heron restarts or spreads by another hash, are no diagnosis
    here; and since spouts of Storm can be the bottleneck themselves, they are scaled as bolts are.

    Parameters
    ----------
    scale_down
        Part by which an idle bolt is scaled down.
    idle_below
        How busy its busiest executor is at most then: with half of the time one tuple waits at most on average.
    """

    def __init__(self, scale_down: float = 0.2, idle_below: float = 0.5) -> None:
        self._scale_down, self._idle_below = scale_down, idle_below
        self._last: tuple[str, bool, float] | None = None
        self._useless: set[tuple[str, bool]] = set()

    def advise(self, seen: Observation) -> WantedSize:
        """See `Adviser`."""
        holding = [each for each in seen.components if each.held_back > _LEAST_HELD_BACK]
        self._judge(seen, bool(holding))
        if holding:
            return self._up(seen, max(holding, key=lambda each: (each.held_back, each.busiest)))
        return self._down(seen)

    def _judge(self, seen: Observation, held_back: bool) -> None:
        """Remember the last change as useless where it was."""
        if self._last is None:
            return
        component, up, reached_tps = self._last
        if held_back and (not up or seen.reached_tps < (1 + _HELPED) * reached_tps):
            self._useless.add((component, up))
        self._last = None

    def _up(self, seen: Observation, worst: ComponentSeen) -> WantedSize:
        candidates = [worst, *sorted(seen.components, key=lambda each: -each.busiest)]
        for each in candidates:
            if (each.component, True) in self._useless or each.executors >= each.tasks:
                continue
            suspended = min(worst.held_back, 0.99)
            factor = 1 + suspended / (1 - suspended)
            self._last = (each.component, True, seen.reached_tps)
            counts = within_tasks({each.component: ceil(each.executors * factor)}, seen)
            return WantedSize(counts, why=f"{each.component} holds spouts back for {suspended:.0%} of the time")
        return WantedSize(seen.executors, why="nothing is left that could help")

    def _down(self, seen: Observation) -> WantedSize:
        for each in seen.components:
            fewer = int(each.executors * (1 - self._scale_down))
            if each.busiest < self._idle_below and fewer >= 1 and (each.component, False) not in self._useless:
                self._last = (each.component, False, seen.reached_tps)
                return WantedSize(within_tasks({each.component: fewer}, seen), why=f"{each.component} is idle")
        return WantedSize(seen.executors, why="nothing is to be done")
