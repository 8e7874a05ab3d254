"""Trials of numbers of executors and nodes: placed by `optimizer` and evaluated by `predict`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stormwright.advise.search.evaluation import EvaluatedPlacement
from stormwright.advise.search.goals import AdviceGoals
from stormwright.advise.search.kinds import NodeKind, NodeMix
from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Assignment, Problem, Topology
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.constraints.resources import ResourceOveruse
from stormwright.model.constraints.violations import broken_limits
from stormwright.predict.answer import Assumptions
from stormwright.predict.changes import rebalanced, tasks_of, with_rates
from stormwright.predict.costs import Correction, Costs
from stormwright.predict.flow.profile import Profile
from stormwright.schedulers.optimizer import OptimizerParams, OptimizerScheduler

#: Tolerance of rounding.
_ROUNDING = 1e-9

#: Topology and component, by index.
Key = tuple[int, int]

#: Executors of each.
ExecutorCounts = Mapping[Key, int]

#: The optimizer counts a node as much as 0.1 % that something is too full: so much more is to stay free, so that it
#: does not do without a node for less.
_NOT_OVER_PERCENT = 0.1

#: Steps of each search for a placement.
_ITERATIONS = 15_000

#: Searches that are repeated with more headroom because the prediction finds nodes or links a little fuller than the
#: search left them, and the excess up to which they are.
_MAX_REPEATED, _LITTLE_OVER = 2, 0.1


def distributed(problem: Problem, work_hz: FloatArray) -> IntArray:
    """Return the slot of every executor, (E,): each on the node that it leaves least full, one worker per node.

    That is Graham's rule of the longest first (R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM Journal
    on Applied Mathematics 17, 1969, https://doi.org/10.1137/0117039), for nodes of different sizes. Ties go to the node
    with fewest executors of the component, then to the first node. A slot is reserved for each of the remaining
    topologies; with too few slots for that, nothing is placed. Other limits are left to the search.

    Parameters
    ----------
    problem
        Problem with the topologies and nodes.
    work_hz
        CPU of every executor, shape (E,).
    """
    nodes = len(problem.supervisors)
    used, room = np.zeros(nodes), np.maximum(problem.node_cpu_hz, 1.0)
    component = np.concatenate([np.empty(0, np.int32), *(one.executor_component for one in problem.topologies)])
    of: dict[tuple[int, int], IntArray] = {}
    free = [np.flatnonzero(problem.slot_node == node).tolist() for node in range(nodes)]
    left, waiting = len(problem.slot_node), set(problem.executor_topology.tolist())
    slot_at: dict[tuple[int, int], int] = {}
    slots = np.full(problem.num_executors, UNPLACED, np.int32)
    # Whole components one after the other, so that each is spread before the next one comes.
    heaviest = np.lexsort((np.arange(len(work_hz)), component, -np.round(work_hz, 3)))
    for executor in heaviest.tolist():
        topology = int(problem.executor_topology[executor])
        mates = of.setdefault((topology, int(component[executor])), np.zeros(nodes, np.int32))
        full = np.round((used + work_hz[executor]) / room, 9)
        for node in np.lexsort((np.arange(nodes), mates, full)).tolist():
            if (node, topology) not in slot_at and free[node] and left > len(waiting - {topology}):
                slot_at[node, topology] = free[node].pop(0)
                left -= 1
                waiting.discard(topology)
            if (node, topology) in slot_at:
                slots[executor] = slot_at[node, topology]
                used[node] += work_hz[executor]
                mates[node] += 1
                break
        else:
            return np.full(problem.num_executors, UNPLACED, np.int32)
    return slots


@dataclass(frozen=True, eq=False)
class Size:
    """Thread requirements of a component, independent of the placement.

    Parameters
    ----------
    topology, component
        Its indices, the second within the topology.
    task_cores
        Cores of each task at the required rates, in the order of tasks, shape (tasks,).
    pooled
        Whether its input is shuffled, so that all executors get the same load whatever their number of tasks.
    handled_tps
        Tuples/s of all its executors at these rates.
    """

    topology: int
    component: int
    task_cores: FloatArray
    pooled: bool
    handled_tps: float

    @property
    def tasks(self) -> int:
        """Maximum number of executors."""
        return len(self.task_cores)

    def busiest(self, executors: int) -> float:
        """Return the cores of the busiest of some executors; Storm assigns consecutive tasks, larger parts first."""
        if self.pooled:
            return float(self.task_cores.sum()) / executors
        each, larger = divmod(self.tasks, executors)
        ends = np.cumsum([each + 1] * larger + [each] * (executors - larger))
        return float(np.add.reduceat(self.task_cores, np.append(0, ends[:-1])).max())

    def least(self, allowed: float) -> int | None:
        """Return the fewest executors that need at most `allowed` cores each; None if its tasks are too few."""
        if self.pooled:
            count = max(int(np.ceil(self.task_cores.sum() / allowed - _ROUNDING)), 1)
            return count if count <= self.tasks else None
        fits = (n for n in range(1, self.tasks + 1) if self.busiest(n) <= allowed * (1 + _ROUNDING))
        return next(fits, None)

    def more(self, executors: int) -> int | None:
        """Return the next number of executors with less load of the busiest; None if there is none."""
        now = self.busiest(executors)
        less = (n for n in range(executors + 1, self.tasks + 1) if self.busiest(n) < now * (1 - _ROUNDING))
        return next(less, None)


def sizes_of(
    problem: Problem,
    profile: Profile,
    known: tuple[Costs, Mapping[str, Correction]],
    held_cores: Mapping[tuple[int, int], float],
) -> dict[tuple[int, int], Size]:
    """Return thread requirements by topology and component (indices) at the rates of a problem.

    Parameters
    ----------
    problem, profile
        Problem with loads at the required rates, without the CPU of messages.
    known
        Costs and corrections of the cluster.
    held_cores
        Busy threads of a component at these rates, if measured: more than its CPU for a bolt that waits for an external
        system.
    """
    layout = profile.layout
    cores = profile.work_cycles(*known) * profile.handled_tps / problem.core_hz
    found = {}
    for index, topology in enumerate(problem.topologies):
        own, tasks = problem.executors_of(index), tasks_of(topology)
        each = topology.executor_end_task - topology.executor_start_task + 1
        for number in np.unique(topology.executor_component).tolist():
            mine = np.flatnonzero(topology.executor_component == number)
            mine = mine[np.argsort(topology.executor_start_task[mine], kind="stable")]
            task_cores = np.repeat(cores[own][mine] / each[mine], each[mine])
            held, worked = held_cores.get((index, number), 0.0), float(task_cores.sum())
            if held > worked:
                even = np.full(len(task_cores), held / tasks[number])
                task_cores = task_cores * (held / worked) if worked > 0 else even
            found[index, number] = Size(
                topology=index,
                component=number,
                task_cores=task_cores,
                pooled=bool(profile.pooled[layout.component_offset[index] + number]),
                handled_tps=float(profile.handled_tps[own][mine].sum()),
            )
    return found


class MixTrials:
    """Trials of numbers of executors on mixes of nodes.

    Topologies without a request keep their executors and their measured rates, and are placed along with the others;
    they count for the load of nodes and links, but their own threads are not checked.

    Parameters
    ----------
    problem
        Problem with a measured load.
    goals
        Required rates, latency and headroom.
    kinds
        Available kinds of nodes.
    held_cores
        Topology and component → busy threads while the load was measured, if known: more than its CPU for a bolt that
        waits for an external system.

    Raises
    ------
    InputError
        The goals do not fit the problem.
    """

    def __init__(
        self,
        problem: Problem,
        goals: AdviceGoals,
        kinds: Sequence[NodeKind],
        held_cores: Mapping[Key, float] | None = None,
    ) -> None:
        self.goals, self.kinds = goals, tuple(kinds)
        if not kinds:
            raise InputError("advice", [Fault("no schedulable node has CPU and a free slot", "nodes")])
        assumptions, profile = Assumptions.of(problem), Profile.of(problem)
        self.known = assumptions.costs, assumptions.corrections
        rates = profile.rate_tps
        measured = np.flatnonzero((rates > 0) & ~profile.assumed).tolist()
        self.requested = goals.requested(problem, {index: float(rates[index]) for index in measured})
        self.allowed = 1.0 - goals.headroom
        every: dict[int, dict[int, int]] = {index: {} for index in range(len(problem.topologies))}
        factors = np.array([self.requested.get(t, rate) / rate if rate > 0 else 1.0 for t, rate in enumerate(rates)])
        bare = rebalanced(problem, profile, self.known[0], every)
        bare = replace(bare, blacklisted_hosts=frozenset(), greylisted_supervisors=())
        self.base = with_rates(bare, factors)
        self._profile = Profile.of(self.base)
        self._held = {key: cores * float(factors[key[0]]) for key, cores in (held_cores or {}).items()}
        sizes = sizes_of(self.base, self._profile, self.known, self._held)
        self.sizes = {key: size for key, size in sizes.items() if key[0] in self.requested}
        self._made: dict[tuple[int, ...], tuple[Problem, Profile]] = {}

    @property
    def work_hz(self) -> float:
        """Return the CPU of all executors at the requested rates, in Hz, without messages."""
        work_hz = self._profile.work_cycles(*self.known) * self._profile.handled_tps
        return float(work_hz.sum() + self._profile.idle_hz().sum())

    def most_cores(self, key: Key) -> float:
        """Return the maximum cores of one executor of a component, at the reference speed.

        It is limited by one core, and by the capacity of a node besides the worker; waiting for an external system
        takes no CPU of the node.

        Raises
        ------
        InputError
            A worker leaves nothing on any kind of node.
        """
        worker, held = self.known[0].worker_cores, key in self._held
        most = max(
            min(self.allowed, np.inf if held else self.allowed * kind.cores - worker) * kind.core_hz
            for kind in self.kinds
        )
        if most <= 0:
            message = f"no kind of node has CPU for executors besides the {worker:g} cores that a worker takes"
            raise InputError("advice", [Fault(message, "nodes")])
        return float(most / self.base.core_hz)

    def insufficient_reason(self, key: Key, cores: float) -> str:
        """Return why executors of a component that need these cores are too few."""
        fastest = max(kind.core_hz for kind in self.kinds) / self.base.core_hz
        if cores > self.allowed * fastest:
            return f"would be {cores / fastest:.0%} busy"
        return f"would take {cores:.2f} cores, of which a node has {self.most_cores(key):.2f} for them,"

    def memory_mb(self, counts: ExecutorCounts) -> float:
        """Return the memory of all executors, with these numbers for requested components."""
        problem, _ = self.made(counts)
        return float(problem.executor_memory_mb.sum())

    def name(self, key: Key) -> str:
        """Return topology and component as text."""
        topology = self.base.topologies[key[0]]
        return f"{topology.name}/{topology.components[key[1]].id}"

    def evaluated(self, counts: ExecutorCounts, mix: NodeMix, *, thoroughly: bool = False) -> EvaluatedPlacement:
        """Return the evaluation of these executors on some nodes, distributed greedily or by a search.

        The search runs only if the greedy placement is insufficient, or if `thoroughly`; the better one is returned.

        Parameters
        ----------
        counts, mix
            Number of executors of each component, and the nodes.
        thoroughly
            Whether to search in any case.
        """
        problem, profile = self.made(counts)
        problem = replace(problem, supervisors=mix.supervisors)
        work_hz = profile.work_cycles(*self.known) * profile.handled_tps + profile.idle_hz()
        first = Assignment(distributed(problem, work_hz))
        problem = replace(problem, topologies=tuple(self._with_workers(problem, first)))
        tried = []
        if np.all(first.slot_of_executor != UNPLACED) and not _broken(problem, first):
            tried.append(self.evaluated_at(problem, mix, first, counts))
            if not thoroughly and self.has_headroom(tried[0]) and self.meets_latency(tried[0]):
                return tried[0]
        # The search starts from there; it is not where the load was measured, which has no messages in it.
        problem = replace(problem, current=first.by_topology(problem), measured={})
        tried += self._searched(problem, mix, counts)
        if self.goals.p95_ms is not None:
            tried.append(self.evaluated_at(problem, mix, self._placed(problem, "latency"), counts))
        return min(tried, key=self._badness)

    def _searched(self, problem: Problem, mix: NodeMix, counts: ExecutorCounts) -> Iterator[EvaluatedPlacement]:
        """Yield placements on few nodes, each with more headroom than the one before, until nothing is overloaded."""
        percent = 100 * self.goals.headroom + _NOT_OVER_PERCENT
        for _ in range(_MAX_REPEATED + 1):
            found = self.evaluated_at(problem, mix, self._placed(problem, "nodes", min(percent, 99.0)), counts)
            yield found
            excess = found.fullest(set()) - self.allowed
            hopeless = not found.complete or found.total_use > self.allowed
            if hopeless or not 0 < excess <= _LITTLE_OVER or found.too_full(set(self.requested), self.allowed):
                return
            percent += 100 * excess

    def evaluated_at(
        self, problem: Problem, mix: NodeMix, assignment: Assignment, counts: ExecutorCounts
    ) -> EvaluatedPlacement:
        """Return the evaluation of an assignment.

        Parameters
        ----------
        problem
            Result of `made` for the counts, on the nodes of the mix.
        mix, assignment, counts
            The nodes, the placement, and the number of executors of each requested component.
        """
        held = {key: self.sizes[key].busiest(count) for key, count in counts.items() if key in self._held}
        return EvaluatedPlacement.of(problem, mix, assignment, self.made(counts)[1], self.known, held)

    def _with_workers(self, problem: Problem, first: Assignment) -> Iterator[Topology]:
        """Yield the topologies, requested ones with one worker per node or as distributed."""
        nodes, slots = len(problem.supervisors), first.slot_of_executor
        wanted = {t: min(nodes, problem.topologies[t].num_executors) for t in self.requested}
        others = sum(each.num_workers for t, each in enumerate(problem.topologies) if t not in wanted)
        if sum(wanted.values()) + others > len(problem.slots) and np.all(slots != UNPLACED):
            wanted = {t: len(set(slots[problem.executors_of(t)].tolist())) for t in wanted}
        for index, each in enumerate(problem.topologies):
            yield replace(each, num_workers=wanted.get(index, each.num_workers))

    def counts(self, evaluated: EvaluatedPlacement) -> dict[Key, int]:
        """Return the numbers of executors of requested components."""
        layout = evaluated.placed.profile.layout
        return {key: int(layout.size[layout.component_offset[key[0]] + key[1]]) for key in self.sizes}

    def p95_ms(self, evaluated: EvaluatedPlacement) -> float:
        """Return the longest 95th percentile of complete latency of requested topologies, in ms."""
        return max(evaluated.p95_ms(topology) for topology in self.requested)

    def meets_latency(self, evaluated: EvaluatedPlacement) -> bool:
        """Return whether latency is as low as requested."""
        return self.goals.p95_ms is None or self.p95_ms(evaluated) <= self.goals.p95_ms

    def has_headroom(self, evaluated: EvaluatedPlacement) -> bool:
        """Return whether everything is placed and nothing overloaded."""
        over = evaluated.complete and evaluated.too_full(set(self.requested), self.allowed)
        return evaluated.complete and not over and not evaluated.node_fault(self.allowed)

    def _badness(self, evaluated: EvaluatedPlacement) -> tuple[bool, float]:
        if not evaluated.complete:
            return True, np.inf
        full = evaluated.fullest(set(self.requested))
        return not self.has_headroom(evaluated), full if self.goals.p95_ms is None else self.p95_ms(evaluated)

    def _placed(self, problem: Problem, goal: str, headroom_percent: float | None = None) -> Assignment:
        settings: dict[str, Any] = {} if headroom_percent is None else {"headroom_percent": headroom_percent}
        params = OptimizerParams(objective=goal, iterations=_ITERATIONS, **settings)
        return OptimizerScheduler(params).schedule(problem)

    def made(self, counts: ExecutorCounts) -> tuple[Problem, Profile]:
        """Return the topologies with these executors, and their load per tuple."""
        key = tuple(counts[each] for each in sorted(counts))
        if key not in self._made:
            wanted: dict[int, dict[int, int]] = {}
            for (topology, component), count in counts.items():
                wanted.setdefault(topology, {})[component] = count
            problem = rebalanced(self.base, self._profile, self.known[0], wanted)
            self._made[key] = problem, Profile.of(problem)
        return self._made[key]


def _broken(problem: Problem, assignment: Assignment) -> bool:
    """Return whether a placement violates a constraint, except CPU, which follows from rates."""
    cpu = problem.resources[0].name
    broken = broken_limits(problem, assignment.slot_of_executor)
    return any(not (isinstance(each, ResourceOveruse) and each.resource == cpu) for each in broken)
