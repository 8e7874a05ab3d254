"""Stela: a machine more or less, its executors to what is congested and has most of the throughput behind it."""

from __future__ import annotations

from collections.abc import Mapping

from stormwright.advise.adviser import Observation, WantedSize, target_rates, within_tasks

#: What comes in is more than is handled by at least this.
_CONGESTED = 1.0 + 1e-6

#: What names of Storm's own components begin with, ackers among them: they are no sinks.
_SYSTEM = "__"

#: Less of the time than this is no back pressure.
_LEAST_HELD_BACK = 0.01


class Stela:
    """L. Xu, B. Peng, I. Gupta, "Stela: enabling stream processing systems to scale-in and scale-out on-demand", IC2E
    2016, https://doi.org/10.1109/IC2E.2016.38.

    Whoever runs a topology asks for a machine more or less. A new one has room for as many executors as a machine has
    on average. Each goes to the congested component with the highest effective throughput percentage (ETP): the part of
    the throughput of all sinks that it reaches on ways without another congested one; then rates are projected anew.

    Three things differ. Here nobody asks: a machine more is asked for where spouts are held back, one less where no
    executor is busy for more than `idle_below` of the time and the others could do it all. A machine is a worker. And
    as an observation does not tell which executors a machine has, one that goes takes those of the components that are
    least busy, as long as nothing becomes congested.

    Parameters
    ----------
    idle_below
        See above.
    """

    def __init__(self, idle_below: float = 0.5) -> None:
        self._idle_below = idle_below

    def advise(self, seen: Observation) -> WantedSize:
        """See `Adviser`."""
        per_machine = max(round(seen.total / max(seen.workers, 1)), 1)
        if any(each.held_back > _LEAST_HELD_BACK for each in seen.components):
            return self._out(seen, per_machine)
        if seen.workers > 1 and max(each.busiest for each in seen.components) < self._idle_below:
            return self._in(seen, per_machine)
        return WantedSize(seen.executors, why="nobody asks for a machine more or less")

    def _out(self, seen: Observation, room: int) -> WantedSize:
        counts = seen.executors
        for _ in range(room):
            found = {name: etp for name, etp in _etp(seen, counts).items() if counts[name] < _tasks(seen)[name]}
            if not found:
                break
            counts[max(found, key=lambda name: (found[name], name))] += 1
        if counts == seen.executors:
            return WantedSize(counts, why="nothing that is congested has a task left")
        return WantedSize(within_tasks(counts, seen), seen.workers + 1, "a machine more for what is congested")

    def _in(self, seen: Observation, room: int) -> WantedSize:
        counts, left = seen.executors, room
        by_busy = sorted(seen.components, key=lambda each: (each.busy, each.component))
        while left:
            fewer = [counts | {each.component: counts[each.component] - 1} for each in by_busy]
            good = [each for each in fewer if min(each.values()) > 0 and not _congested(seen, each)]
            if not good:
                break
            counts, left = good[0], left - 1
        if left == room:
            return WantedSize(seen.executors, why="no machine can go")
        return WantedSize(within_tasks(counts, seen), seen.workers - 1, "a machine less, as none is busy")


def _tasks(seen: Observation) -> dict[str, int]:
    return {each.component: each.tasks for each in seen.components}


def _capacity(seen: Observation, counts: Mapping[str, int]) -> dict[str, float]:
    return {each.component: each.true_tps * counts[each.component] for each in seen.components}


def _congested(seen: Observation, counts: Mapping[str, int]) -> set[str]:
    capacity = _capacity(seen, counts)
    rates = target_rates(seen, capacity)
    return {name for name, rate in rates.items() if rate > _CONGESTED * capacity[name]}


def _etp(seen: Observation, counts: Mapping[str, int]) -> dict[str, float]:
    """Effective throughput percentage of every congested component."""
    capacity = _capacity(seen, counts)
    rates = target_rates(seen, capacity)
    congested = {name for name, rate in rates.items() if rate > _CONGESTED * capacity[name]}
    own = [each for each in seen.components if not each.component.startswith(_SYSTEM)]
    targets: dict[str, list[str]] = {each.component: [] for each in own}
    for each in own:
        for source in each.inputs if not each.is_spout else ():
            targets[source].append(each.component)
    through = {name: min(rates[name], capacity[name]) for name, on in targets.items() if not on}
    total = sum(through.values())
    found = {}
    for name in congested & set(targets):
        reached, waiting = set[str](), [name]
        while waiting:
            one = waiting.pop()
            if one not in reached:
                reached.add(one)
                waiting += [each for each in targets[one] if each not in congested]
        found[name] = sum(through.get(one, 0.0) for one in reached) / total if total > 0 else 0.0
    return found
