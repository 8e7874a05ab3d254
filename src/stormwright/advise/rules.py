"""Published scaling rules: Dhalion, DS2, Stela."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, inf

from stormwright.advise.adviser import ComponentObservation, Observation, TargetSize, target_rates, within_tasks

# Dhalion ------------------------------------------------------------------------------------------
# Dhalion: symptoms, a diagnosis, and one change at a time; ineffective changes are not repeated.

#: A change that raised the rate by less than this part did not help.
_HELPED = 0.01


class Dhalion:
    """A. Floratou, A. Agrawal, B. Graham, S. Rao, K. Ramasamy, "Dhalion: self-regulating stream processing in Heron",
    PVLDB 10(12), 2017, https://doi.org/10.14778/3137765.3137786, its policy of dynamic resource provisioning.

    Symptom: a bolt holds spouts back. Diagnosis: it has too few instances. Resolver: if spouts are held back for a
    fraction s of the time, it is scaled by 1 + s / (1 − s). Without back pressure, bolts with almost empty queues are
    scaled down by a fixed fraction. A change that did not help is not tried again.

    Two deviations: slow and skewed instances, which Heron restarts or spreads by another hash, are not diagnosed; and
    spouts are scaled like bolts, as spouts of Storm can be the bottleneck themselves.

    Parameters
    ----------
    scale_down
        Fraction by which an idle bolt is scaled down.
    idle_below
        Maximum utilisation of its busiest executor: at 0.5 at most one tuple waits on average.
    """

    def __init__(self, scale_down: float = 0.2, idle_below: float = 0.5) -> None:
        self._scale_down, self._idle_below = scale_down, idle_below
        self._last: tuple[str, bool, float] | None = None
        self._useless: set[tuple[str, bool]] = set()

    def advise(self, observation: Observation) -> TargetSize:
        """See `Adviser`."""
        holding = [each for each in observation.components if each.held_back > _LEAST_HELD_BACK]
        self._judge(observation, bool(holding))
        if holding:
            return self._up(observation, max(holding, key=lambda each: (each.held_back, each.busiest)))
        return self._down(observation)

    def _judge(self, observation: Observation, held_back: bool) -> None:
        """Record the last change as useless if it did not help."""
        if self._last is None:
            return
        component, up, reached_tps = self._last
        if held_back and (not up or observation.reached_tps < (1 + _HELPED) * reached_tps):
            self._useless.add((component, up))
        self._last = None

    def _up(self, observation: Observation, worst: ComponentObservation) -> TargetSize:
        candidates = [worst, *sorted(observation.components, key=lambda each: -each.busiest)]
        for each in candidates:
            if (each.component, True) in self._useless or each.executors >= each.tasks:
                continue
            suspended = min(worst.held_back, 0.99)
            factor = 1 + suspended / (1 - suspended)
            self._last = (each.component, True, observation.reached_tps)
            counts = within_tasks({each.component: ceil(each.executors * factor)}, observation)
            return TargetSize(counts, why=f"{each.component} holds spouts back for {suspended:.0%} of the time")
        return TargetSize(observation.executors, why="no remaining change could help")

    def _down(self, observation: Observation) -> TargetSize:
        for each in observation.components:
            fewer = int(each.executors * (1 - self._scale_down))
            if each.busiest < self._idle_below and fewer >= 1 and (each.component, False) not in self._useless:
                self._last = (each.component, False, observation.reached_tps)
                return TargetSize(within_tasks({each.component: fewer}, observation), why=f"{each.component} is idle")
        return TargetSize(observation.executors, why="no change needed")


# DS2 ----------------------------------------------------------------------------------------------
# DS2: number of executors from the true processing rate of one.

#: Rounding of a quotient that is a whole number.
_ROUNDING = 1e-9


class Ds2:
    """V. Kalavri, J. Liagouris, M. Hoffmann, D. Dimitrova, M. Forshaw, T. Roscoe, "Three steps is all you need: fast,
    accurate, automatic scaling decisions for distributed streaming dataflows", OSDI 2018, pages 783 to 798 (without a
    DOI).

    The optimal parallelism of an operator is its target rate by the true processing rate of one instance, the rate
    while it does not wait (their equations 7 and 8): a component gets ⌈target / true rate of an executor⌉ executors.
    One pass over the graph from the sources gives all components at once.

    Two deviations: the number of spouts, which is given in the paper, is determined in the same way; and no component
    gets more executors than it has tasks, which Storm fixes when a topology is submitted. The number of workers is
    unchanged.

    Parameters
    ----------
    target_ratio
        Rate to plan for, relative to the offered one; 1 in the paper.
    """

    def __init__(self, target_ratio: float = 1.0) -> None:
        self._target_ratio = target_ratio

    def advise(self, observation: Observation) -> TargetSize:
        """See `Adviser`."""
        target = target_rates(observation)
        counts = {
            each.component: ceil(self._target_ratio * target[each.component] / each.true_tps - _ROUNDING)
            for each in observation.components
            if 0 < each.true_tps < inf
        }
        return TargetSize(within_tasks(counts, observation), why="offered rate by the true rate of an executor")


# Rules --------------------------------------------------------------------------------------------

#: Minimum ratio of incoming to handled tuples of a congested component.
_CONGESTED = 1.0 + 1e-6

#: Prefix of Storm's own components, including ackers, which are no sinks.
_SYSTEM = "__"

#: Minimum fraction of the time that counts as back pressure.
_LEAST_HELD_BACK = 0.01


class Stela:
    """L. Xu, B. Peng, I. Gupta, "Stela: enabling stream processing systems to scale-in and scale-out on-demand", IC2E
    2016, https://doi.org/10.1109/IC2E.2016.38.

    An operator adds or removes a machine. A new machine has capacity for as many executors as machines have on average.
    Each one goes to the congested component with the highest effective throughput percentage (ETP): the fraction of the
    throughput of all sinks that it reaches on paths without another congested one; then rates are projected again.

    Three deviations. Machines are added and removed automatically: one more if spouts are held back, one less if no
    executor is busy for more than `idle_below` of the time and the others have enough capacity. A machine is a worker.
    And as an observation does not include the executors of a machine, a removed one takes executors of the least busy
    components, as long as nothing becomes congested.

    Parameters
    ----------
    idle_below
        Maximum utilisation of the busiest executor at which a machine is removed.
    """

    def __init__(self, idle_below: float = 0.5) -> None:
        self._idle_below = idle_below

    def advise(self, observation: Observation) -> TargetSize:
        """See `Adviser`."""
        per_machine = max(round(observation.total / max(observation.workers, 1)), 1)
        if any(each.held_back > _LEAST_HELD_BACK for each in observation.components):
            return self._out(observation, per_machine)
        if observation.workers > 1 and max(each.busiest for each in observation.components) < self._idle_below:
            return self._in(observation, per_machine)
        return TargetSize(observation.executors, why="no change of the number of nodes is needed")

    def _out(self, observation: Observation, room: int) -> TargetSize:
        counts = observation.executors
        for _ in range(room):
            found = {
                name: etp for name, etp in _etp(observation, counts).items() if counts[name] < _tasks(observation)[name]
            }
            if not found:
                break
            counts[max(found, key=lambda name: (found[name], name))] += 1
        if counts == observation.executors:
            return TargetSize(counts, why="no congested component has a task left")
        return TargetSize(
            within_tasks(counts, observation), observation.workers + 1, "one more machine for the congested components"
        )

    def _in(self, observation: Observation, room: int) -> TargetSize:
        counts, left = observation.executors, room
        by_busy = sorted(observation.components, key=lambda each: (each.busy, each.component))
        while left:
            fewer = [counts | {each.component: counts[each.component] - 1} for each in by_busy]
            good = [each for each in fewer if min(each.values()) > 0 and not _congested(observation, each)]
            if not good:
                break
            counts, left = good[0], left - 1
        if left == room:
            return TargetSize(observation.executors, why="no machine can be removed")
        return TargetSize(
            within_tasks(counts, observation), observation.workers - 1, "one machine less, as none is busy"
        )


def _tasks(observation: Observation) -> dict[str, int]:
    return {each.component: each.tasks for each in observation.components}


def _capacity(observation: Observation, counts: Mapping[str, int]) -> dict[str, float]:
    return {each.component: each.true_tps * counts[each.component] for each in observation.components}


def _congested(observation: Observation, counts: Mapping[str, int]) -> set[str]:
    capacity = _capacity(observation, counts)
    rates = target_rates(observation, capacity)
    return {name for name, rate in rates.items() if rate > _CONGESTED * capacity[name]}


def _etp(observation: Observation, counts: Mapping[str, int]) -> dict[str, float]:
    """Return the effective throughput percentage of every congested component."""
    capacity = _capacity(observation, counts)
    rates = target_rates(observation, capacity)
    congested = {name for name, rate in rates.items() if rate > _CONGESTED * capacity[name]}
    own = [each for each in observation.components if not each.component.startswith(_SYSTEM)]
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
