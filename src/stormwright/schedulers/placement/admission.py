"""What wants a place, what of it the cluster has room for, and the counted reasons for the rest."""

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
from stormwright.schedulers.placement.separation import apart_shortages
from stormwright.schedulers.placement.staying import running_workers
from stormwright.schedulers.toolkit.limits import max_executors_per_worker, num_workers

# Joining live workers -----------------------------------------------------------------------------
# Lost executors into live workers: Storm restarts such a worker, in its slot, with what it had and what joins it.

#: Given an executor and those of a live worker, numbered over the problem: whether it may join them.
MayJoin = Callable[[int, IndexArray], bool]


def anybody(_: int, __: IndexArray) -> bool:
    """Every live worker may take every executor of its topology."""
    return True


def join_running(
    draft: PartialPlacement, topology: int, waiting: IndexArray, new_workers: int, may_join: MayJoin = anybody
) -> IndexArray | None:
    """Put what new workers have no room for into live workers of its topology.

    Those that ask for least CPU join, the largest of them first, each the worker with fewest executors that can take
    it; ties go to the lower index.

    Parameters
    ----------
    draft
        Live workers are fixed in it. Written; as before, but for the reason, if not all can join.
    topology
        Its index.
    waiting
        Lost executors of it, numbered over the problem.
    new_workers
        How many new workers it gets: full ones leave the rest to join.
    may_join
        Whether an executor may be with those of a live worker; all may by default.

    Returns
    -------
    Those of `waiting` that still want a new worker; None if one finds no live worker. Then none joins, and the draft
    notes why.
    """
    problem = draft.problem
    most = max_executors_per_worker(problem.topologies[topology])
    joins = len(waiting) - new_workers * most
    live = [worker for worker, of in enumerate(draft.topology) if of == topology and draft.fixed[worker]]
    if joins <= 0 or not live:
        return waiting
    joining = _Joining(draft, topology, live, most, may_join)
    cpu_hz = problem.executor_cpu_hz
    smallest_first = sorted(filter(joining.has_company, waiting.tolist()), key=lambda e: float(cpu_hz[e]))
    chosen = sorted(smallest_first[:joins], key=lambda e: (-float(cpu_hz[e]), e))
    for executor in chosen:
        if not joining.join(executor):
            draft.reasons[topology] = joining.why_not(executor)
            draft.worker[chosen] = UNPLACED
            return None
    return np.setdiff1d(waiting, chosen)


class _Joining:
    """Live workers of one topology, and what they and their nodes still take."""

    def __init__(
        self, draft: PartialPlacement, topology: int, live: Sequence[int], most: int, may_join: MayJoin
    ) -> None:
        problem = draft.problem
        self._draft, self._live, self._most, self._may_join = draft, live, most, may_join
        own, of = problem.executors_of(topology), problem.topologies[topology]
        self._first, self._component = own.start, of.executor_component
        self._mates = {worker: np.flatnonzero(draft.worker == worker) for worker in live}
        self._left = draft.capacity - draft.node_use()
        self._limits = problem.component_limits.get(topology)
        self._in_worker = count_components(draft.worker[own], self._component, len(draft.node), len(of.components))
        self._on_node = count_components(
            draft.node_of_executor()[own], self._component, len(draft.usable), len(of.components)
        )

    def has_company(self, executor: int) -> bool:
        """Whether there is a live worker that the executor may join, room or not."""
        return any(self._may_join(executor, mates) for mates in self._mates.values())

    def join(self, executor: int) -> bool:
        """Put an executor into a live worker; whether one could take it."""
        able = [worker for worker in self._live if not self._obstacle(executor, worker)]
        if not able:
            return False
        worker = min(able, key=lambda worker: self._in_worker[worker].sum())
        node, component = self._draft.node[worker], self._component[executor - self._first]
        problem = self._draft.problem
        self._draft.worker[executor] = worker
        self._left[:-1, node] -= problem.executor_demand[:, executor]
        self._in_worker[worker, component] += 1
        self._on_node[node, component] += 1
        return True

    def why_not(self, executor: int) -> tuple[str, ...]:
        """What keeps an executor from the live workers, counted."""
        found = Counter(self._obstacle(executor, worker) for worker in self._live)
        return tuple(f"{count} of {len(self._live)} live workers: {why}" for why, count in sorted(found.items()))

    def _obstacle(self, executor: int, worker: int) -> str:
        """What keeps an executor from a live worker; empty if it may join."""
        problem, node = self._draft.problem, self._draft.node[worker]
        component = self._component[executor - self._first]
        if not self._may_join(executor, self._mates[worker]):
            return "with executors that it may not join"
        if not self._draft.usable[node]:
            return "on a node that gets nothing new"
        if self._in_worker[worker].sum() >= self._most:
            return f"full with {self._most} executors"
        if self._limits and np.any(self._limits.incompatible[component] & (self._in_worker[worker] > 0)):
            return "with incompatible components"
        if self._limits and self._on_node[node, component] >= self._limits.most_on_node[component]:
            return "on a node with as many executors of its component as it may have"
        for resource, asked, left in zip(
            problem.resources, problem.executor_demand[:, executor], self._left[:-1, node], strict=True
        ):
            if asked > max(left, 0.0):
                return f"on a node with too little {resource.name} left"
        return ""


# Admission ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WantedWorkers:
    """Executors of a topology (by index) that want as many workers as `workers` says."""

    topology: int
    executors: IndexArray
    workers: int


def find_wanted(draft: PartialPlacement, keep_running: bool, may_join: MayJoin = anybody) -> list[WantedWorkers]:
    """Which executors want workers; of topologies that run first, then in the problem's order.

    To keep what runs, live workers are fixed in the draft, and a topology that lost executors wants only these placed:
    in as many workers as it lacks. What these do not take joins live workers that it `may_join`, or the topology is
    left out but for what runs.
    """
    problem = draft.problem
    running = running_workers(problem)
    runs = np.bincount(problem.executor_topology[problem.current_slot != UNPLACED], minlength=len(problem.topologies))
    first: list[WantedWorkers] = []
    then: list[WantedWorkers] = []
    for index, topology in enumerate(problem.topologies):
        own = problem.executors_of(index)
        executors = np.arange(own.start, own.stop)
        slots = problem.current_slot[executors]
        live = np.unique(slots[slots != UNPLACED]).tolist() if runs[index] else []
        kept = live if keep_running else []
        for slot in kept:
            draft.add_worker(index, running[slot], int(problem.slot_node[slot]), fixed=True)
        waiting = executors[slots == UNPLACED] if keep_running else executors
        workers = min(max(num_workers(topology) - len(kept), 0), len(waiting))
        if len(waiting):
            (first if live else then).append(WantedWorkers(index, waiting, workers))
    return list(_joined(draft, first, may_join)) + then


def densest_first(problem: Problem, pull_tps: FloatArray, wanted: Sequence[WantedWorkers]) -> IndexArray:
    """The topologies of `wanted`, those first that exchange most for the CPU they take; then as they come.

    Parameters
    ----------
    problem
        They are of.
    pull_tps
        What every executor exchanges with others, shape (E,).
    wanted
        What is to be placed.
    """
    tps = np.bincount(problem.executor_topology, pull_tps, len(problem.topologies))
    cpu_hz = np.array([problem.executor_cpu_hz[group.executors].sum() for group in wanted])
    topology = np.array([group.topology for group in wanted], int)
    return topology[np.argsort(-tps[topology] / np.maximum(cpu_hz, 1.0), kind="stable")]


def _joined(draft: PartialPlacement, wanted: Iterable[WantedWorkers], may_join: MayJoin) -> Iterator[WantedWorkers]:
    """What is still wanted once live workers have taken what new ones do not."""
    for group in wanted:
        waiting = join_running(draft, group.topology, group.executors, group.workers, may_join)
        if waiting is not None and len(waiting):
            yield replace(group, executors=waiting)


def admit(draft: PartialPlacement, wanted: Iterable[WantedWorkers], *, soft_cpu: bool = False) -> list[WantedWorkers]:
    """Those of `wanted`, in order, that the cluster as a whole has room for; the draft notes why not the others.

    Sums over the cluster and the largest node are looked at: what is admitted may still find no node.

    Parameters
    ----------
    draft
        What is placed so far; its `reasons` are written.
    wanted
        In the order in which they are served.
    soft_cpu
        What a node is loaded beyond its CPU counts as taken from the others, so that there is as much left as before
        that was placed.
    """
    least = np.zeros((len(draft.problem.resources) + 1, 1))
    if soft_cpu:
        least[0] = -np.inf
    left = np.maximum(draft.capacity - draft.node_use(), least)[:, draft.usable].sum(axis=1)
    admitted: list[WantedWorkers] = []
    groups = list(wanted)
    demands, most_asked = _demands(draft.problem, groups)
    large = _may_be_too_large(draft, groups, demands)
    for group, demand, most, is_large in zip(groups, demands, most_asked, large.tolist(), strict=True):
        reasons = tuple(_shortages(draft, group, left, demand, most))
        if is_large and not reasons:
            reasons = tuple(_too_large(draft, group, soft_cpu))
        if reasons:
            draft.reasons[group.topology] = (*reasons, *_unusable(draft))
        else:
            left = left - demand
            admitted.append(group)
    return admitted


def _demands(problem: Problem, groups: Sequence[WantedWorkers]) -> tuple[FloatArray, FloatArray]:
    """What every group uses of each resource, and of slots, shape (G, K + 1); the most that one executor does, (G, K).

    All groups at once: there may be thousands.
    """
    kinds = len(problem.resources)
    if not groups:
        return np.empty((0, kinds + 1)), np.empty((0, kinds))
    asked = problem.executor_demand[:, np.concatenate([group.executors for group in groups])]
    sizes = [len(group.executors) for group in groups]
    first = np.cumsum([0, *sizes[:-1]])
    used = np.vstack([np.add.reduceat(asked, first, axis=1), [group.workers for group in groups]])
    return used.T, np.maximum.reduceat(asked, first, axis=1).T


def _shortages(
    draft: PartialPlacement, wanted: WantedWorkers, left: FloatArray, demand: FloatArray, most_asked: FloatArray
) -> Iterator[str]:
    problem = draft.problem
    limit = max_executors_per_worker(problem.topologies[wanted.topology])
    if wanted.workers * limit < len(wanted.executors):
        enough = f"{counted(wanted.workers, 'worker')} of at most {counted(limit, 'executor')}"
        yield f"{enough} cannot take {len(wanted.executors)}"
    if np.any(demand > left) or np.any(most_asked > draft.largest[:-1]):
        yield from _lacking(draft, wanted.workers, left, demand, most_asked)
    yield from apart_shortages(draft, wanted.topology, wanted.executors, wanted.workers)


def _lacking(
    draft: PartialPlacement, workers: int, left: FloatArray, demand: FloatArray, most_asked: FloatArray
) -> Iterator[str]:
    """What the cluster, or its largest node, has too little of."""
    problem, short_by = draft.problem, demand - left
    nodes = f"on {counted(int(np.count_nonzero(draft.usable)), 'usable node')} together"
    if short_by[-1] > 0:
        yield f"{counted(workers, 'worker slot')} wanted, {int(left[-1])} free {nodes}"
    for resource, short, asked in zip(problem.resources, short_by[:-1], demand[:-1], strict=True):
        if short > 0 and asked > 0:  # an overdrawn cluster lacks nothing for what asks for none
            yield f"{resource.name} short by {amount(short, resource.unit)} {nodes}"
    for resource, asked, most in zip(problem.resources, most_asked, draft.largest[:-1], strict=True):
        if asked > most:
            wants = f"one executor asks for {amount(asked, resource.unit)} of {resource.name}"
            yield f"{wants}, the largest usable node has {amount(most, resource.unit)}"


def _may_be_too_large(draft: PartialPlacement, groups: Sequence[WantedWorkers], demands: FloatArray) -> BoolArray:
    """Whether `_too_large` need be asked, shape (G,).

    Not if as many average executors fit: those that ask for least ask for no more. All groups at once: there may be
    thousands.
    """
    sizes = np.array([len(group.executors) for group in groups])
    fewest = np.array([_fewest(group) for group in groups])
    average = demands[:, :-1] * (fewest / np.maximum(sizes, 1)).reshape(-1, 1)
    large: BoolArray = np.any(average * (1 + RELATIVE_TOLERANCE) > draft.largest[:-1], axis=1)
    return large


def _fewest(wanted: WantedWorkers) -> int:
    """Executors that the worker with most of them has at least."""
    return -(-len(wanted.executors) // max(wanted.workers, 1))


def _too_large(draft: PartialPlacement, wanted: WantedWorkers, soft_cpu: bool) -> Iterator[str]:
    """Why no node has room for the worker with most executors, even if it has those that ask for least."""
    problem = draft.problem
    fewest = _fewest(wanted)
    least = np.sort(problem.executor_demand[:, wanted.executors], axis=1)[:, :fewest].sum(axis=1)
    for number, (resource, asked, most) in enumerate(zip(problem.resources, least, draft.largest[:-1], strict=True)):
        if asked > most and not (soft_cpu and number == 0):
            has = f"a worker has at least {fewest} of {len(wanted.executors)} executors"
            short_by = amount(asked - most, resource.unit)
            yield f"{has}: {resource.name} short by at least {short_by} on the largest usable node"


def _unusable(draft: PartialPlacement) -> Iterator[str]:
    """Nodes ruled out, counted by why."""
    total = len(draft.usable)
    for closed in closed_nodes(draft.problem):
        if nodes := int(np.count_nonzero(closed.nodes & ~draft.usable)):
            yield f"{nodes} of {total} nodes: {closed.text}"


def movable_workers(draft: PartialPlacement, topology: int) -> list[int]:
    """The workers of a topology that are on nodes and not fixed."""
    found = enumerate(zip(draft.topology, draft.node, draft.fixed, strict=True))
    return [worker for worker, (t, node, fixed) in found if t == topology and node != UNPLACED and not fixed]


def _largest(sums: FloatArray, workers: Sequence[int]) -> int:
    """The worker that asks for most of the generic resources, the first of them first, then of CPU."""
    return max(workers, key=lambda w: (*sums[2:, w], sums[0, w]))


def leave_out(draft: PartialPlacement, topologies: Iterable[int]) -> None:
    """Take topologies out of the draft and note what the nodes lack for the largest worker of each, counted."""
    problem = draft.problem
    sums = draft.worker_use()
    fixed = np.array([*draft.fixed, True])
    waiting = {}
    for topology in topologies:
        workers = np.unique(draft.worker[problem.executors_of(topology)])
        waiting[topology] = workers[~fixed[workers]].tolist()
        draft.take_out(topology)
    room = (draft.capacity - draft.node_use())[:, draft.usable]
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
        of_nodes = f"of {len(draft.usable)} nodes"
        found = [f"{np.count_nonzero(nodes)} {of_nodes}: {why}" for nodes, why in counts if nodes.any()]
        draft.reasons[topology] = (*found, *_unusable(draft))
