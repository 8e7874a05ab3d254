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
        return TargetSize(observation.executors, why="nothing is left that could help")

    def _down(self, observation: Observation) -> TargetSize:
        for each in observation.components:
            fewer = int(each.executors * (1 - self._scale_down))
            if each.busiest < self._idle_below and fewer >= 1 and (each.component, False) not in self._useless:
                self._last = (each.component, False, observation.reached_tps)
                return TargetSize(within_tasks({each.component: fewer}, observation), why=f"{each.component} is idle")
        return TargetSize(observation.executors, why="nothing is to be done")


# DS2 ----------------------------------------------------------------------------------------------
# DS2: number of executors from the true processing rate of one.

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
        Rate to plan for, relative to the wanted one; 1 in the paper.
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
        return TargetSize(within_tasks(counts, observation), why="what is wanted, by the true rate of an executor")


# Rules --------------------------------------------------------------------------------------------

#: What comes in is more than is handled by at least this.
_CONGESTED = 1.0 + 1e-6

#: Prefix of Storm's own components, including ackers, which are no sinks.
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
            return TargetSize(counts, why="nothing that is congested has a task left")
        return TargetSize(
            within_tasks(counts, observation), observation.workers + 1, "a machine more for what is congested"
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
            return TargetSize(observation.executors, why="no machine can go")
        return TargetSize(within_tasks(counts, observation), observation.workers - 1, "a machine less, as none is busy")


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
