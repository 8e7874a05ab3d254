"""A search for the placement of least cost that takes as long as it is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stormwright.model import (
    UNPLACED,
    Assignment,
    CostWeights,
    Problem,
    Traffic,
    measured_traffic,
    traffic_under,
    violations,
)
from stormwright.model.arrays import BoolArray, IndexArray, IntArray
from stormwright.model.limits.limit import RELATIVE_TOLERANCE
from stormwright.optimize.ahead import ready_search, ready_small
from stormwright.optimize.construct.topologies import construct
from stormwright.optimize.kernel.records import Layout
from stormwright.optimize.layout.links import Links
from stormwright.optimize.layout.objective import Prices
from stormwright.optimize.search.anneal import Placed
from stormwright.optimize.search.budget import Budget
from stormwright.optimize.small.dense import MOST_DENSE
from stormwright.schedulers.draft.draft import Draft
from stormwright.schedulers.frame.layouts import layout_of, limited_workers, take_over
from stormwright.schedulers.frame.search import draft_of
from stormwright.schedulers.frame.waiting import Plan, answer, plan_with_last_resort
from stormwright.schedulers.kit.params import MOST_SECONDS, MOST_SEED, Params, param
from stormwright.schedulers.mend.repair import make_room, ready_repair
from stormwright.schedulers.placing.admission import admit, densest_first, find_wanted
from stormwright.schedulers.placing.staying import choose_slots, keep_slots, restore_cheaper, swap_nodes
from stormwright.schedulers.traffic.rates import Rates

_WEIGHTS = CostWeights()

#: Beyond it rounding would hide what traffic costs.
_MOST_PRICE = 1e12

#: What machine code counts with.
_MOST_COUNT = 10**9


def _price(text: str) -> Any:
    return param(0.0, f"{text}, in tuples/s between nodes", low=0, high=_MOST_PRICE)


@dataclass(frozen=True, kw_only=True)
class OptimizerParams(Params):
    """Parameters of the scheduler."""

    iterations: int = param(1_000_000, "steps of each search, whatever time they take", low=0, high=10**15)
    time_budget_s: float = param(
        0.0, "instead of `iterations`: seconds from the problem to the answer; 0: none", low=0, high=MOST_SECONDS
    )
    seed: int = param(0, "of the random numbers", low=0, high=MOST_SEED)
    threads: int = param(1, "cores to search on at once; the answer depends on their number", low=1, high=64)
    move_price: float = _price("what an executor that leaves its slot costs")
    max_moves: int = param(-1, "executors that may leave their slots; -1: any number", low=-1, high=_MOST_COUNT)
    restart_price: float = _price("what a worker that runs and is restarted costs")
    max_restarts: int = param(-1, "workers that run and may be restarted; -1: any number", low=-1, high=_MOST_COUNT)
    node_price: float = _price("what a node on which anything runs costs")
    imbalance_price: float = _price("what CPU that is used unevenly costs, see the rule")
    follow_flows: bool = param(
        True, "whether shuffled traffic costs what the new placement makes of it, or as measured"
    )
    bound: bool = param(False, "whether to prove how little any placement costs; takes more time")
    bound_budget_s: float = param(10.0, "seconds for that proof, at most", low=0, high=MOST_SECONDS)


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

    @property
    def runs(self) -> bool:
        """Whether anything runs now."""
        return bool(np.any(self.problem.current_slot != UNPLACED))

    @property
    def begins_small(self) -> bool:
        """Whether nothing runs yet, and there are so few executors that an answer may be looked at again."""
        return not self.runs and self.problem.num_executors <= MOST_DENSE

    def traffic(self, slots: IntArray) -> Traffic:
        """That of a placement."""
        return self.fixed or traffic_under(self.problem, slots)


class OptimizerScheduler:
    """Searches for the placement of least cost, first by construction, then for as long as it may.

    Own. Topology by topology goes onto few nodes; then simulated annealing with steps of executors, of workers and of
    whole topologies (ruin and recreate: G. Schrimpf, J. Schneider, H. Stamm-Wilbrandt, G. Dueck, "Record Breaking
    Optimization Results Using the Ruin and Recreate Principle", Journal of Computational Physics 159, 2000,
    https://doi.org/10.1006/jcph.1999.6413), all on arrays and compiled. With up to 64 executors, no flows and no price
    or limit, tabu search instead (F. Glover, "Tabu Search, Part I", ORSA Journal on Computing 1, 1989,
    https://doi.org/10.1287/ijoc.1.3.190).

    It lowers the cost of a placement, traffic weighted by distance, and whatever has a price beside it. Shuffled
    traffic follows each placement that is tried, as Storm's locality-aware shuffle will: it stays where executors of
    the component are near, as long as these can take it (`flow_limits` of the load). CPU, memory, slots, the number of
    workers and executors per worker are limits in every step; topologies with limits on components, and those that ask
    for generic resources such as GPUs, stay where construction, `make_room` and `keep_apart` put them. Topologies are
    placed as a whole or not at all; those that find no room are left out with counted reasons.

    1. Without a price or a limit of moves or restarts, what runs is moved only if the whole placement then costs less,
       or is valid where it was not; else only what has no slot is placed.
    2. With any of them, the search starts from what runs and stays near it: an executor counts as moved if it ends up
       in another slot, a worker as restarted if its executors or its slot change. Workers that lost executors have to
       join restart in any case, and count first. Where nothing runs these mean nothing.
    3. `imbalance_price` is that of Σ B_k / B (u_k - u)² over nodes, where u_k is the part that node k uses of its CPU
       B_k, u the same of all nodes together, and B what a node has on average. So a cluster of equal nodes of which
       half are idle and half are full costs a quarter of their number times this price. With `node_price`, few nodes
       are used. The `objective` that the answer then gives is cost and all prices.
    4. Where nothing runs and there are up to 64 executors, the answer is decided upon again as if it ran, until it
       stays: given back as what runs, it needs no change.

    Clusters of more than 20,000 executors are searched region by region: racks, or nodes that share topologies, with
    about 2,500 executors and what lies wholly in them; cut otherwise three times. With `threads` they are searched at
    once; smaller problems by every thread from the same placement with other random numbers, and the best one counts;
    tabu search takes one thread.

    Where topologies of 1,000 executors and more that send nothing shuffled make most of the cluster, the search goes by
    levels, unless a limit or price keeps what runs: in each of their workers pairs that exchange most are joined, then
    pairs of these, up to twelve executors; what is joined is searched first, and taken apart level by level (G.
    Karypis, V. Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs", SIAM Journal on
    Scientific Computing 20, 1998, https://doi.org/10.1137/S1064827595287997).

    There is no clock unless a time budget is given: the same problem, seed, number of iterations and threads give the
    same answer. The answer says how many iterations were made (`iterations_made`), and, if asked for a `bound`, its
    `proof`: `cost`, `bound`, the `gap` between them, and whether it is `optimal`, all of traffic alone. Machine code
    comes with the package; where it does not fit, the first call on a machine takes a minute more, once, to compile.
    Ties go to what stays, then to what was found first. Where room is short, it is looked for until half a second after
    the time budget, or a tenth of it if that is more; then topologies are left out until the rest is valid.

    When to use
    -----------
    Traffic is what counts: large clusters, many topologies, or what runs may move only a little (`max_moves`). With
    more than some thousand executors give it a time budget, as `iterations` are then few for each.

    Ignores
    -------
    How evenly nodes are loaded, as long as none is overloaded, and how many are used, unless that has a price; streams,
    the speed of links, and that an executor which gets more of the shuffled traffic will need more CPU.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks
    """

    params_type = OptimizerParams

    def __init__(self, params: OptimizerParams | None = None) -> None:
        self.params = given = params or OptimizerParams()
        self.prices = Prices(
            move=given.move_price,
            max_moves=given.max_moves,
            restart=given.restart_price,
            max_restarts=given.max_restarts,
            node=given.node_price,
            imbalance=given.imbalance_price,
        )

    def schedule(self, problem: Problem) -> Assignment:
        """Place every topology, as a whole or not at all."""
        for ready in (ready_search, ready_small, ready_repair):
            ready()
        iterations = 0 if self.params.time_budget_s else self.params.iterations
        budget = Budget(self.params.time_budget_s, iterations, self.params.threads)
        task = _Task.of(problem, self.params.follow_flows)
        plan = self._settled(task, self._decided(task, budget), budget)
        found = answer(problem, "optimizer", self.params, plan)
        reported: dict[str, Any] = {"iterations_made": budget.made}
        if self.prices != Prices():
            slots = found.slot_of_executor
            reported["objective"] = self.prices.objective(problem, slots, task.traffic(slots), _WEIGHTS)
        if self.params.bound:
            from stormwright.optimize.bound.prove import bound_cost  # brings the solvers of SciPy, which takes a while

            slots = found.slot_of_executor
            reported["proof"] = bound_cost(problem, slots, self.params.bound_budget_s, _WEIGHTS).figures(problem, slots)
        return replace(found, parameters={**found.parameters, **reported})

    def _decided(self, task: _Task, budget: Budget) -> Plan:
        """What runs kept, rearranged or moved, as the prices say, and the rest placed."""
        if task.runs and self.prices.stays_near:
            return self._rearranged(task, budget)
        share = 0.5 if task.runs or (task.begins_small and self.prices.stays_near) else 1.0
        draft = self._constructed(task, budget, keep_running=True)
        self._improve(draft, task.links, budget, share)
        plan = Plan(choose_slots(draft), draft.reasons)
        if task.runs and self._is_better(task, anew := self._moved(task, budget), plan):
            return anew
        return plan

    def _settled(self, task: _Task, plan: Plan, budget: Budget) -> Plan:
        """What is placed where nothing runs, decided upon again as if it ran, until it stays (4).

        Each time more is placed or it costs less, so this ends. Without a price or limit of changes the same is decided
        again, unless topologies are left out: these then wait behind those that run.
        """
        if not (task.begins_small and (self.prices.stays_near or plan.reasons)):
            return plan
        while True:
            current = answer(task.problem, "optimizer", self.params, plan).by_topology(task.problem)
            again = self._decided(replace(task, problem=task.problem.with_current(current)), budget)
            if np.array_equal(again.slots, plan.slots):
                return plan
            plan = again

    def _moved(self, task: _Task, budget: Budget) -> Plan:
        """Everything placed anew, but back to where it runs where that costs no more."""
        draft = self._constructed(task, budget, keep_running=False)
        self._improve(draft, task.links, budget)
        anew = Plan(choose_slots(draft), dict(draft.reasons))
        now, new = (task.traffic(slots) for slots in (task.problem.current_slot, anew.slots))
        restore_cheaper(draft, Rates.of(task.problem, now), _WEIGHTS, Rates.of(task.problem, new))
        swap_nodes(draft)
        restored = Plan(choose_slots(draft), draft.reasons)
        # What goes back costs no more traffic, but may use nodes otherwise.
        worse = self.prices.looks_at_nodes and self._rank(task, anew) < self._rank(task, restored)
        return anew if worse else restored

    def _rearranged(self, task: _Task, budget: Budget) -> Plan:
        """What runs, and what is placed beside it, improved within what may move and restart."""
        draft = self._constructed(task, budget, keep_running=True)
        make_room(draft, is_late=budget.is_late)
        slots = choose_slots(draft)
        arranged = draft_of(draft.problem, slots)
        held = limited_workers(arranged)
        layout, order = self._layout(arranged, task.links, held)
        take_over(arranged, order, budget.improve(layout))
        return Plan(keep_slots(arranged, slots), draft.reasons)

    def _constructed(self, task: _Task, budget: Budget, *, keep_running: bool) -> Draft:
        """A placement of what the cluster as a whole has room for; nodes may be overloaded."""
        problem, links = task.problem, task.links

        def draft_on(usable: BoolArray) -> Draft:
            draft = Draft.empty(problem, usable)
            wanted = admit(draft, find_wanted(draft, keep_running))
            for group in wanted:
                for _ in range(group.workers):
                    draft.add_worker(group.topology, group.executors[:0])
            layout, order = self._layout(draft, links, draft.fixed)
            construct(layout, densest_first(problem, links.pull_of_executors(), wanted))
            take_over(draft, order, Placed.of(layout))
            if problem.greylisted_supervisors or any(limited_workers(draft)):
                # What is left out decides whether they are used; the search keeps nothing apart.
                make_room(draft, is_late=budget.is_late)
            return draft

        return plan_with_last_resort(problem, draft_on)

    def _improve(self, draft: Draft, links: Links, budget: Budget, share: float = 1.0) -> None:
        """Search for a share of the time left, what is fixed staying; then leave out what still overloads nodes.

        What is left out leaves room to others, so these are then searched once more.
        """
        for _ in range(2):
            held = [fixed or limited for fixed, limited in zip(draft.fixed, limited_workers(draft), strict=True)]
            layout, order = self._layout(draft, links, held)
            take_over(draft, order, budget.improve(layout, share))
            left_out = len(draft.reasons)
            make_room(draft, is_late=budget.is_late)
            if len(draft.reasons) == left_out or budget.is_late():
                return

    def _is_better(self, task: _Task, moved: Plan, stay: Plan) -> bool:
        """Whether moving pays: more executors placed, else fewer limits broken, else less cost; what runs goes on."""
        if np.any((moved.slots == UNPLACED) & (task.problem.current_slot != UNPLACED)):
            return False
        unplaced, broken, cost = self._rank(task, stay)
        return self._rank(task, moved) < (unplaced, broken, cost * (1 - RELATIVE_TOLERANCE))

    def _rank(self, task: _Task, plan: Plan) -> tuple[int, int, float]:
        """Executors that are left out, limits broken, cost with all prices."""
        unplaced = int(np.count_nonzero(plan.slots == UNPLACED))
        cost = self.prices.objective(task.problem, plan.slots, task.traffic(plan.slots), _WEIGHTS)
        return unplaced, len(violations(task.problem, plan.slots)), cost

    def _layout(self, draft: Draft, links: Links, held: list[bool]) -> tuple[Layout, IndexArray]:
        return layout_of(draft, links, held, _WEIGHTS, self.prices, self.params.seed)
