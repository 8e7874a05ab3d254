"""Template of a search for little traffic: construction, search, and reverting of useless moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stormwright.model import UNPLACED, Assignment, CostWeights, violations
from stormwright.model.arrays import BoolArray, IndexArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.optimize.construction.topologies import construct
from stormwright.optimize.kernel.records import Layout
from stormwright.optimize.layout.links import Links
from stormwright.optimize.layout.objective import Prices
from stormwright.optimize.layout.start import Workers, make_layout
from stormwright.optimize.search.anneal import SearchedPlacement
from stormwright.optimize.search.budget import Budget
from stormwright.optimize.search.tabu import is_small
from stormwright.schedulers.placement.admission import admit, densest_first, find_wanted_workers
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.repair import leave_out_excessive_requests, make_room
from stormwright.schedulers.placement.staying import choose_slots, keep_slots, restore_cheaper, swap_nodes
from stormwright.schedulers.templates.search import partial_placement_of
from stormwright.schedulers.templates.waiting import CompletePlan, plan_with_last_resort
from stormwright.schedulers.toolkit.limits import max_executors_per_worker
from stormwright.schedulers.toolkit.search_problem import Task

#: Cost of a tuple by distance.
WEIGHTS = CostWeights()


def layout_of(
    placement: PartialPlacement, links: Links, held: list[bool], weights: CostWeights, prices: Prices, seed: int
) -> tuple[Layout, IndexArray]:
    """Return a layout in which `held` workers stay, and the number in `placement` of each of its workers.

    Parameters
    ----------
    placement
        Partial placement; read only.
    links
        Traffic between executors in both directions, and their flows.
    held
        Whether each worker of the partial placement stays.
    weights
        Cost of a tuple by distance.
    prices
        Prices besides the cost of traffic.
    seed
        Seed of the random numbers, from 0 to 2⁶⁴ - 1.
    """
    topology, node = np.array(placement.topology, int), np.array(placement.node, int)
    order = np.argsort(topology, kind="stable")
    number = np.full(len(order) + 1, UNPLACED)
    number[order] = np.arange(len(order))
    runs, stays = np.array(placement.fixed, bool), np.array(held, bool)
    workers = Workers(number[placement.worker], topology[order], node[order], runs[order], stays[order])
    most = np.array([max_executors_per_worker(each) for each in placement.problem.topologies], int)
    return make_layout(placement.problem, links, workers, placement.usable, most, weights, seed, prices), order


def take_over(placement: PartialPlacement, order: IndexArray, placed: SearchedPlacement) -> None:
    """Copy the result of a layout into its partial placement.

    Parameters
    ----------
    placement
        Partial placement; its workers and their nodes are written.
    order
        Number in the partial placement of each of the layout's workers.
    placed
        Result of the layout.
    """
    placement.worker = np.append(order, UNPLACED)[placed.worker]
    node = np.empty(len(order), int)
    node[order] = placed.node
    placement.node = node.tolist()


def needs_repair_first(layout: Layout) -> bool:
    """Return whether to repair a layout before the search, as most steps preserve but do not restore limits."""
    return bool(layout.topologies["limited"].any()) and not is_small(layout)


class TrafficSearch:
    """Searches for the placement of least cost: traffic weighted by distance, and prices.

    Parameters
    ----------
    prices
        Prices of moves, restarts, used nodes and uneven CPU, and their limits.
    seed
        Seed of the random numbers.
    """

    def __init__(self, prices: Prices, seed: int) -> None:
        self._prices, self._seed = prices, seed

    def plan(self, task: Task, budget: Budget) -> CompletePlan:
        """Place every topology of a problem, as a whole or not at all.

        Parameters
        ----------
        task
            The problem with its traffic.
        budget
            Budget of all searches together; counts their steps.
        """
        return self._settled(task, self._decided(task, budget), budget)

    def _decided(self, task: Task, budget: Budget) -> CompletePlan:
        """Return the plan with running executors fixed, rearranged or moved, as the prices require."""
        if task.runs and self._prices.stays_near:
            return self._rearranged(task, budget)
        plan = CompletePlan(task.problem.current_slot, {}) if task.runs_whole else self._beside(task, budget)
        if task.runs and self._is_better(task, moved := self._moved(task, budget), plan):
            return moved
        return plan

    def _beside(self, task: Task, budget: Budget) -> CompletePlan:
        """Return the plan with running executors fixed."""
        share = 0.5 if task.runs or (task.begins_small and self._prices.stays_near) else 1.0
        placement = self._constructed(task, budget, keep_running=True)
        self._improve(placement, task.links, budget, share)
        return CompletePlan(choose_slots(placement), placement.reasons)

    def _settled(self, task: Task, plan: CompletePlan, budget: Budget) -> CompletePlan:
        """Return the plan after feeding it back as if it ran, until it no longer changes (4).

        Each round places more or costs less, so this terminates. Without a price or limit of changes the result is
        stable at once, unless topologies are left out: these are then placed after the running ones.
        """
        if not (task.begins_small and (self._prices.stays_near or plan.reasons)):
            return plan
        while True:
            current = Assignment(plan.slots).by_topology(task.problem)
            again = self._decided(replace(task, problem=task.problem.with_current(current)), budget)
            if np.array_equal(again.slots, plan.slots):
                return plan
            plan = again

    def _moved(self, task: Task, budget: Budget) -> CompletePlan:
        """Return the plan from scratch, with topologies moved back where that costs no more."""
        placement = self._constructed(task, budget, keep_running=False)
        self._improve(placement, task.links, budget)
        moved = CompletePlan(choose_slots(placement), dict(placement.reasons))
        now, new = (task.traffic(slots) for slots in (task.problem.current_slot, moved.slots))
        restore_cheaper(placement, now, WEIGHTS, new)
        swap_nodes(placement)
        restored = CompletePlan(choose_slots(placement), placement.reasons)
        # Moving back costs no more traffic, but may use other nodes.
        worse = self._prices.looks_at_nodes and self._rank(task, moved) < self._rank(task, restored)
        return moved if worse else restored

    def _rearranged(self, task: Task, budget: Budget) -> CompletePlan:
        """Return the plan improved within the limits of moves and restarts."""
        placement = self._constructed(task, budget, keep_running=True)
        make_room(placement, is_late=budget.is_late)
        slots = choose_slots(placement)
        arranged = partial_placement_of(placement.problem, slots)
        layout, order = self._layout(arranged, task.links, [False] * len(arranged.node))
        take_over(arranged, order, budget.improve(layout))
        return CompletePlan(keep_slots(arranged, slots), placement.reasons)

    def _constructed(self, task: Task, budget: Budget, *, keep_running: bool) -> PartialPlacement:
        """Return an initial placement of the topologies that fit the cluster in total; nodes may be overloaded."""
        problem, links = task.problem, task.links

        def draft_on(usable: BoolArray) -> PartialPlacement:
            placement = PartialPlacement.empty(problem, usable)
            wanted = admit(placement, find_wanted_workers(placement, keep_running))
            for group in wanted:
                for _ in range(group.workers):
                    placement.add_worker(group.topology, group.executors[:0])
            layout, order = self._layout(placement, links, placement.fixed)
            construct(layout, densest_first(problem, links.pull_of_executors(), wanted))
            take_over(placement, order, SearchedPlacement.of(layout))
            if problem.greylisted_supervisors or needs_repair_first(layout):
                # Topologies left out decide whether they are used.
                make_room(placement, is_late=budget.is_late)
            return placement

        return plan_with_last_resort(problem, draft_on)

    def _improve(self, placement: PartialPlacement, links: Links, budget: Budget, share: float = 1.0) -> None:
        """Search for a share of the remaining time, then leave out topologies that still overload nodes.

        Topologies left out free resources, so the others are then searched once more.
        """
        for _ in range(2):
            layout, order = self._layout(placement, links, placement.fixed)
            take_over(placement, order, budget.improve(layout, share))
            left_out = len(placement.reasons)
            make_room(placement, is_late=budget.is_late)
            leave_out_excessive_requests(placement)
            if len(placement.reasons) == left_out or budget.is_late():
                return

    def _is_better(self, task: Task, moved: CompletePlan, stay: CompletePlan) -> bool:
        """Return whether moving pays off: more placed, else fewer violations, else less cost; nothing stops."""
        if np.any((moved.slots == UNPLACED) & (task.problem.current_slot != UNPLACED)):
            return False
        unplaced, broken, cost = self._rank(task, stay)
        return self._rank(task, moved) < (unplaced, broken, cost * (1 - RELATIVE_TOLERANCE))

    def _rank(self, task: Task, plan: CompletePlan) -> tuple[int, int, float]:
        """Return unplaced executors, violations, and cost with all prices."""
        unplaced = int(np.count_nonzero(plan.slots == UNPLACED))
        cost = self._prices.objective(task.problem, plan.slots, task.traffic(plan.slots), WEIGHTS)
        return unplaced, len(violations(task.problem, plan.slots)), cost

    def _layout(self, placement: PartialPlacement, links: Links, held: list[bool]) -> tuple[Layout, IndexArray]:
        return layout_of(placement, links, held, WEIGHTS, self._prices, self._seed)
