"""Admission: which executors the cluster has resources for, and counted reasons for the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.component_limits import count_components
from stormwright.model.constraints.blacklist import closed_nodes
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.model.humanize import amount, counted
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.separation import separation_shortages
from stormwright.schedulers.placement.staying import running_workers
from stormwright.schedulers.toolkit.limits import max_executors_per_worker, num_workers

#: Given an executor and those of a live worker, numbered over the problem, returns whether it may join them.
MayJoin = Callable[[int, IndexArray], bool]


# Lost executors join live workers: Storm restarts such a worker in its slot with its old and new executors.
def anybody(_: int, __: IndexArray) -> bool:
    """Accept every executor for every live worker of its topology."""
    return True


def join_running(
    placement: PartialPlacement, topology: int, waiting: IndexArray, new_workers: int, may_join: MayJoin = anybody
) -> IndexArray | None:
    """Put executors for which new workers have no place into live workers of their topology.

    Executors with least CPU join, the largest of them first, each the possible worker with fewest executors; ties go to
    the lower index.

    Parameters
    ----------
    placement
        Partial placement with live workers fixed; written, but only the reason if not all can join.
    topology
        Index of the topology.
    waiting
        Its lost executors, numbered over the problem.
    new_workers
        Number of its new workers: once these are full the rest joins.
    may_join
        Whether an executor may join those of a live worker; all may by default.

    Returns
    -------
    Executors of `waiting` that need a new worker; None if one finds no live worker. Then none joins, and the reason
    is recorded.
    """
    problem = placement.problem
    most = max_executors_per_worker(problem.topologies[topology])
    joins = len(waiting) - new_workers * most
    live = [
        worker
        for worker, topology_of in enumerate(placement.topology)
        if topology_of == topology and placement.fixed[worker]
    ]
    if joins <= 0 or not live:
        return waiting
    joining = _LiveWorkers(placement, topology, live, most, may_join)
    cpu_hz = problem.executor_cpu_hz
    smallest_first = sorted(filter(joining.is_shared, waiting.tolist()), key=lambda e: float(cpu_hz[e]))
    chosen = sorted(smallest_first[:joins], key=lambda e: (-float(cpu_hz[e]), e))
    for executor in chosen:
        if not joining.join(executor):
            placement.reasons[topology] = joining.why_not(executor)
            placement.worker[chosen] = UNPLACED
            return None
    return np.setdiff1d(waiting, chosen)


class _LiveWorkers:
    """Live workers of one topology, and their free resources."""

    def __init__(
        self, placement: PartialPlacement, topology: int, live: Sequence[int], most: int, may_join: MayJoin
    ) -> None:
        problem = placement.problem
        self._placement, self._live, self._most, self._may_join = placement, live, most, may_join
        own, topology_of = problem.executors_of(topology), problem.topologies[topology]
        self._first, self._component = own.start, topology_of.executor_component
        self._mates = {worker: np.flatnonzero(placement.worker == worker) for worker in live}
        self._left = placement.capacity - placement.node_use()
        self._limits = problem.component_limits.get(topology)
        self._in_worker = count_components(
            placement.worker[own], self._component, len(placement.node), len(topology_of.components)
        )
        self._on_node = count_components(
            placement.node_of_executor()[own], self._component, len(placement.usable), len(topology_of.components)
        )

    def is_shared(self, executor: int) -> bool:
        """Return whether there is a live worker that the executor may join, regardless of resources."""
        return any(self._may_join(executor, mates) for mates in self._mates.values())

    def join(self, executor: int) -> bool:
        """Put an executor into a live worker; return whether one could take it."""
        able = [worker for worker in self._live if not self._obstacle(executor, worker)]
        if not able:
            return False
        worker = min(able, key=lambda worker: self._in_worker[worker].sum())
        node, component = self._placement.node[worker], self._component[executor - self._first]
        problem = self._placement.problem
        self._placement.worker[executor] = worker
        self._left[:-1, node] -= problem.executor_demand[:, executor]
        self._in_worker[worker, component] += 1
        self._on_node[node, component] += 1
        return True

    def why_not(self, executor: int) -> tuple[str, ...]:
        """Return counted reasons why an executor cannot join the live workers."""
        found = Counter(self._obstacle(executor, worker) for worker in self._live)
        return tuple(f"{count} of {len(self._live)} live workers: {why}" for why, count in sorted(found.items()))

    def _obstacle(self, executor: int, worker: int) -> str:
        """Return why an executor cannot join a live worker; empty if it can."""
        problem, node = self._placement.problem, self._placement.node[worker]
        component = self._component[executor - self._first]
        if not self._may_join(executor, self._mates[worker]):
            return "with executors that it may not join"
        if not self._placement.usable[node]:
            return "on a node that is not schedulable"
        if self._in_worker[worker].sum() >= self._most:
            return f"full with {self._most} executors"
        if self._limits and np.any(self._limits.incompatible[component] & (self._in_worker[worker] > 0)):
            return "with incompatible components"
        if self._limits and self._on_node[node, component] >= self._limits.most_on_node[component]:
            return "on a node with as many executors of its component as it may have"
        for resource, demanded, left in zip(
            problem.resources, problem.executor_demand[:, executor], self._left[:-1, node], strict=True
        ):
            if demanded > max(left, 0.0):
                return f"on a node with too little {resource.name} left"
        return ""


@dataclass(frozen=True)
class RequiredWorkers:
    """Executors of a topology (by index) that need `workers` workers."""

    topology: int
    executors: IndexArray
    workers: int


def find_wanted_workers(
    placement: PartialPlacement, keep_running: bool, may_join: MayJoin = anybody
) -> list[RequiredWorkers]:
    """Return the executors that need workers; running topologies first, then in the problem's order.

    With `keep_running`, live workers are fixed, and of a topology that lost executors only these are placed: in as many
    workers as it lacks. The rest joins live workers that it `may_join`, or the topology is left out except for its
    running workers.
    """
    problem = placement.problem
    running = running_workers(problem)
    runs = np.bincount(problem.executor_topology[problem.current_slot != UNPLACED], minlength=len(problem.topologies))
    first: list[RequiredWorkers] = []
    then: list[RequiredWorkers] = []
    for index, topology in enumerate(problem.topologies):
        own = problem.executors_of(index)
        executors = np.arange(own.start, own.stop)
        slots = problem.current_slot[executors]
        live = np.unique(slots[slots != UNPLACED]).tolist() if runs[index] else []
        preserved = live if keep_running else []
        for slot in preserved:
            placement.add_worker(index, running[slot], int(problem.slot_node[slot]), fixed=True)
        waiting = executors[slots == UNPLACED] if keep_running else executors
        workers = min(max(num_workers(topology) - len(preserved), 0), len(waiting))
        if len(waiting):
            (first if live else then).append(RequiredWorkers(index, waiting, workers))
    return list(_joined(placement, first, may_join)) + then


def densest_first(problem: Problem, pull_tps: FloatArray, wanted: Sequence[RequiredWorkers]) -> IndexArray:
    """Return the topologies of `wanted` by traffic per CPU, highest first; ties keep their order.

    Parameters
    ----------
    problem
        Problem of the topologies.
    pull_tps
        Traffic of every executor with others, shape (E,).
    wanted
        Topologies to order, each with its executors that need workers.
    """
    tps = np.bincount(problem.executor_topology, pull_tps, len(problem.topologies))
    cpu_hz = np.array([problem.executor_cpu_hz[group.executors].sum() for group in wanted])
    topology = np.array([group.topology for group in wanted], int)
    return topology[np.argsort(-tps[topology] / np.maximum(cpu_hz, 1.0), kind="stable")]


def _joined(
    placement: PartialPlacement, wanted: Iterable[RequiredWorkers], may_join: MayJoin
) -> Iterator[RequiredWorkers]:
    """Yield the workers still needed after live ones have taken the rest of new ones."""
    for group in wanted:
        waiting = join_running(placement, group.topology, group.executors, group.workers, may_join)
        if waiting is not None and len(waiting):
            yield replace(group, executors=waiting)


def admit(
    placement: PartialPlacement, wanted: Iterable[RequiredWorkers], *, soft_cpu: bool = False
) -> list[RequiredWorkers]:
    """Return those of `wanted`, in order, that fit the cluster in total; reasons for the others are recorded.

    Only sums over the cluster and the largest node are checked: admitted ones may still find no node.

    Parameters
    ----------
    placement
        Partial placement; its `reasons` are written.
    wanted
        Required workers in the order of admission.
    soft_cpu
        Load beyond a node's CPU counts as used on the others.
    """
    least = np.zeros((len(placement.problem.resources) + 1, 1))
    if soft_cpu:
        least[0] = -np.inf
    left = np.maximum(placement.capacity - placement.node_use(), least)[:, placement.usable].sum(axis=1)
    admitted: list[RequiredWorkers] = []
    groups = list(wanted)
    demands, largest_demand = _demands(placement.problem, groups)
    large = _may_be_too_large(placement, groups, demands)
    for group, demand, most, is_large in zip(groups, demands, largest_demand, large.tolist(), strict=True):
        reasons = tuple(_shortages(placement, group, left, demand, most))
        if is_large and not reasons:
            reasons = tuple(_too_large(placement, group, soft_cpu))
        if reasons:
            placement.reasons[group.topology] = (*reasons, *_unusable(placement))
        else:
            left = left - demand
            admitted.append(group)
    return admitted


def _demands(problem: Problem, groups: Sequence[RequiredWorkers]) -> tuple[FloatArray, FloatArray]:
    """Return every group's use of resources and slots, (G, K + 1), and the largest of one executor, (G, K).

    Vectorised over groups, as there may be thousands.
    """
    kinds = len(problem.resources)
    if not groups:
        return np.empty((0, kinds + 1)), np.empty((0, kinds))
    demanded = problem.executor_demand[:, np.concatenate([group.executors for group in groups])]
    sizes = [len(group.executors) for group in groups]
    first = np.cumsum([0, *sizes[:-1]])
    used = np.vstack([np.add.reduceat(demanded, first, axis=1), [group.workers for group in groups]])
    return used.T, np.maximum.reduceat(demanded, first, axis=1).T


def _shortages(
    placement: PartialPlacement,
    wanted: RequiredWorkers,
    left: FloatArray,
    demand: FloatArray,
    largest_demand: FloatArray,
) -> Iterator[str]:
    problem = placement.problem
    limit = max_executors_per_worker(problem.topologies[wanted.topology])
    if wanted.workers * limit < len(wanted.executors):
        enough = f"{counted(wanted.workers, 'worker')} of at most {counted(limit, 'executor')}"
        yield f"{enough} cannot take {len(wanted.executors)}"
    if np.any(demand > left) or np.any(largest_demand > placement.largest[:-1]):
        yield from _lacking(placement, wanted.workers, left, demand, largest_demand)
    yield from separation_shortages(placement, wanted.topology, wanted.executors, wanted.workers)


def _lacking(
    placement: PartialPlacement, workers: int, left: FloatArray, demand: FloatArray, largest_demand: FloatArray
) -> Iterator[str]:
    """Yield the shortages of the cluster, or of its largest node."""
    problem, short_by = placement.problem, demand - left
    nodes = f"on {counted(int(np.count_nonzero(placement.usable)), 'usable node')} together"
    if short_by[-1] > 0:
        yield f"{counted(workers, 'worker slot')} wanted, {int(left[-1])} free {nodes}"
    for resource, short, demanded in zip(problem.resources, short_by[:-1], demand[:-1], strict=True):
        if short > 0 and demanded > 0:  # an overloaded cluster lacks nothing for a demand of 0
            yield f"{resource.name} short by {amount(short, resource.unit)} {nodes}"
    for resource, demanded, most in zip(problem.resources, largest_demand, placement.largest[:-1], strict=True):
        if demanded > most:
            wants = f"one executor asks for {amount(demanded, resource.unit)} of {resource.name}"
            yield f"{wants}, the largest usable node has {amount(most, resource.unit)}"


def _may_be_too_large(placement: PartialPlacement, groups: Sequence[RequiredWorkers], demands: FloatArray) -> BoolArray:
    """Return whether `_too_large` has to be checked, shape (G,).

    Not if as many average executors fit: those that ask for least ask for no more. Vectorised over groups, as there may
    be thousands.
    """
    sizes = np.array([len(group.executors) for group in groups])
    fewest = np.array([_fewest(group) for group in groups])
    average = demands[:, :-1] * (fewest / np.maximum(sizes, 1)).reshape(-1, 1)
    large: BoolArray = np.any(average * (1 + RELATIVE_TOLERANCE) > placement.largest[:-1], axis=1)
    return large


def _fewest(wanted: RequiredWorkers) -> int:
    """Return the minimum number of executors of the worker with most of them."""
    return -(-len(wanted.executors) // max(wanted.workers, 1))


def _too_large(placement: PartialPlacement, wanted: RequiredWorkers, soft_cpu: bool) -> Iterator[str]:
    """Yield why no node fits the worker with most executors, even with the smallest ones."""
    problem = placement.problem
    fewest = _fewest(wanted)
    least = np.sort(problem.executor_demand[:, wanted.executors], axis=1)[:, :fewest].sum(axis=1)
    for number, (resource, demanded, most) in enumerate(
        zip(problem.resources, least, placement.largest[:-1], strict=True)
    ):
        if demanded > most and not (soft_cpu and number == 0):
            has = f"a worker has at least {fewest} of {len(wanted.executors)} executors"
            short_by = amount(demanded - most, resource.unit)
            yield f"{has}: {resource.name} short by at least {short_by} on the largest usable node"


def _unusable(placement: PartialPlacement) -> Iterator[str]:
    """Yield the numbers of excluded nodes by reason."""
    total = len(placement.usable)
    for closed in closed_nodes(placement.problem):
        if nodes := int(np.count_nonzero(closed.nodes & ~placement.usable)):
            yield f"{nodes} of {total} nodes: {closed.text}"


def movable_workers(placement: PartialPlacement, topology: int) -> list[int]:
    """Return the workers of a topology that are on nodes and not fixed."""
    found = enumerate(zip(placement.topology, placement.node, placement.fixed, strict=True))
    return [worker for worker, (t, node, fixed) in found if t == topology and node != UNPLACED and not fixed]


def _largest(sums: FloatArray, workers: Sequence[int]) -> int:
    """Return the worker with the largest demand of generic resources, in order, then of CPU."""
    return max(workers, key=lambda w: (*sums[2:, w], sums[0, w]))


def leave_out(placement: PartialPlacement, topologies: Iterable[int]) -> None:
    """Remove topologies from the partial placement, with counted shortages of nodes for their largest workers."""
    problem = placement.problem
    sums = placement.worker_use()
    fixed = np.array([*placement.fixed, True])
    waiting = {}
    for topology in topologies:
        workers = np.unique(placement.worker[problem.executors_of(topology)])
        waiting[topology] = workers[~fixed[workers]].tolist()
        placement.take_out(topology)
    room = (placement.capacity - placement.node_use())[:, placement.usable]
    for topology, workers in waiting.items():
        largest = sums[:, _largest(sums, workers)]
        fits = room[-1] >= 1
        counts = [(~fits, "no free worker slot")]
        for resource, lacking in zip(problem.resources, largest[:, None] - room[:-1], strict=True):
            short = fits & (lacking > 0)
            least = amount(lacking[short].min(initial=np.inf), resource.unit)
            counts.append((short, f"{resource.name} short by at least {least}"))
            fits = fits & ~short
        counts.append((fits, f"room for its largest worker, but not for all {len(workers)} together"))
        of_nodes = f"of {len(placement.usable)} nodes"
        found = [f"{np.count_nonzero(nodes)} {of_nodes}: {why}" for nodes, why in counts if nodes.any()]
        placement.reasons[topology] = (*found, *_unusable(placement))
