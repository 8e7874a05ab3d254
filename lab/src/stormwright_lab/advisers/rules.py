"""Published scaling rules: AdaStorm, Dhalion, DS2, Stela."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, inf

import numpy as np

from stormwright.advise.adviser import ComponentObservation, Observation, TargetSize, target_rates, within_tasks

#: Minimum fraction of the time that counts as back pressure.
_MIN_HELD_BACK = 0.01

#: Tolerance of rounding in a quotient that is a whole number.
_ROUNDING = 1e-9

#: Parts of the wanted rate and of the latency that count as met.
_MET = 0.99

#: Least utilisation to plan for, if the limit of latency allows none.
_MIN_BUSY = 0.05

#: A change that raised the rate by less than this part did not help.
_HELPED = 0.01

#: Minimum ratio of incoming to handled tuples of a congested component.
_CONGESTED = 1.0 + 1e-6

#: Prefix of Storm's own components, including ackers, which are no sinks.
_SYSTEM = "__"


class AdaStorm:
    """After Z. Weng, Q. Guo, C. Wang, X. Meng, B. He, "AdaStorm: resource efficient Storm with adaptive configuration",
    ICDE 2017, https://doi.org/10.1109/ICDE.2017.178, of which only the abstract was available: the configuration of a
    topology is adapted with models learned from its history, so that the least resources meet throughput and latency.

    Assumptions:

    1. The configuration is the number of executors of each component, and of workers. The least is the one with fewest
       executors of each component, then fewest workers.
    2. Model of throughput: the time of an executor for a tuple is a + b · (executors of its component), b at least 0,
       fitted by least squares over all windows; with one number of executors so far, the mean. A component sustains
       executors / time.
    3. Model of latency: its 95th percentile is c + d · u / (1 − u) at a utilisation u of the busiest component, c and d
       at least 0, fitted likewise; it needs windows of two utilisations. So the latency bounds u; without a limit, or
       before that, u may be 1.
    4. A worker takes as many executors as workers had on average, at most, in any window that met rate and latency;
       before that as many as now.
    5. History counts more than models. If a configuration has met the goals at this rate, the least that has is left
       only after a window that met them, for a smaller one by the models that is not known to miss: no larger than one
       that missed such a rate. And the busiest component of a window that missed the rate never gets as few executors
       again for more tuples than it handled there.
    6. No component gets more executors than it has tasks. If the models say that none suffices, it gets that many.

    Parameters
    ----------
    p95_ms
        Limit of the 95th percentile of latency; None for no limit.
    """

    def __init__(self, p95_ms: float | None = None) -> None:
        self._p95_ms = p95_ms
        #: Component → (executors, seconds per tuple) of each window.
        self._seconds: dict[str, list[tuple[float, float]]] = {}
        #: (u / (1 − u), 95th percentile of latency) of each window.
        self._latency: list[tuple[float, float]] = []
        #: Component → (executors, tuples/s) of each window in which it was saturated.
        self._saturated: dict[str, list[tuple[int, float]]] = {}
        self._per_worker: float | None = None
        #: Offered rate, executors of every component and workers of each window that met the goals, and that missed.
        self._met: list[tuple[float, dict[str, int], int]] = []
        self._missed: list[tuple[float, dict[str, int], int]] = []

    def advise(self, observation: Observation) -> TargetSize:
        """See `Adviser`."""
        met = self._learn(observation)
        target, most_busy = target_rates(observation), self._most_busy()
        counts = within_tasks(
            {
                each.component: self._least(each.component, target[each.component] / most_busy, each.tasks)
                for each in observation.components
                if 0 < each.true_tps < inf
            },
            observation,
        )
        per_worker = self._per_worker or observation.total / max(observation.workers, 1)
        workers = max(ceil(sum(counts.values()) / per_worker - _ROUNDING), 1)
        size, now = (sum(counts.values()), workers), (observation.total, observation.workers)
        smaller = size != now and size[0] <= now[0] and size[1] <= now[1]
        known = self._least_met(observation.wanted_tps)
        if known and (not met or not smaller or self._is_known_to_miss(counts, workers, observation.wanted_tps)):
            return TargetSize(*known, "least that has met rate and latency")
        return TargetSize(counts, workers, f"least that the models sustain, each at most {most_busy:.0%} busy")

    def _learn(self, observation: Observation) -> bool:
        """Record a window and return whether it met rate and latency; assumptions 2 to 5."""
        for each in observation.components:
            if 0 < each.true_tps < inf:
                self._seconds.setdefault(each.component, []).append((each.executors, 1 / each.true_tps))
        busy, p95_ms = max(each.busy for each in observation.components), observation.p95_ms
        if p95_ms is not None and busy < 1:
            self._latency.append((busy / (1 - busy), p95_ms))
        if observation.reached_tps < _MET * observation.wanted_tps:
            most = max(observation.components, key=lambda each: each.busy)
            self._saturated.setdefault(most.component, []).append((most.executors, most.input_tps))
        in_time = self._p95_ms is None or (p95_ms is not None and p95_ms <= self._p95_ms)
        met = in_time and observation.reached_tps >= _MET * observation.wanted_tps
        windows = self._met if met else self._missed
        windows.append((observation.wanted_tps, observation.executors, observation.workers))
        if met:
            each_has = observation.total / max(observation.workers, 1)
            self._per_worker = max(each_has, self._per_worker or 0.0)
        return met

    def _least_met(self, tps: float) -> tuple[dict[str, int], int] | None:
        """Return the least executors and workers of windows that met at least this rate; None if there is none."""
        windows = [(counts, workers) for met_tps, counts, workers in self._met if met_tps >= _MET * tps]
        return min(windows, key=lambda each: (sum(each[0].values()), each[1]), default=None)

    def _is_known_to_miss(self, counts: Mapping[str, int], workers: int, tps: float) -> bool:
        """Return whether a configuration is no larger than one that missed at most this rate."""
        return any(
            missed_tps <= tps
            and workers <= had
            and all(count <= executors.get(name, 0) for name, count in counts.items())
            for missed_tps, executors, had in self._missed
        )

    def _most_busy(self) -> float:
        """Return the utilisation that the limit of latency allows; assumption 3."""
        if self._p95_ms is None or len({busy for busy, _ in self._latency}) < 2:
            return 1.0
        base_ms, slope_ms = _line(self._latency)
        if slope_ms == 0:
            return 1.0
        waiting = max(_MET * self._p95_ms - base_ms, 0.0) / slope_ms
        return max(waiting / (1 + waiting), _MIN_BUSY)

    def _least(self, component: str, tps: float, tasks: int) -> int:
        """Return the fewest executors that sustain a rate, `tasks` if none do; assumptions 2, 5 and 6."""
        base_s, slope_s = _line(self._seconds[component])
        # n / (a + b n) ≥ rate
        free = 1 - slope_s * tps
        if free <= 0:
            return tasks
        too_few = [count for count, handled in self._saturated.get(component, ()) if tps > handled]
        return min(max([ceil(base_s * tps / free - _ROUNDING), *(count + 1 for count in too_few)]), tasks)


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return base and slope of the least-squares line, neither below 0; the mean if all points have one abscissa."""
    x, y = np.array(points).T
    spread = float(np.var(x))
    slope = max(float(np.mean((x - x.mean()) * (y - y.mean()))) / spread, 0.0) if spread > 0 else 0.0
    base = float(y.mean() - slope * x.mean())
    if base >= 0:
        return base, slope
    return 0.0, float(np.dot(x, y) / np.dot(x, x))


class Dhalion:
    """A. Floratou, A. Agrawal, B. Graham, S. Rao, K. Ramasamy, "Dhalion: self-regulating stream processing in Heron",
    PVLDB 10(12), 2017, https://doi.org/10.14778/3137765.3137786, its policy of dynamic resource provisioning.

    Symptom: a bolt holds spouts back. Diagnosis: it has too few instances. Resolver: if spouts are held back for a
    fraction s of the time, it is scaled by 1 + s / (1 − s). Without back pressure, bolts with almost empty queues are
    scaled down by a fixed fraction. A change that did not help is not tried again.

    Three deviations: slow and skewed instances, which Heron restarts or spreads by another hash, are not diagnosed;
    spouts are scaled like bolts, as spouts of Storm can be the bottleneck themselves; and if the bolt that holds spouts
    back cannot be scaled, the next busiest component is, by the same factor.

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
        holding = [each for each in observation.components if each.held_back > _MIN_HELD_BACK]
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
        if any(each.held_back > _MIN_HELD_BACK for each in observation.components):
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
