"""The online scheduler of Aniello, Baldoni, Querzoni: traffic decides who shares a worker, then who shares a node."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from stormwright.model import (
    UNPLACED,
    Assignment,
    CostWeights,
    Problem,
    Traffic,
    cost_under,
    measured_traffic,
    violations,
)
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.limits.limit import RELATIVE_TOLERANCE
from stormwright.optimize.construct.greedy import Bins, Greedy, Items, Pairs
from stormwright.optimize.kernel.records import NOWHERE
from stormwright.schedulers.draft.draft import Draft
from stormwright.schedulers.frame.waiting import Plan, answer, plan_with_last_resort
from stormwright.schedulers.kit.limits import max_executors_per_worker, most_executors
from stormwright.schedulers.kit.params import MOST_FACTOR, param
from stormwright.schedulers.kit.triggers import ONLINE, TriggerParams
from stormwright.schedulers.mend.repair import make_room
from stormwright.schedulers.placing.admission import Wanted, admit, find_wanted
from stormwright.schedulers.placing.staying import choose_slots, restore_cheaper, swap_nodes
from stormwright.schedulers.traffic.rates import Rates

_WEIGHTS = CostWeights()

#: Passes over all pairs of workers in phase 2; few problems still change after the fourth.
_MAX_PASSES = 10


@dataclass(frozen=True, kw_only=True)
class OnlineParams(TriggerParams):
    """Parameters of the scheduler, and of the triggers that go with it."""

    alpha: float = param(1.0, "0: workers hold equally many executors; 1: as many as `gamma` allows", low=0, high=1)
    beta: float = param(1.0, "0: a topology gets as few nodes as have its slots; 1: as many as pay", low=0, high=1)
    gamma: float = param(
        3.0, "CPU load that a worker may have, in parts of its topology's mean", low=1, high=MOST_FACTOR
    )
    delta: float = param(1.0, "0: nodes use equally many slots; 1: as many as they have", low=0, high=1)
    capacity: float = param(100.0, "percent of a node's CPU that executors may use", low=1, high=100)
    keep_running: bool = param(False, "true: only place what has no slot, around what runs")


class OnlineScheduler:
    """Puts executors that exchange much traffic into one worker, then such workers onto one node.

    L. Aniello, R. Baldoni, L. Querzoni, "Adaptive online scheduling in Storm", DEBS 2013,
    https://doi.org/10.1145/2488222.2488267. The paper states the problem in §3.2.2, equations 1 to 3; the rule of both
    phases, which its text leaves to the authors' code, is `Greedy.place_pairs`. Traffic is taken as measured, so it is
    held to stay what it is under the current placement.

    Different from the paper and the authors' code:

    1. Traffic between racks counts twice, as in the cost of a placement. With one rack nothing changes.
    2. Phase 2 goes through the pairs of workers again while that lowers the cost, and with several racks also tries
       the least loaded node of the racks at hand; the cheaper of both results counts.
    3. Where the greedy rule leaves a worker without a node, `make_room` looks for a place by few small steps, and may
       miss one that there is. Reasons then speak of the workers as phase 1 made them; cut otherwise they might fit.
    4. Memory is a hard limit, as is the topology's own limit on executors in a worker; generic resources and limits on
       components are kept by `make_room` afterwards. `alpha`, `beta`, `gamma` and `delta` are wishes, given up for what
       would find no place otherwise.
    5. What runs is moved only if the whole placement then costs less, or is valid where it was not; of a topology that
       lost workers only these are placed. Without a gain no worker changes its slot.
    6. Of a topology all executors are placed, also those without traffic, or none.

    Deterministic. Ties go to what stays, then to the lower index of executor, worker, node or topology. So names have
    no influence; the order of supervisors and topologies in the problem has one among equals.

    When to use
    -----------
    A topology that runs and was measured; the default of `schedule`, `demo` and `serve`. Unless `keep_running`, it also
    moves what runs where that pays.

    Ignores
    -------
    Streams, the speed of links, and that shuffled traffic will follow the new placement.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks
    """

    params_type = OnlineParams
    cpu_percent_parameter = "capacity"
    moves_running = True
    adapts = ONLINE

    def __init__(self, params: OnlineParams | None = None) -> None:
        self.params = params or OnlineParams()
        self.moves_running = not self.params.keep_running
        self.near_what_runs = self.params.keep_running

    def schedule(self, problem: Problem) -> Assignment:
        """Place every topology, as a whole or not at all."""
        problem = _with_capacity(problem, self.params.capacity / 100)
        traffic = measured_traffic(problem)
        rates = Rates.of(problem, traffic)
        plan = self._plan(problem, rates, keep_running=True)
        if not self.params.keep_running and np.any(problem.current_slot != UNPLACED):
            moved = self._plan(problem, rates, keep_running=False)
            if _is_better(problem, traffic, moved, plan):
                plan = moved
        return answer(problem, "online", self.params, plan)

    def _plan(self, problem: Problem, rates: Rates, *, keep_running: bool) -> Plan:
        return plan_with_last_resort(problem, lambda usable: self._plan_on(problem, rates, keep_running, usable))

    def _plan_on(self, problem: Problem, rates: Rates, keep_running: bool, usable: BoolArray) -> Plan:
        draft = Draft.empty(problem, usable)
        for wanted in admit(draft, find_wanted(draft, keep_running)):
            for executors in self._workers(draft, rates, wanted):
                draft.add_worker(wanted.topology, executors)
        self._choose_nodes(draft, rates)
        if not keep_running:
            restore_cheaper(draft, rates, _WEIGHTS)
            swap_nodes(draft)
        return Plan(choose_slots(draft), draft.reasons)

    # Phase 1 -------------------------------------------------------------------------------------

    def _workers(self, draft: Draft, rates: Rates, wanted: Wanted) -> Iterator[IndexArray]:
        """Phase 1: executors of one topology → exactly as many workers as wanted, each given by its executors."""
        problem, members, count = draft.problem, wanted.executors, wanted.workers
        pairs = rates.within(wanted.topology, members)
        cpu_hz, memory_mb = problem.executor_cpu_hz[members], problem.executor_memory_mb[members]
        items = Items(cpu_hz, memory_mb, pairs.exchange(), np.zeros(len(members), np.int64))
        hard_limit = max_executors_per_worker(problem.topologies[wanted.topology])
        most_hz, most_mb = draft.largest[:2].tolist()

        def workers(executors: int, load_hz: float, memory_mb: float) -> Bins:
            every = np.ones(count)
            return Bins(executors * every, load_hz * every, memory_mb * every, np.zeros(count, np.int64))

        load_hz = min(self.params.gamma * float(cpu_hz.sum()) / count, most_hz)
        most = min(most_executors(len(members), count, self.params.alpha), hard_limit)
        greedy = Greedy(items, workers(most, load_hz, most_mb))
        greedy.place_pairs(pairs)
        if len(greedy.place_rest()):
            greedy.relax(workers(hard_limit, math.inf, math.inf))
            greedy.place_rest()
        greedy.fill_empty()  # equation 2: exactly min(E, W) workers
        for number in range(count):
            yield members[greedy.bin_of == number]

    # Phase 2 -------------------------------------------------------------------------------------

    def _choose_nodes(self, draft: Draft, rates: Rates) -> None:
        """Phase 2: workers of all topologies → nodes."""
        problem = draft.problem
        pairs = rates.between(draft.worker, len(draft.node))
        cpu_hz, memory_mb = draft.worker_use()[:2]
        items = Items(cpu_hz, memory_mb, pairs.exchange(), np.array(draft.topology, np.int64))
        ports = np.where(draft.usable, [len(node.ports) for node in problem.supervisors], 0.0)
        nodes = Bins(ports, problem.node_cpu_hz, problem.node_memory_mb, problem.node_rack)  # equation 1: B_k
        best = self._packed(draft, items, nodes, pairs, near=False)
        if len(np.unique(nodes.zone)) > 1:
            near = self._packed(draft, items, nodes, pairs, near=True)
            # Of the same traffic the sum is another in another order of topologies, in its last digits.
            best = near if _rank(near) < _rank(best, 1 - RELATIVE_TOLERANCE) else best
        draft.node = best.bin_of.tolist()
        # The greedy rule knows neither limits on components nor resources other than CPU and memory.
        if NOWHERE in draft.node or problem.component_limits or len(problem.resources) > 2:
            make_room(draft)

    def _packed(self, draft: Draft, items: Items, nodes: Bins, pairs: Pairs, near: bool) -> Greedy:
        wish = replace(nodes, items=self._most_slots(nodes.items, len(draft.node)))
        zone_weight = _WEIGHTS.inter_rack / _WEIGHTS.inter_node - 1
        greedy = Greedy(items, wish, zone_weight, self._most_nodes(draft, nodes.items))
        for worker, node in enumerate(draft.node):
            if draft.fixed[worker]:
                greedy.fix(worker, node)
        for _ in range(_MAX_PASSES):
            changed = greedy.place_pairs(pairs, near=near)
            greedy.place_rest()
            if not changed:
                break
        greedy.relax(nodes)
        greedy.place_rest()
        return greedy

    def _most_slots(self, ports: FloatArray, workers: int) -> FloatArray:
        """Slots to use on each node: from the level at which equally many on every node suffice, up to all."""
        highest = int(np.max(ports, initial=0))
        level = next((m for m in range(highest) if np.minimum(ports, m).sum() >= workers), highest)
        most = level + math.ceil(self.params.delta * (highest - level))
        return np.minimum(ports, most)

    def _most_nodes(self, draft: Draft, ports: FloatArray) -> dict[int, int]:
        """Nodes that each topology may use: from as few as have its slots, up to one a worker."""
        if self.params.beta == 1:
            return {}
        reach = np.cumsum(np.sort(ports)[::-1])
        most: dict[int, int] = {}
        for topology, workers in Counter(draft.topology).items():
            fewest = int(np.searchsorted(reach, workers)) + 1
            widest = max(fewest, min(int(np.count_nonzero(ports)), workers))
            most[topology] = fewest + math.ceil(self.params.beta * (widest - fewest))
        return most


def _rank(packed: Greedy, part: float = 1.0) -> tuple[int, float]:
    """Equation 3, after what is placed at all: `cost`, or a part of it, is the traffic between nodes."""
    return int(np.count_nonzero(packed.bin_of == NOWHERE)), part * packed.cost()


def _with_capacity(problem: Problem, part: float) -> Problem:
    """The same problem with that part of each node's CPU."""
    if part == 1:
        return problem
    nodes = tuple(replace(node, cpu_hz=node.cpu_hz * part) for node in problem.supervisors)
    return replace(problem, supervisors=nodes)


def _is_better(problem: Problem, traffic: Traffic, moved: Plan, stay: Plan) -> bool:
    """Whether moving pays: more executors placed, else fewer limits broken, else less cost; all that runs runs on."""
    stopped = (moved.slots == UNPLACED) & (problem.current_slot != UNPLACED)
    if stopped.any():
        return False

    def rank(plan: Plan) -> tuple[int, int, float]:
        unplaced = int(np.count_nonzero(plan.slots == UNPLACED))
        return unplaced, len(violations(problem, plan.slots)), cost_under(problem, plan.slots, traffic, _WEIGHTS).total

    unplaced, broken, cost = rank(stay)
    return rank(moved) < (unplaced, broken, cost * (1 - RELATIVE_TOLERANCE))
