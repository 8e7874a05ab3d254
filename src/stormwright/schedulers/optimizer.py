"""A search for the placement of least cost that takes as long as it is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from stormwright.model import (
    UNPLACED,
    Assignment,
    CostWeights,
    Problem,
    Traffic,
    cost_under,
    measured_traffic,
    traffic_under,
    violations,
)
from stormwright.model.arrays import BoolArray, IndexArray, IntArray
from stormwright.model.constraints import RELATIVE_TOLERANCE
from stormwright.optimize.anneal import Placed
from stormwright.optimize.budget import Budget
from stormwright.optimize.construct import construct
from stormwright.optimize.links import Links
from stormwright.optimize.records import Layout
from stormwright.optimize.refine import refine, relieve
from stormwright.optimize.regions import cut_into_regions
from stormwright.optimize.start import Moves, Workers, make_layout
from stormwright.schedulers.support.admission import Wanted, admit, find_wanted
from stormwright.schedulers.support.draft import Draft
from stormwright.schedulers.support.limits import max_executors_per_worker
from stormwright.schedulers.support.params import Params, param
from stormwright.schedulers.support.rates import Rates
from stormwright.schedulers.support.repair import make_room
from stormwright.schedulers.support.search import draft_of
from stormwright.schedulers.support.staying import choose_slots, restore_cheaper, swap_nodes
from stormwright.schedulers.support.waiting import Plan, answer, plan_with_last_resort

_WEIGHTS = CostWeights()


@dataclass(frozen=True, kw_only=True)
class OptimizerParams(Params):
    """Parameters of the scheduler."""

    iterations: int = param(1_000_000, "steps of each search, whatever time they take", low=0)
    time_budget_s: float = param(0.0, "instead of `iterations`: seconds from the problem to the answer; 0: none", low=0)
    seed: int = param(0, "of the random numbers", low=0)
    threads: int = param(1, "cores to search on at once; the answer depends on their number", low=1, high=64)
    move_price: float = param(0.0, "what an executor that leaves its slot costs, in tuples/s between nodes", low=0)
    max_moves: int = param(-1, "executors that may leave their slots; -1: any number", low=-1)
    follow_flows: bool = param(
        True, "whether shuffled traffic costs what the new placement makes of it, or as measured"
    )
    bound: bool = param(False, "whether to prove how little any placement costs; takes more time")
    bound_budget_s: float = param(10.0, "seconds for that proof, at most", low=0)


@dataclass(frozen=True)
class _Task:
    """A problem, and what the search takes its traffic for: `fixed`, or what each placement makes of it."""

    problem: Problem
    links: Links
    fixed: Traffic | None

    @classmethod
    def of(cls, problem: Problem, follow_flows: bool) -> _Task:
        if follow_flows and any(len(load.flow_source) for load in problem.loads):
            return cls(problem, Links.following(problem), None)
        fixed = measured_traffic(problem)
        return cls(problem, Links.fixed(problem, fixed), fixed)

    def traffic(self, slots: IntArray) -> Traffic:
        """That of a placement."""
        return self.fixed or traffic_under(self.problem, slots)


class OptimizerScheduler:
    """Searches for the placement of least cost, first by construction, then for as long as it may.

    Own. Topology by topology goes onto few nodes; then simulated annealing with steps of executors, of workers and of
    whole topologies (ruin and recreate: G. Schrimpf, J. Schneider, H. Stamm-Wilbrandt, G. Dueck, "Record Breaking
    Optimization Results Using the Ruin and Recreate Principle", Journal of Computational Physics 159, 2000,
    https://doi.org/10.1006/jcph.1999.6413), all on arrays and compiled.

    It lowers the cost of a placement, traffic weighted by distance. Shuffled traffic follows each placement that is
    tried, as Storm's locality-aware shuffle will: it stays where executors of the component are near, as long as these
    can take it (`flow_limits` of the load). CPU, memory, slots, the number of workers and executors per worker are
    limits in every step; topologies with limits on components stay where construction and `keep_apart` put them.
    Topologies are placed as a whole or not at all; those that find no room are left out with counted reasons.

    1. Without a price or a limit of moves, what runs is moved only if the whole placement then costs less, or is valid
       where it was not; else only what has no slot is placed.
    2. With either, the search starts from what runs and stays near it: an executor counts as moved if it ends up in
       another slot.

    Clusters of more than 20,000 executors are searched region by region: racks, or nodes that share topologies, with
    about 2,500 executors and what lies wholly in them; cut otherwise three times. With `threads` they are searched at
    once; smaller problems by every thread from the same placement with other random numbers, and the best one counts.

    There is no clock unless a time budget is given: the same problem, seed, number of iterations and threads give the
    same answer. The answer says how many iterations were made (`iterations_made`), and, if asked for a `bound`, its
    `proof`: `cost`, `bound`, the `gap` between them, and whether it is `optimal`. The first call on a machine takes
    some seconds more, once, to compile. Ties go to what stays, then to what was found first.

    When to use
    -----------
    Traffic is what counts: large clusters, many topologies, or what runs may move only a little (`max_moves`). With
    more than some thousand executors give it a time budget, as `iterations` are then few for each.

    Ignores
    -------
    How evenly nodes are loaded, as long as none is overloaded; streams, the speed of links, and that an executor which
    gets more of the shuffled traffic will need more CPU.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks
    """

    params_type = OptimizerParams

    def __init__(self, params: OptimizerParams | None = None) -> None:
        self.params = params or OptimizerParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place every topology, as a whole or not at all."""
        _compile()
        iterations = 0 if self.params.time_budget_s else self.params.iterations
        budget = Budget(self.params.time_budget_s, iterations, self.params.threads)
        task = _Task.of(problem, self.params.follow_flows)
        runs = bool(np.any(problem.current_slot != UNPLACED))
        moves = Moves(self.params.move_price, self.params.max_moves)
        near = runs and moves != Moves()
        draft = self._constructed(task, keep_running=True)
        if near:
            plan = self._rearranged(draft, task.links, budget, moves)
        else:
            self._improve(draft, task.links, budget, share=0.5 if runs else 1.0)
            plan = Plan(choose_slots(draft), draft.reasons)
        if runs and not near:
            anew = self._moved(task, budget)
            if _is_better(task, anew, plan):
                plan = anew
        found = answer(problem, "optimizer", self.params, plan)
        reported: dict[str, Any] = {"iterations_made": budget.made}
        if self.params.bound:
            from stormwright.optimize.bound import bound_cost  # brings the solvers of SciPy, which takes a while

            slots = found.slot_of_executor
            reported["proof"] = bound_cost(problem, slots, self.params.bound_budget_s, _WEIGHTS).figures(problem, slots)
        return replace(found, parameters={**found.parameters, **reported})

    def _moved(self, task: _Task, budget: Budget) -> Plan:
        """Everything placed anew, but back to where it runs where that costs no more."""
        draft = self._constructed(task, keep_running=False)
        self._improve(draft, task.links, budget)
        now, new = (task.traffic(slots) for slots in (task.problem.current_slot, choose_slots(draft)))
        restore_cheaper(draft, Rates.of(task.problem, now), _WEIGHTS, Rates.of(task.problem, new))
        swap_nodes(draft)
        return Plan(choose_slots(draft), draft.reasons)

    def _rearranged(self, draft: Draft, links: Links, budget: Budget, moves: Moves) -> Plan:
        """What runs, and what is placed beside it, improved within what `moves` allow."""
        make_room(draft)
        slots = choose_slots(draft)
        arranged = draft_of(draft.problem, slots)
        held = _limited(arranged)
        layout, order = self._layout(arranged, links, held, moves)
        _write(arranged, order, budget.improve(layout))
        return Plan(_keep_slots(arranged, slots), draft.reasons)

    def _constructed(self, task: _Task, *, keep_running: bool) -> Draft:
        """A placement of what the cluster as a whole has room for; nodes may be overloaded."""
        problem, links = task.problem, task.links

        def draft_on(usable: BoolArray) -> Draft:
            draft = Draft.empty(problem, usable)
            wanted = admit(draft, find_wanted(draft, keep_running))
            for group in wanted:
                for _ in range(group.workers):
                    draft.add_worker(group.topology, group.executors[:0])
            layout, order = self._layout(draft, links, draft.fixed)
            construct(layout, _densest_first(problem, links, wanted))
            _write(draft, order, Placed.of(layout))
            if problem.greylisted_supervisors or any(_limited(draft)):
                make_room(draft)  # what is left out decides whether they are used; the search keeps nothing apart
            return draft

        return plan_with_last_resort(problem, draft_on)

    def _improve(self, draft: Draft, links: Links, budget: Budget, share: float = 1.0) -> None:
        """Search for a share of the time left, what is fixed staying; then leave out what still overloads nodes."""
        held = [fixed or limited for fixed, limited in zip(draft.fixed, _limited(draft), strict=True)]
        layout, order = self._layout(draft, links, held)
        _write(draft, order, budget.improve(layout, share))
        make_room(draft)

    def _layout(
        self, draft: Draft, links: Links, held: list[bool], moves: Moves | None = None
    ) -> tuple[Layout, IndexArray]:
        """A layout in which workers that are `held` stay, and for each of its workers the number in `draft`."""
        topology, node = np.array(draft.topology, int), np.array(draft.node, int)
        order = np.argsort(topology, kind="stable")
        number = np.full(len(order) + 1, UNPLACED)
        number[order] = np.arange(len(order))
        runs, stays = np.array(draft.fixed, bool), np.array(held, bool)
        workers = Workers(number[draft.worker], topology[order], node[order], runs[order], stays[order])
        most = np.array([max_executors_per_worker(each) for each in draft.problem.topologies], int)
        return make_layout(draft.problem, links, workers, draft.usable, most, _WEIGHTS, self.params.seed, moves), order


def _densest_first(problem: Problem, links: Links, wanted: list[Wanted]) -> IndexArray:
    """The topologies of `wanted`, those first that exchange most for the CPU they take; then as they come."""
    tps = np.bincount(problem.executor_topology, links.pull_of_executors(), len(problem.topologies))
    cpu_hz = np.array([problem.executor_cpu_hz[group.executors].sum() for group in wanted])
    topology = np.array([group.topology for group in wanted], int)
    return topology[np.argsort(-tps[topology] / np.maximum(cpu_hz, 1.0), kind="stable")]


def _limited(draft: Draft) -> list[bool]:
    """Whether the search knows not all limits of a worker's topology, of every worker."""
    problem = draft.problem
    asks: BoolArray = np.any(problem.executor_demand[2:], axis=0)  # for anything but CPU and memory
    limited = [
        topology in problem.component_limits or bool(asks[problem.executors_of(topology)].any())
        for topology in range(len(problem.topologies))
    ]
    return [limited[topology] for topology in draft.topology]


def _write(draft: Draft, order: IndexArray, placed: Placed) -> None:
    """Take over what a layout has come to."""
    draft.worker = np.append(order, UNPLACED)[placed.worker]
    node = np.empty(len(order), int)
    node[order] = placed.node
    draft.node = node.tolist()


def _keep_slots(draft: Draft, slots: IntArray) -> IntArray:
    """Slot of every executor: workers of `slots`, in its order, keep theirs on their node; others get free ones.

    Free ones in which nothing runs now come first, then the lower ones.
    """
    problem = draft.problem
    slot_of = np.unique(slots[slots != UNPLACED])
    moved = problem.slot_node[slot_of] != draft.node
    slot_of[moved] = UNPLACED
    taken, runs = set(slot_of.tolist()), set(problem.current_slot.tolist())
    first = np.searchsorted(problem.slot_node, np.arange(len(problem.supervisors) + 1))
    for worker in np.flatnonzero(moved).tolist():
        node = draft.node[worker]
        free = [slot for slot in range(first[node], first[node + 1]) if slot not in taken]
        slot_of[worker] = min(free, key=lambda slot: (slot in runs, slot))
        taken.add(int(slot_of[worker]))
    return np.append(slot_of, UNPLACED)[draft.worker].astype(np.int32)


def _is_better(task: _Task, moved: Plan, stay: Plan) -> bool:
    """Whether moving pays: more executors placed, else fewer limits broken, else less cost; all that runs runs on."""
    problem = task.problem
    if np.any((moved.slots == UNPLACED) & (problem.current_slot != UNPLACED)):
        return False

    def rank(plan: Plan) -> tuple[int, int, float]:
        unplaced = int(np.count_nonzero(plan.slots == UNPLACED))
        cost = cost_under(problem, plan.slots, task.traffic(plan.slots), _WEIGHTS).total
        return unplaced, len(violations(problem, plan.slots)), cost

    unplaced, broken, cost = rank(stay)
    return rank(moved) < (unplaced, broken, cost * (1 - RELATIVE_TOLERANCE))


@cache
def _compile() -> None:
    """Have the machine code ready before any clock runs."""
    nothing = Problem((), ())
    none, no_bool = np.empty(0, np.int64), np.empty(0, np.bool_)
    workers = Workers(none, none, none, no_bool, no_bool)
    layout = make_layout(nothing, Links.following(nothing), workers, no_bool, none, _WEIGHTS, 0)
    construct(layout, none)
    relieve(layout)
    refine(layout, 0, 0.0)
    with cut_into_regions(layout, 1, np.random.default_rng()):
        pass
