"""Template of schedulers that search: from a valid placement to a better one, never to an invalid one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Traffic, violations
from stormwright.model.arrays import FloatArray, IndexArray, IntArray, frozen
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.schedulers import online
from stormwright.schedulers.generic import RandomParams, RandomScheduler
from stormwright.schedulers.online import OnlineParams, OnlineScheduler
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.staying import choose_slots, running_workers
from stormwright.schedulers.toolkit.params import MAX_SEED, Params, param

#: Values of `start`.
ONLINE, RANDOM = online.NAME, RandomScheduler.name


@dataclass(frozen=True, kw_only=True)
class SearchParams(Params):
    """Parameters of every search."""

    seed: int = param(0, "seed of the random numbers", low=0, high=MAX_SEED)
    start: str = param(
        ONLINE,
        "placement to start from; online: that of `online`; random: that of `random`, with this seed",
        choices=(ONLINE, RANDOM),
    )
    move_running: bool = param(False, "true: also move running executors if the whole placement is then better")


#: Objective of a placement, given by the slot of every executor.
Objective = Callable[[IntArray], float]

#: Changes the workers of a partial placement that are not fixed: their executors, within a topology, and their nodes.
Improve = Callable[[PartialPlacement], None]


def search(problem: Problem, name: str, params: SearchParams, objective: Objective, improve: Improve) -> Assignment:
    """Improve the placement of `online`, or a random one.

    A random placement that leaves out more executors than that of `online` is replaced by the latter. Topologies with
    limits on components stay where the start puts them. Running executors stay, unless `move_running`:
    then the search also starts from such a placement from scratch, and the result is used if it places more,
    violates fewer constraints or, if equal, has a lower objective.

    Parameters
    ----------
    problem
        Problem with the running placement.
    name
        Name of the scheduler, for the answer.
    params
        Parameters of the scheduler; `start`, `seed` and `move_running` are read here, all go into the answer.
    objective
        Objective to minimise. Rounding differences do not count, so that nothing moves for them.
    improve
        Changes the partial placement in place. The result is dropped if it is no better.
    """
    best = _improved(problem, problem, params, objective, improve)
    if params.move_running and np.any(problem.current_slot != UNPLACED):
        moved = _improved(problem, problem.with_current({}), params, objective, improve)
        stopped = (moved.slot_of_executor == UNPLACED) & (problem.current_slot != UNPLACED)
        if not stopped.any() and _is_better(problem, objective, moved.slot_of_executor, best.slot_of_executor):
            best = moved
    status = {topology: f"{name}: {text.removeprefix(f'{best.scheduler}: ')}" for topology, text in best.status.items()}
    slots = frozen(best.slot_of_executor, np.int32, own=True)
    return replace(best, slot_of_executor=slots, status=status, scheduler=name, parameters=asdict(params))


def _start(problem: Problem, params: SearchParams) -> Assignment:
    """Return the placement to start from; running executors stay."""
    greedy = OnlineScheduler(OnlineParams(keep_running=True)).schedule(problem)
    if params.start == ONLINE:
        return greedy
    random = RandomScheduler(RandomParams(seed=params.seed)).schedule(problem)
    return greedy if len(random.unplaced) > len(greedy.unplaced) else random


def _improved(
    problem: Problem, start_problem: Problem, params: SearchParams, objective: Objective, improve: Improve
) -> Assignment:
    """Return the better of the start for `start_problem` and its improvement."""
    start = _start(start_problem, params)
    placement = partial_placement_of(start_problem, start.slot_of_executor)
    if all(placement.fixed):
        return start
    improve(placement)
    slots = choose_slots(replace(placement, problem=problem))
    start_slots = choose_slots(replace(partial_placement_of(start_problem, start.slot_of_executor), problem=problem))
    return replace(start, slot_of_executor=slots if _is_better(problem, objective, slots, start_slots) else start_slots)


def partial_placement_of(problem: Problem, slots: IntArray) -> PartialPlacement:
    """Return a partial placement; running workers and topologies with limits on components are fixed.

    Searches ignore such limits, which the start satisfies.
    """
    usable = problem.node_usable.copy()
    placement = PartialPlacement.empty(problem, usable)
    running = running_workers(problem)
    by_slot = np.argsort(slots, kind="stable")
    used, first = np.unique(slots[by_slot], return_index=True)
    for slot, members in zip(used.tolist(), np.split(by_slot, first)[1:], strict=True):
        if slot == UNPLACED:
            continue
        node = int(problem.slot_node[slot])
        topology = int(problem.executor_topology[members[0]])
        runs = slot in running and np.array_equal(running[slot], members[problem.current_slot[members] != UNPLACED])
        placement.add_worker(topology, members, node, fixed=runs or topology in problem.component_limits)
        # A greylisted node that the start had to use is usable.
        usable[node] |= not runs
    return placement


def _is_better(problem: Problem, objective: Objective, slots: IntArray, than: IntArray) -> bool:
    """Return whether more executors are placed, else fewer violations, else the objective is lower beyond rounding."""
    new, old = (
        (int(np.count_nonzero(s == UNPLACED)), len(violations(problem, s)), objective(s)) for s in (slots, than)
    )
    return new < (*old[:2], old[2] - RELATIVE_TOLERANCE * abs(old[2]))


@dataclass(frozen=True)
class ExecutorPairs:
    """Traffic of pairs of executors in both directions, each pair once, in order of `a`, then `b`.

    Parameters
    ----------
    a, b
        Executors, a < b, shape (P,).
    tps
        Tuples per second, above 0, shape (P,).
    """

    a: IndexArray
    b: IndexArray
    tps: FloatArray

    @classmethod
    def of(cls, traffic: Traffic, num_executors: int) -> ExecutorPairs:
        """Return the pairs of `traffic`, rounded independently of the order of its pairs."""
        low = np.minimum(traffic.source, traffic.target).astype(np.int64)
        high = np.maximum(traffic.source, traffic.target)
        real = (low != high) & (traffic.tps > 0)
        keys, tps = low[real] * num_executors + high[real], traffic.tps[real]
        order = np.lexsort((tps, keys))
        pairs, position = np.unique(keys[order], return_inverse=True)
        sums = np.bincount(position, tps[order], len(pairs)).astype(np.float64)
        a, b = np.divmod(pairs, max(num_executors, 1))
        return cls(a, b, sums)

    def by_executor(self, num_executors: int) -> tuple[IndexArray, IndexArray, FloatArray]:
        """Return where each executor's neighbours start, shape (E + 1,), the neighbours, and their rates."""
        row = np.concatenate([self.a, self.b])
        order = np.argsort(row, kind="stable")
        first = np.searchsorted(row[order], np.arange(num_executors + 1))
        return first, np.concatenate([self.b, self.a])[order], np.concatenate([self.tps, self.tps])[order]
