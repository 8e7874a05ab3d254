"""A search for the placement that is best by what an operator wants, which takes as long as it is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from stormwright.errors import Fault, InputError
from stormwright.model import Assignment, Problem
from stormwright.model.topology_config import WORKERS, WORKERS_KEY
from stormwright.optimize.layout.objective import Prices
from stormwright.optimize.precompile import ready_rates, ready_search, ready_small
from stormwright.optimize.search.budget import Budget
from stormwright.optimize.throughput.improve import Effort
from stormwright.optimize.throughput.start import MeasuredLoad
from stormwright.predict.calibration.document import costs_of
from stormwright.predict.flow.profile import Profile
from stormwright.schedulers.placement.repair import ready_repair
from stormwright.schedulers.templates.by_rates import RateSearch, RateWish, wanted_of
from stormwright.schedulers.templates.by_traffic import WEIGHTS, TrafficSearch
from stormwright.schedulers.templates.proof_by_rates import PROVEN, proof_by_rates
from stormwright.schedulers.templates.waiting import answer
from stormwright.schedulers.toolkit.limits import with_room_for_cpu
from stormwright.schedulers.toolkit.params import MOST_SECONDS, MOST_SEED, Params, param
from stormwright.schedulers.toolkit.search_problem import Task
from stormwright.schedulers.toolkit.triggers import ONLINE

OBJECTIVES = ("auto", "traffic", "throughput", "latency", "nodes", "balanced")

#: Where rates count: steps and part of the time of the search for little traffic that comes before, and steps for each
#: executor of those that follow.
_FIRST_STEPS, _FIRST_PART, _STEPS_PER_EXECUTOR = 100_000, 0.3, 3_000

#: Where the first search took all the time, what is left: no steps are told, so it is not none.
_NO_TIME_S = 1e-9

#: Beyond it rounding would hide what traffic costs.
_MOST_PRICE = 1e12

#: What machine code counts with.
_MOST_COUNT = 10**9


def _price(text: str) -> Any:
    return param(0.0, f"{text}, in tuples/s between nodes", low=0, high=_MOST_PRICE)


@dataclass(frozen=True, kw_only=True)
class OptimizerParams(Params):
    """Parameters of the scheduler."""

    objective: str = param(
        "auto", "what is wanted; auto: throughput where a service measured the load, else traffic", choices=OBJECTIVES
    )
    workers: str = param(
        "free", f"how many, for all objectives but traffic; a topology's {WORKERS_KEY} goes first", choices=WORKERS
    )
    headroom_percent: float = param(
        20.0, "what is to stay free of all nodes and links, for objective nodes", low=0, high=99
    )
    caution: float = param(
        1.6,
        "standard deviations by which a throughput counts for less than predicted, where something runs",
        low=0,
        high=9,
    )
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
    bound: bool = param(False, "whether to prove what no placement is better than; takes more time")
    bound_budget_s: float = param(10.0, "seconds for that proof, at most", low=0, high=MOST_SECONDS)

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
            message = "has no effect beside time_budget_s, which counts instead: leave out one of them"
            faults.append(Fault(message, "iterations"))
        if faults:
            raise InputError("scheduler parameters", faults)

    def _idle(self) -> Iterator[tuple[str, str]]:
        """Parameters that nothing goes by, and what they would need."""
        if self.objective != "nodes":
            yield "headroom_percent", "objective=nodes"
        if self.objective == "traffic":
            yield "workers", "another objective than traffic"
        if not self.bound:
            yield "bound_budget_s", "bound=true"

    @property
    def needs_traffic(self) -> bool:
        """Whether something is asked for that, where it is not said what is wanted, is that of traffic."""
        return self.bound or self.prices != Prices()

    @property
    def prices(self) -> Prices:
        """What counts besides traffic."""
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

    Own. For little traffic, topology by topology goes onto few nodes; then simulated annealing with steps of executors,
    of workers and of whole topologies (ruin and recreate: G. Schrimpf, J. Schneider, H. Stamm-Wilbrandt, G. Dueck,
    "Record Breaking Optimization Results Using the Ruin and Recreate Principle", Journal of Computational Physics 159,
    2000, https://doi.org/10.1006/jcph.1999.6413), all on arrays and compiled. With up to 64 executors, no flows and no
    price or limit, tabu search instead (F. Glover, "Tabu Search, Part I", ORSA Journal on Computing 1, 1989,
    https://doi.org/10.1287/ijoc.1.3.190).

    What topologies take of threads, nodes and links, and how long tuples wait, is predicted for every placement from
    what was measured (`stormwright.predict`). For throughput, simulated annealing lowers Σ u⁸ of the utilisations
    u of all CPUs, links and busiest threads, while rates grow to what the placement sustains: all by one factor, or
    those of a topology by as many times that as ``stormwright.weight`` in its configuration says, a number above 0. For
    latency it lowers Σ u / (1 − u) and the way of messages; for nodes their number, as long as `headroom_percent` stays
    free, and then latency on these nodes; for balanced the CPU that a tree takes, as long as rates are sustained. It
    starts from what runs, from a placement of little traffic and from topologies gathered on few nodes; what has been
    found is compared by the whole prediction, and what runs is left where that is as good. A throughput that is
    predicted of another placement counts for `caution` standard deviations of that prediction's error less
    (`stormwright.predict.gain`), and no node that is in use is left idle for it; 0 leaves out both. CPU limits no rate
    here but is what rates come from, so a node may be given more than was measured. The number of workers is a choice
    (`workers`), carried out by ``rebalance -n``. Topologies that began no trees are placed for little traffic.

    For traffic it lowers the cost of a placement, weighted by distance, and whatever has a price beside it. Shuffled
    traffic follows each placement that is tried, as Storm's locality-aware shuffle will: it stays where executors of
    the component are near, as long as these can take it (`flow_limits` of the load). CPU, memory, slots, the number of
    workers, executors per worker, generic resources such as GPUs and limits on components hold in every step, by rates
    too; so do, where the cluster keeps Storm's ResourceAwareScheduler beside ours, CPU and memory asked for, what
    components share of it, and the heap of workers. Topologies are placed as a whole or not at all; those that find no
    room are left out with counted reasons.

    1. Without a price or a limit of moves or restarts, what runs is moved only if the whole placement then costs less,
       or is valid where it was not; else only what has no slot is placed.
    2. With any of them, the search starts from what runs and stays near it: an executor counts as moved if it ends up
       in another slot, a worker as restarted if its executors or its slot change. Workers that lost executors have to
       join restart in any case, and count first. Where nothing runs these mean nothing.
    3. `imbalance_price` is that of Σ B_k / B (u_k - u)² over nodes, where u_k is the part that node k uses of its CPU
       B_k, u the same of all nodes together, and B what a node has on average. So a cluster of equal nodes of which
       half are idle and half are full costs a quarter of their number times this price. With `node_price`, few nodes
       are used. The `priced_cost` that the answer then gives is cost and all prices.
    4. Where nothing runs and there are up to 64 executors, the answer is decided upon again as if it ran, until it
       stays: given back as what runs, it needs no change.

    Clusters of more than 20,000 executors, and of more than 7,500 where there are 300 steps for each, are searched
    region by region: racks, or nodes that share topologies, with about 2,500 executors and what lies wholly in them;
    cut otherwise three times. With `threads` they are searched at once; smaller problems by every thread from the same
    placement with other random numbers, and the best one counts; tabu search takes one thread.

    Where topologies of 1,000 executors and more that send nothing shuffled make most of the cluster, the search goes by
    levels, unless a limit or price keeps what runs: in each of their workers pairs that exchange most are joined, then
    pairs of these, up to twelve executors; what is joined is searched first, and taken apart level by level (G.
    Karypis, V. Kumar, "A Fast and High Quality Multilevel Scheme for Partitioning Irregular Graphs", SIAM Journal on
    Scientific Computing 20, 1998, https://doi.org/10.1137/S1064827595287997).

    There is no clock unless a time budget is given: the same problem, seed, number of iterations and threads give the
    same answer. The answer says how many iterations were made (`iterations_made`); where it does not go by traffic what
    is `predicted` of every topology, `before` and `after`: its highest rate, bottleneck and latency; and, if asked for
    a `bound`, its `proof`: `cost` (of traffic alone), `factor` (by which all rates can grow) or `nodes`, the `bound`,
    the `gap` between them, and whether it is `optimal`. Of latency there is none; with objective auto it is that of
    traffic.
    Machine code comes with the package; where it does not fit, the first call on a machine takes a minute more, once,
    to compile. Ties go to what stays, then to what was found first. Where room is short, it is looked for until half a
    second after the time budget, or a tenth of it if that is more; then topologies are left out until the rest is
    valid.

    When to use
    -----------
    Always where a load was measured. For traffic: large clusters, many topologies, or what runs may move only a little
    (`max_moves`). With more than some thousand executors give it a time budget, as `iterations` are then few for each.

    Ignores
    -------
    For traffic: how evenly nodes are loaded, as long as none is overloaded, and how many are used, unless that has a
    price; streams, the speed of links, and that an executor which gets more of the shuffled traffic will need more CPU.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks
    """

    params_type = OptimizerParams
    moves_running = True
    adapts = ONLINE
    heeds_requests = True

    def __init__(self, params: OptimizerParams | None = None) -> None:
        self.params = params or OptimizerParams()
        self.prices = self.params.prices
        self.moves_running = self.params.max_moves != 0
        self.near_what_runs = self.prices.stays_near

    def schedule(self, problem: Problem) -> Assignment:
        """Place every topology, as a whole or not at all."""
        for ready in (ready_search, ready_small, ready_repair):
            ready()
        objective = self.params.objective
        if objective == "auto":
            objective = "traffic" if self.params.needs_traffic else wanted_of(problem)
        if objective == "traffic":
            return self._by_traffic(problem)
        return self._by_rates(problem, objective)

    def _by_rates(self, problem: Problem, objective: str) -> Assignment:
        """By what is predicted, from what traffic alone would have; CPU follows the rates, so it leaves nothing out."""
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
        first = OptimizerScheduler(traffic).schedule(with_room_for_cpu(problem))
        load = MeasuredLoad(Profile.of(problem), *costs_of(problem))
        wish = RateWish(objective, given.workers, given.headroom_percent / 100, given.seed, given.caution)
        search = RateSearch(problem, load, wish)
        steps = 0 if given.time_budget_s else min(given.iterations, _STEPS_PER_EXECUTOR * problem.num_executors)
        left_s = max(given.time_budget_s - (time.perf_counter() - begun_s), _NO_TIME_S) if given.time_budget_s else 0.0
        slots = search.improved(first.slot_of_executor, Effort(steps, left_s))
        made = first.parameters["iterations_made"] + search.steps
        reported: dict[str, Any] = {"objective": objective, "iterations_made": made}
        shown = {"before": problem.current_slot, "after": slots}
        reported["predicted"] = {when: [one.as_dict() for one in search.reaches(of)] for when, of in shown.items()}
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
            from stormwright.optimize.bounds.prove import bound_cost  # brings the solvers of SciPy, which takes a while

            slots = found.slot_of_executor
            reported["proof"] = bound_cost(problem, slots, self.params.bound_budget_s, WEIGHTS).figures(problem, slots)
        return replace(found, parameters={**found.parameters, **reported})
