"""Optimizer: a search for the best placement by an operator's objective, with a budget of steps or time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model import UNPLACED, Assignment, Problem, Scheduler
from stormwright.model.arrays import IntArray
from stormwright.model.topology_config import WORKERS, WORKERS_KEY
from stormwright.optimize.layout.objective import Prices
from stormwright.optimize.precompile import ready_rates, ready_search, ready_small
from stormwright.optimize.search.budget import Budget
from stormwright.optimize.throughput.improve import ImproveEffort
from stormwright.optimize.throughput.start import MeasuredLoad
from stormwright.schedulers.even import EvenScheduler
from stormwright.schedulers.placement.relabel import renamed
from stormwright.schedulers.placement.repair import ready_repair
from stormwright.schedulers.templates.by_rates import RateGoal, RateSearch, is_measured, wanted_of
from stormwright.schedulers.templates.by_traffic import WEIGHTS, TrafficSearch
from stormwright.schedulers.templates.proof_by_rates import PROVEN, proof_by_rates
from stormwright.schedulers.templates.waiting import answer
from stormwright.schedulers.toolkit.canonical import named_by_position, with_sorted_pairs
from stormwright.schedulers.toolkit.limits import with_room_for_cpu
from stormwright.schedulers.toolkit.params import MAX_SECONDS, MAX_SEED, Params, param
from stormwright.schedulers.toolkit.search_problem import Task
from stormwright.schedulers.toolkit.triggers import ONLINE

OBJECTIVES = ("auto", "traffic", "throughput", "latency", "nodes", "balanced")

#: Number of workers by default: see `OptimizerParams.workers_for`.
AUTO_WORKERS = "auto"

#: For objectives by rates: steps and fraction of the time of the initial search for little traffic, and steps per
#: executor of those that follow.
_FIRST_STEPS, _FIRST_PART, _STEPS_PER_EXECUTOR = 100_000, 0.3, 3_000

#: Remaining time if the first search used all of it; above 0, as 0 means no limit.
_NO_TIME_S = 1e-9

#: Higher prices would hide the cost of traffic by rounding.
_MAX_PRICE = 1e12

#: Largest integer of the machine code.
_MAX_COUNT = 10**9


def _price(text: str) -> Any:
    return param(0.0, f"{text}, in tuples/s between nodes", low=0, high=_MAX_PRICE)


@dataclass(frozen=True, kw_only=True)
class OptimizerParams(Params):
    """Parameters of the scheduler."""

    objective: str = param(
        "auto",
        "objective; auto: throughput under the measured or assumed rates; traffic with prices, limits of moves or a "
        "bound, or if there is no traffic at all",
        choices=OBJECTIVES,
    )
    workers: str = param(
        AUTO_WORKERS,
        "number of workers, for all objectives but traffic; auto: free, but exactly as requested by objective auto if "
        f"no service measured the load; a topology's {WORKERS_KEY} takes precedence",
        choices=(AUTO_WORKERS, *WORKERS),
    )
    headroom_percent: float = param(
        20.0, "percentage of all nodes and links that stays free, for objective nodes", low=0, high=99
    )
    caution: float = param(
        1.6,
        "standard deviations subtracted from a predicted throughput if there is a current placement",
        low=0,
        high=9,
    )
    iterations: int = param(1_000_000, "steps of each search, regardless of time", low=0, high=10**15)
    time_budget_s: float = param(
        0.0, "instead of `iterations`: seconds from the problem to the answer; 0: none", low=0, high=MAX_SECONDS
    )
    seed: int = param(0, "seed of the random numbers", low=0, high=MAX_SEED)
    threads: int = param(1, "cores to use in parallel; the answer depends on their number", low=1, high=64)
    move_price: float = _price("cost of an executor that leaves its slot")
    max_moves: int = param(-1, "maximum executors that may leave their slots; -1: any number", low=-1, high=_MAX_COUNT)
    restart_price: float = _price("cost of a restarted worker")
    max_restarts: int = param(
        -1, "maximum running workers that may be restarted; -1: any number", low=-1, high=_MAX_COUNT
    )
    node_price: float = _price("cost of a used node")
    imbalance_price: float = _price("cost of uneven CPU, see the rule")
    follow_flows: bool = param(True, "whether shuffled traffic follows the new placement, or costs as measured")
    bound: bool = param(False, "whether to compute a bound on all placements; takes more time")
    bound_budget_s: float = param(10.0, "maximum seconds for the bound", low=0, high=MAX_SECONDS)

    def __post_init__(self) -> None:
        super().__post_init__()
        faults = []
        if self.objective not in ("auto", "traffic") and self.prices != Prices():
            faults.append(Fault("prices and limits of moves need objective=traffic", "objective"))
        if self.objective not in ("auto", "traffic", *PROVEN) and self.bound:
            faults.append(Fault(f"there is no bound of {self.objective}", "bound"))
        usual = {field.name: field.default for field in fields(self)}
        idle = {name: needs for name, needs in self._idle() if getattr(self, name) != usual[name]}
        faults += [Fault(f"has no effect: it needs {needs}", name) for name, needs in idle.items()]
        if self.time_budget_s and self.iterations not in (0, usual["iterations"]):
            message = "has no effect with time_budget_s: remove one of them"
            faults.append(Fault(message, "iterations"))
        if faults:
            raise InputError("scheduler parameters", faults)

    def _idle(self) -> Iterator[tuple[str, str]]:
        """Yield parameters without effect, and the setting that they require."""
        if self.objective != "nodes":
            yield "headroom_percent", "objective=nodes"
        if self.objective == "traffic":
            yield "workers", "another objective than traffic"
        if not self.bound:
            yield "bound_budget_s", "bound=true"

    @property
    def needs_traffic(self) -> bool:
        """Whether a parameter is set that applies to the traffic objective only."""
        return self.bound or self.prices != Prices()

    def keeps_requests(self, problem: Problem) -> bool:
        """Return whether numbers of workers and CPU are as requested: by default, if no service measured the load."""
        return self.objective == "auto" and not is_measured(problem)

    def workers_for(self, problem: Problem) -> str:
        """Return how numbers of workers are chosen for a problem, one of `WORKERS`."""
        if self.workers != AUTO_WORKERS:
            return self.workers
        return "exactly" if self.keeps_requests(problem) else "free"

    @property
    def prices(self) -> Prices:
        """Return the prices of everything besides traffic."""
        return Prices(
            move=self.move_price,
            max_moves=self.max_moves,
            restart=self.restart_price,
            max_restarts=self.max_restarts,
            node=self.node_price,
            imbalance=self.imbalance_price,
        )


class OptimizerScheduler:
    """Searches for the placement of highest throughput, least latency, fewest nodes, least CPU or least traffic.

    Own. For little traffic, topologies are placed one by one onto few nodes; then simulated annealing with steps of
    executors, of workers and of whole topologies (ruin and recreate: G. Schrimpf, J. Schneider, H. Stamm-Wilbrandt, G.
    Dueck, "Record Breaking Optimization Results Using the Ruin and Recreate Principle", Journal of Computational
    Physics 159, 2000, https://doi.org/10.1006/jcph.1999.6413), all on arrays and compiled. With up to 64 executors, no
    flows and no price or limit, tabu search instead (F. Glover, "Tabu Search, Part I", ORSA Journal on Computing 1,
    1989, https://doi.org/10.1287/ijoc.1.3.190).

    The load of threads, nodes and links and the waiting time of tuples are predicted for every placement from
    measurements (`stormwright.predict`). For throughput, simulated annealing lowers Σ u⁸ of the utilisations u of all
    CPUs, links and busiest threads, while rates grow to the highest sustainable ones: all by one factor, multiplied by
    ``stormwright.weight`` in the topology's configuration, a number above 0. For latency it lowers Σ u / (1 − u) and
    the distance of messages; for nodes their number, as long as `headroom_percent` stays free, and then latency on
    these nodes; for balanced the CPU per tree, as long as rates are sustained. It starts from the running placement;
    from that of `even`, as if names were numbers in the problem's order, unless all runs and a service measured the
    load; from one of little traffic; and from topologies gathered on few nodes. Results are compared by the complete
    prediction, and the running placement stays if it is as good. The predicted throughput of another placement is
    reduced by `caution` standard deviations of its prediction error (`stormwright.predict.gain`). CPU is no constraint
    here, as rates follow from it, so a node may get more than was measured. The number of workers is a decision
    (`workers`), applied by ``rebalance -n``. By default (objective auto), if no service measured the load, CPU stays a
    constraint and the numbers of workers are as requested. Topologies that began no trees are placed for little
    traffic.

    For traffic it lowers the cost of a placement, weighted by distance, plus everything with a price. Shuffled traffic
    follows each candidate placement, as by Storm's locality-aware shuffle: it stays where executors of the component
    are near, as long as these can take it (`flow_limits` of the load). CPU, memory, slots, the number of workers,
    executors per worker, generic resources such as GPUs and limits on components hold in every step, for objectives by
    rates, too; so do, if the cluster also uses Storm's ResourceAwareScheduler, requested CPU and memory, memory shared
    by components, and the heap of workers. Topologies are placed as a whole or not at all; those that do not fit are
    left out with counted reasons.

    1. Without a price or a limit of moves or restarts, running executors move only if the whole placement then costs
       less, or becomes valid; else only executors without a slot are placed.
    2. With any of them, the search starts from the running placement and stays near it: an executor counts as moved if
       it ends up in another slot, a worker as restarted if its executors or its slot change. Workers that lost
       executors have to join restart in any case, and count first. If nothing runs these parameters have no effect.
    3. `imbalance_price` is that of Σ B_k / B (u_k - u)² over nodes, where u_k is the utilisation of node k with CPU
       B_k, u that of all nodes together, and B the mean CPU of a node. So a cluster of equal nodes of which half are
       idle and half are full costs a quarter of their number times this price. With `node_price`, few nodes are used.
       The answer's `priced_cost` is then the cost with all prices.
    4. If nothing runs and there are up to 64 executors, the answer is fed back as if it ran, until it no longer
       changes: the result is stable.

    Clusters of more than 20,000 executors, and of more than 7,500 where there are 300 steps for each, are searched
    region by region: racks, or nodes that share topologies, with about 2,500 executors and everything wholly inside
    them; three times with other regions. With `threads` they are searched in parallel; smaller problems by every thread
    from the same placement with other random numbers, and the best result is used; tabu search uses one thread.

    If topologies of 1,000 executors and more without shuffled traffic make up most of the cluster, the search is
    multilevel, unless a limit or price preserves the running placement: in each of their workers the pairs with most
    traffic are merged, then pairs of these, up to twelve executors; merged executors are searched first, and split
    level by level (G. Karypis, V. Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs",
    SIAM Journal on Scientific Computing 20, 1998, https://doi.org/10.1137/S1064827595287997).

    There is no time limit unless a time budget is given: the same problem, seed, number of iterations and threads give
    the same answer. The answer has the number of iterations (`iterations_made`); for objectives other than traffic the
    values `predicted` for every topology, `before` and `after`: its highest rate, bottleneck and latency; and, with
    `bound`, its `proof`: `cost` (of traffic alone), `factor` (by which all rates can grow) or `nodes`, the `bound`, the
    `gap` between them, and whether it is `optimal`. There is none for latency; with objective auto it is that of
    traffic. Machine code is part of the package; if it does not fit the machine, the first call compiles for a minute,
    once. Ties go to the running placement, then to the one found first. If resources are short, the search for free
    places ends half a second after the time budget, or a tenth of it if that is more; then topologies are left out
    until the rest is valid.

    When to use
    -----------
    Always, with a measured load or an assumed one. For traffic: large clusters, many topologies, or if only few running
    executors may move (`max_moves`). With more than some thousand executors set a time budget, as `iterations` are then
    few for each.

    Ignores
    -------
    For traffic: load balance, as long as no node is overloaded, and the number of nodes, unless it has a price;
    streams, the speed of links, and that an executor with more of the shuffled traffic needs more CPU.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks, weights
    """

    params_type = OptimizerParams
    moves_running = True
    adapts = ONLINE
    heeds_requests = True

    def __init__(self, params: OptimizerParams | None = None) -> None:
        self.params = params or OptimizerParams()
        self.prices = self.params.prices
        self.moves_running = self.params.max_moves != 0
        self.stays_near = self.prices.stays_near

    def schedule(self, problem: Problem) -> Assignment:
        """Place every topology, as a whole or not at all."""
        for ready in (ready_search, ready_small, ready_repair):
            ready()
        objective = self.params.objective
        if objective == "auto":
            objective = "traffic" if self.params.needs_traffic else wanted_of(problem)
        if objective == "traffic" or not problem.slots:  # without slots there is no rate
            return self._by_traffic(problem)
        return self._by_rates(problem, objective)

    def _by_rates(self, problem: Problem, objective: str) -> Assignment:
        """Return the best placement by prediction, starting from that for traffic; CPU leaves nothing out."""
        given, begun_s = self.params, time.perf_counter()
        ready_rates()
        traffic = OptimizerParams(
            objective="traffic",
            iterations=0 if given.time_budget_s else min(given.iterations, _FIRST_STEPS),
            time_budget_s=given.time_budget_s * _FIRST_PART,
            seed=given.seed,
            threads=given.threads,
            follow_flows=given.follow_flows,
        )
        keeps_requests = given.keeps_requests(problem)
        problem = with_sorted_pairs(problem) if keeps_requests else problem
        first = OptimizerScheduler(traffic).schedule(problem if keeps_requests else with_room_for_cpu(problem))
        load = MeasuredLoad.of(problem)
        goal = RateGoal(
            objective,
            given.workers_for(problem),
            given.headroom_percent / 100,
            given.seed,
            given.caution,
            keeps_requests,
        )
        search = RateSearch(problem, load, goal)
        steps = 0 if given.time_budget_s else min(given.iterations, _STEPS_PER_EXECUTOR * problem.num_executors)
        left_s = max(given.time_budget_s - (time.perf_counter() - begun_s), _NO_TIME_S) if given.time_budget_s else 0.0
        slots = search.improved(
            first.slot_of_executor, ImproveEffort(steps, left_s), lambda: _even_starts(problem, keeps_requests)
        )
        made = first.parameters["iterations_made"] + search.steps
        reported: dict[str, Any] = {"objective": objective, "iterations_made": made}
        shown = {"before": problem.current_slot, "after": slots}
        reported["predicted"] = {
            when: [one.as_dict() for one in search.reaches(assignment)] for when, assignment in shown.items()
        }
        if given.bound:
            reported["proof"] = proof_by_rates(search, slots, given.bound_budget_s)
        return replace(
            first,
            slot_of_executor=slots,
            num_workers=search.chosen_workers(slots),
            parameters={**asdict(given), **reported},
        )

    def _by_traffic(self, problem: Problem) -> Assignment:
        iterations = 0 if self.params.time_budget_s else self.params.iterations
        budget = Budget(self.params.time_budget_s, iterations, self.params.threads)
        task = Task.of(problem, self.params.follow_flows)
        plan = TrafficSearch(self.prices, self.params.seed).plan(task, budget)
        found = answer(problem, "optimizer", self.params, plan)
        reported: dict[str, Any] = {"objective": "traffic", "iterations_made": budget.made}
        if self.prices != Prices():
            slots = found.slot_of_executor
            reported["priced_cost"] = self.prices.objective(problem, slots, task.traffic(slots), WEIGHTS)
        if self.params.bound:
            from stormwright.optimize.bounds.prove import bound_cost  # imports the solvers of SciPy, which is slow

            slots = found.slot_of_executor
            reported["proof"] = bound_cost(problem, slots, self.params.bound_budget_s, WEIGHTS).figures(problem, slots)
        return replace(found, parameters={**found.parameters, **reported})


def without_caution(scheduler: Scheduler) -> Scheduler | None:
    """Return the scheduler with predictions as they are, whatever their errors; None if it subtracts none."""
    if not isinstance(scheduler, OptimizerScheduler) or not scheduler.params.caution:
        return None
    return OptimizerScheduler(replace(scheduler.params, caution=0.0))


def _even_starts(problem: Problem, keeps_requests: bool) -> Iterator[IntArray]:
    """Yield the placement by Storm's EvenScheduler, with shuffled streams within workers a good start.

    Nodes and topologies are named by position, so that only their order matters. If everything runs it is from scratch,
    and only for loads that no service measured: services move few topologies at a time, and have no time to lose.
    """
    running = problem.current_slot != UNPLACED
    if not np.all(running):
        yield EvenScheduler().schedule(named_by_position(problem)).slot_of_executor
    elif keeps_requests:
        from_scratch = named_by_position(problem).with_nothing_running()
        yield renamed(problem, EvenScheduler().schedule(from_scratch).slot_of_executor)
