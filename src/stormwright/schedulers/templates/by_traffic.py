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
from stormwright.optimize.search.anneal import Placed
from stormwright.optimize.search.budget import Budget
from stormwright.optimize.search.tabu import is_small
from stormwright.schedulers.placement.admission import admit, densest_first, find_wanted
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.repair import leave_out_what_asks_too_much, make_room
from stormwright.schedulers.placement.staying import choose_slots, keep_slots, restore_cheaper, swap_nodes
from stormwright.schedulers.templates.search import draft_of
from stormwright.schedulers.templates.waiting import Finished, plan_with_last_resort
from stormwright.schedulers.toolkit.limits import max_executors_per_worker
from stormwright.schedulers.toolkit.search_problem import Task

# Layouts ------------------------------------------------------------------------------------------


def layout_of(
    draft: PartialPlacement, links: Links, held: list[bool], weights: CostWeights, prices: Prices, seed: int
) -> tuple[Layout, IndexArray]:
    """Return a layout in which `held` workers stay, and the number in `draft` of each of its workers.

    Parameters
    ----------
    draft
        Partial placement; read only.
    links
        Traffic between executors.
    held
        Whether each worker of the partial placement stays.
    weights
        Cost of a tuple by distance.
    prices
        Prices besides the cost of traffic.
    seed
        Seed of the random numbers, from 0 to 2⁶⁴ - 1.
    """
    topology, node = np.array(draft.topology, int), np.array(draft.node, int)
    order = np.argsort(topology, kind="stable")
    number = np.full(len(order) + 1, UNPLACED)
    number[order] = np.arange(len(order))
    runs, stays = np.array(draft.fixed, bool), np.array(held, bool)
    workers = Workers(number[draft.worker], topology[order], node[order], runs[order], stays[order])
    most = np.array([max_executors_per_worker(each) for each in draft.problem.topologies], int)
    return make_layout(draft.problem, links, workers, draft.usable, most, weights, seed, prices), order


def take_over(draft: PartialPlacement, order: IndexArray, placed: Placed) -> None:
    """Copy the result of a layout into its partial placement.

    Parameters
    ----------
    draft
        Partial placement; its workers and their nodes are written.
    order
        Number in the partial placement of each of the layout's workers.
    placed
        Result of the layout.
    """
    draft.worker = np.append(order, UNPLACED)[placed.worker]
    node = np.empty(len(order), int)
    node[order] = placed.node
    draft.node = node.tolist()


def mended_first(layout: Layout) -> bool:
    """Return whether to repair a layout before the search, as most steps preserve but do not restore limits."""
    return bool(layout.topologies["limited"].any()) and not is_small(layout)


# By traffic ---------------------------------------------------------------------------------------

#: Cost of a tuple by distance.
WEIGHTS = CostWeights()


class TrafficSearch:
    """Searches for the placement of least cost: traffic weighted by distance, and prices.

    Parameters
    ----------
    prices
        Prices besides traffic.
    seed
        Seed of the random numbers.
    """

    def __init__(self, prices: Prices, seed: int) -> None:
        self._prices, self._seed = prices, seed

    def plan(self, task: Task, budget: Budget) -> Finished:
        """Place every topology of a problem, as a whole or not at all.

        Parameters
        ----------
        task
            The problem with its traffic.
        budget
            Budget of all searches together; counts their steps.
        """
        return self._settled(task, self._decided(task, budget), budget)

    def _decided(self, task: Task, budget: Budget) -> Finished:
        """Return the plan with running executors fixed, rearranged or moved, as the prices require."""
        if task.runs and self._prices.stays_near:
            return self._rearranged(task, budget)
        plan = Finished(task.problem.current_slot, {}) if task.runs_whole else self._beside(task, budget)
        if task.runs and self._is_better(task, from_scratch := self._moved(task, budget), plan):
            return from_scratch
        return plan

    def _beside(self, task: Task, budget: Budget) -> Finished:
        """Return the plan with running executors fixed."""
        share = 0.5 if task.runs or (task.begins_small and self._prices.stays_near) else 1.0
        draft = self._constructed(task, budget, keep_running=True)
        self._improve(draft, task.links, budget, share)
        return Finished(choose_slots(draft), draft.reasons)

    def _settled(self, task: Task, plan: Finished, budget: Budget) -> Finished:
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

    def _moved(self, task: Task, budget: Budget) -> Finished:
        """Return the plan from scratch, with topologies moved back where that costs no more."""
        draft = self._constructed(task, budget, keep_running=False)
        self._improve(draft, task.links, budget)
        from_scratch = Finished(choose_slots(draft), dict(draft.reasons))
        now, new = (task.traffic(slots) for slots in (task.problem.current_slot, from_scratch.slots))
        restore_cheaper(draft, now, WEIGHTS, new)
        swap_nodes(draft)
        restored = Finished(choose_slots(draft), draft.reasons)
        # Moving back costs no more traffic, but may use other nodes.
        worse = self._prices.looks_at_nodes and self._rank(task, from_scratch) < self._rank(task, restored)
        return from_scratch if worse else restored

    def _rearranged(self, task: Task, budget: Budget) -> Finished:
        """Return the plan improved within the limits of moves and restarts."""
        draft = self._constructed(task, budget, keep_running=True)
        make_room(draft, is_late=budget.is_late)
        slots = choose_slots(draft)
        arranged = draft_of(draft.problem, slots)
        layout, order = self._layout(arranged, task.links, [False] * len(arranged.node))
        take_over(arranged, order, budget.improve(layout))
        return Finished(keep_slots(arranged, slots), draft.reasons)

    def _constructed(self, task: Task, budget: Budget, *, keep_running: bool) -> PartialPlacement:
        """Return an initial placement of what fits the cluster in total; nodes may be overloaded."""
        problem, links = task.problem, task.links

        def draft_on(usable: BoolArray) -> PartialPlacement:
            draft = PartialPlacement.empty(problem, usable)
            wanted = admit(draft, find_wanted(draft, keep_running))
            for group in wanted:
                for _ in range(group.workers):
                    draft.add_worker(group.topology, group.executors[:0])
            layout, order = self._layout(draft, links, draft.fixed)
            construct(layout, densest_first(problem, links.pull_of_executors(), wanted))
            take_over(draft, order, Placed.of(layout))
            if problem.greylisted_supervisors or mended_first(layout):
                # Topologies left out decide whether they are used.
                make_room(draft, is_late=budget.is_late)
            return draft

        return plan_with_last_resort(problem, draft_on)

    def _improve(self, draft: PartialPlacement, links: Links, budget: Budget, share: float = 1.0) -> None:
        """Search for a share of the remaining time, then leave out what still overloads nodes.

        Topologies left out free resources, so the others are then searched once more.
        """
        for _ in range(2):
            layout, order = self._layout(draft, links, draft.fixed)
            take_over(draft, order, budget.improve(layout, share))
            left_out = len(draft.reasons)
            make_room(draft, is_late=budget.is_late)
            leave_out_what_asks_too_much(draft)
            if len(draft.reasons) == left_out or budget.is_late():
                return

    def _is_better(self, task: Task, moved: Finished, stay: Finished) -> bool:
        """Return whether moving pays off: more placed, else fewer violations, else less cost; nothing stops."""
        if np.any((moved.slots == UNPLACED) & (task.problem.current_slot != UNPLACED)):
            return False
        unplaced, broken, cost = self._rank(task, stay)
        return self._rank(task, moved) < (unplaced, broken, cost * (1 - RELATIVE_TOLERANCE))

    def _rank(self, task: Task, plan: Finished) -> tuple[int, int, float]:
        """Return unplaced executors, violations, and cost with all prices."""
        unplaced = int(np.count_nonzero(plan.slots == UNPLACED))
        cost = self._prices.objective(task.problem, plan.slots, task.traffic(plan.slots), WEIGHTS)
        return unplaced, len(violations(task.problem, plan.slots)), cost

    def _layout(self, draft: PartialPlacement, links: Links, held: list[bool]) -> tuple[Layout, IndexArray]:
        return layout_of(draft, links, held, WEIGHTS, self._prices, self._seed)
