"""Online scheduler of Aniello, Baldoni, Querzoni: traffic decides which executors share a worker, then a node."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Final, NamedTuple

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
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.model.topology_config import ALPHA, BETA, DELTA, GAMMA, MAX_GAMMA
from stormwright.optimize.construction.greedy import Bins, Greedy, Items, Pairs
from stormwright.optimize.kernel.records import NOWHERE
from stormwright.schedulers.placement.admission import RequiredWorkers, admit, find_wanted_workers
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.repair import make_room
from stormwright.schedulers.placement.staying import choose_slots, restore_cheaper, swap_nodes
from stormwright.schedulers.templates.waiting import CompletePlan, answer, plan_with_last_resort
from stormwright.schedulers.toolkit.configured_values import topology_values
from stormwright.schedulers.toolkit.limits import max_executors_per_worker, most_executors
from stormwright.schedulers.toolkit.params import ParameterSet, param
from stormwright.schedulers.toolkit.traffic import Rates
from stormwright.schedulers.toolkit.triggers import ONLINE, TriggerParams

#: Maximum passes over all pairs of workers; few problems still change after the fourth.
_MAX_PASSES = 10

#: How often a topology that does not fit on few nodes is allowed some more.
_MAX_RAISES = 12

_WEIGHTS = CostWeights()

#: Name of the scheduler.
NAME: Final = "online"

#: Values of `meaning`.
OWN: Final = "own"
AUTHORS: Final = "authors"


@dataclass(frozen=True)
class NodeTargets:
    """Targets for the nodes of topologies, by index; a missing topology is unrestricted.

    Parameters
    ----------
    most_nodes, least_nodes
        Maximum and minimum number of nodes.
    widest
        Number of nodes beyond which more are useless, as there are no more nodes or workers.
    on_node
        Maximum number of workers on one node.
    """

    most_nodes: dict[int, int] = field(default_factory=dict)
    least_nodes: dict[int, int] = field(default_factory=dict)
    widest: dict[int, int] = field(default_factory=dict)
    on_node: dict[int, int] = field(default_factory=dict)


def default_wishes(workers: Items, nodes: Bins, beta: Sequence[float], delta: Sequence[float]) -> NodeTargets:
    """Return targets in which `beta` bounds the nodes of a topology from above; 1 is no bound, nor is a delta of 1.

    Parameters
    ----------
    workers
        Workers of all topologies, grouped by topology index.
    nodes
        Nodes; those that may take none have no free places.
    beta
        Beta of every topology. 0: the fewest nodes with enough slots, CPU and memory; 1: as many as reduce the cost.
    delta
        Delta of every topology. 0: equally many slots on each node; 1: as many as nodes have.
    """
    wishes = NodeTargets()
    highest = int(np.max(nodes.items, initial=0))
    for topology, count in Counter(workers.group.tolist()).items():
        if delta[topology] < 1:
            level = next((m for m in range(highest) if np.minimum(nodes.items, m).sum() >= count), highest)
            wishes.on_node[topology] = level + math.ceil(delta[topology] * (highest - level))
        if beta[topology] < 1:
            slots = np.minimum(nodes.items, wishes.on_node.get(topology, highest))
            widest = max(1, min(int(np.count_nonzero(slots)), count))
            fewest = min(_fewest(workers, nodes, slots, topology), widest)
            wishes.widest[topology] = widest
            wishes.most_nodes[topology] = fewest + math.ceil(beta[topology] * (widest - fewest))
    return wishes


def authors_wishes(workers: Items, nodes: Bins, beta: Sequence[float], delta: Sequence[float]) -> NodeTargets:
    """Return targets by the authors' formulas: beta bounds a topology's nodes from below, delta its workers per node.

    With W workers and n = min(N, W) nodes, at least ⌈W/n⌉ + ⌈beta (n - ⌈W/n⌉)⌉ nodes, u, are used, and on a node at
    most ⌈W/u⌉ + ⌈delta (W - u + 1 - ⌈W/u⌉)⌉ workers are. ⌈W/n⌉ is a number of slots of a node that the authors' formula
    uses as a number of nodes; if it exceeds the number of nodes, all are used.

    Parameters
    ----------
    workers, nodes, beta, delta
        Workers by topology, nodes with their places, and both parameters of every topology.
    """
    wishes = NodeTargets()
    num_nodes = int(np.count_nonzero(nodes.items))
    for topology, count in Counter(workers.group.tolist()).items():
        most = max(1, min(num_nodes, count))
        least = math.ceil(count / most)
        used = max(1, min(least + math.ceil(beta[topology] * (most - least)), most))
        fewest = math.ceil(count / used)
        wishes.least_nodes[topology] = used
        wishes.on_node[topology] = fewest + math.ceil(delta[topology] * (count - used + 1 - fewest))
    return wishes


def _fewest(workers: Items, nodes: Bins, slots: FloatArray, topology: int) -> int:
    """Return a lower bound of the nodes with enough slots, CPU and memory for a topology."""
    own, usable = workers.group == topology, slots > 0
    needs = (
        (slots, float(np.count_nonzero(own))),
        (nodes.cpu_hz, float(workers.cpu_hz[own].sum())),
        (nodes.memory_mb, float(workers.memory_mb[own].sum())),
    )
    return max(_nodes_for(has[usable], needed) for has, needed in needs)


def _nodes_for(has: FloatArray, needed: float) -> int:
    reach = np.cumsum(np.sort(has)[::-1]) * (1 + RELATIVE_TOLERANCE)
    return int(np.searchsorted(reach, needed)) + 1


#: Given workers, nodes, beta and delta: the targets.
MakeWishes = Callable[[Items, Bins], NodeTargets]


# Phase 2 of the online scheduler: workers of all topologies onto nodes, those with much mutual traffic onto one.
def nodes_by_traffic(placement: PartialPlacement, rates: Rates, weights: CostWeights, make_wishes: MakeWishes) -> None:
    """Put the workers of a partial placement onto nodes by `Greedy.place_pairs`, as far as they fit.

    With several racks the least loaded nodes of the present racks are tried, too, and the cheaper result is used. If
    targets bound the nodes of topologies from above, a topology that does not fit is allowed some more, and if all
    together use more nodes than without any bound, the unbounded result is used if it is cheaper.

    Parameters
    ----------
    placement
        Partial placement; its `node` is written, fixed workers stay.
    rates
        Directed traffic between executors, in tuples/s, heaviest pairs first.
    weights
        Cost of a tuple by distance.
    make_wishes
        Returns the targets of topologies. All of them are given up for workers that do not fit otherwise.
    """
    problem = placement.problem
    pairs = rates.between(placement.worker, len(placement.node))
    cpu_hz, memory_mb = placement.worker_use()[:2]
    workers = Items(cpu_hz, memory_mb, pairs.exchange(), np.array(placement.topology, np.int64))
    ports = np.where(placement.usable, [len(node.ports) for node in problem.supervisors], 0.0)
    nodes = Bins(ports, problem.node_cpu_hz, problem.node_memory_mb, problem.node_rack)  # equation 1: B_k
    zone_weight = weights.inter_rack / weights.inter_node - 1
    packing = _Packing(placement, workers, nodes, pairs, make_wishes(workers, nodes), zone_weight)
    placement.node = packing.best().bin_of.tolist()


@dataclass(frozen=True)
class _Packing:
    """Workers to put onto nodes."""

    placement: PartialPlacement
    workers: Items
    nodes: Bins
    pairs: Pairs
    wishes: NodeTargets
    zone_weight: float

    def best(self) -> Greedy:
        """Return the better of the results with bounds on nodes, if there are any, and without."""
        free = self._cheapest({})
        if not self.wishes.most_nodes:
            return free
        bounded = self._cheapest(self.wishes.most_nodes)
        if _left_out(bounded) >= max(_left_out(free), 1):
            # The repair by small steps ignores the bounds.
            return free
        return bounded if self._rank(bounded) < self._rank(free, 1 - RELATIVE_TOLERANCE) else free

    def _cheapest(self, bound: Mapping[int, int]) -> Greedy:
        best = self._packed(bound, near=False)
        if len(np.unique(self.nodes.zone)) > 1:
            near = self._packed(bound, near=True)
            # The sum of the same traffic depends on the order of topologies in its last digits.
            best = near if self._rank(near) < self._rank(best, 1 - RELATIVE_TOLERANCE) else best
        return best

    def _packed(self, bound: Mapping[int, int], near: bool) -> Greedy:
        """Return every worker on a node, if the rule finds one; without targets the rest has none."""
        most = dict(bound)
        for _ in range(_MAX_RAISES):
            greedy = self._by_pairs(most, near)
            short = [t for t in self._waiting(greedy) if t in most and most[t] < self.wishes.widest[t]]
            if not short:
                break
            for topology in short:
                most[topology] = min(most[topology] + max(1, most[topology] // 4), self.wishes.widest[topology])
        for topology, least in self.wishes.least_nodes.items():
            self._spread_out(greedy, topology, least)
        greedy.relax(self.nodes)
        greedy.place_rest()
        return greedy

    def _by_pairs(self, most_nodes: Mapping[int, int], near: bool) -> Greedy:
        greedy = Greedy(self.workers, self.nodes, self.zone_weight, most_nodes, self.wishes.on_node)
        for worker, node in enumerate(self.placement.node):
            if self.placement.fixed[worker]:
                greedy.fix(worker, node)
        for _ in range(_MAX_PASSES):
            changed = greedy.place_pairs(self.pairs, near=near)
            greedy.place_rest()
            if not changed:
                break
        return greedy

    def _waiting(self, greedy: Greedy) -> list[int]:
        """Return the topologies with a worker without a node."""
        waiting: list[int] = np.unique(self.workers.group[greedy.bin_of == NOWHERE]).tolist()
        return waiting

    def _rank(self, packed: Greedy, part: float = 1.0) -> tuple[int, int, int, float]:
        """Return equation 3 with `part` of the cost, after unplaced workers and the nodes if these are bounded."""
        excess = nodes = 0
        for topology, most in self.wishes.most_nodes.items():
            used = len(_used(self.workers, packed, topology))
            nodes, excess = nodes + used, excess + max(used - most, 0)
        return _left_out(packed), nodes, excess, part * packed.cost()

    def _spread_out(self, greedy: Greedy, topology: int, least: int) -> None:
        """Move workers of a topology, cheapest first, to nodes without it, until it is on at least `least`.

        Each goes to the least loaded node on which it fits; ties to the lower worker, and the lower node.
        """
        own = np.flatnonzero(self.workers.group == topology)
        while len(used := _used(self.workers, greedy, topology)) < least:
            nodes = greedy.bin_of[own]
            unused = np.ones(len(self.nodes.items), bool)
            unused[used] = False
            best = (np.inf, NOWHERE, NOWHERE)
            for worker, node in zip(own.tolist(), nodes.tolist(), strict=True):
                free = unused & greedy.takes(worker)
                if (
                    self.placement.fixed[worker]
                    or np.count_nonzero(nodes == node) < 2
                    or node == NOWHERE
                    or not free.any()
                ):
                    continue
                to = int(np.argmin(np.where(free, greedy.cpu_hz, np.inf)))
                costs = self._cost_at(greedy, worker, to) - self._cost_at(greedy, worker, node)
                best = min(best, (costs, worker, to))
            if best[1] == NOWHERE:
                return
            greedy.put(*best[1:])

    def _cost_at(self, greedy: Greedy, worker: int, node: int) -> float:
        """Return the cost of a worker's traffic on a node, with all others in place."""
        row = slice(*self.workers.exchange.indptr[worker : worker + 2])
        at = greedy.bin_of[self.workers.exchange.indices[row]]
        far = self.nodes.zone[at] != self.nodes.zone[node]
        cost: FloatArray = np.where(at == node, 0.0, 1.0 + self.zone_weight * far)
        return float(np.sum(np.where(at == NOWHERE, 0.0, cost) * self.workers.exchange.data[row]))


def _left_out(packed: Greedy) -> int:
    """Return the number of workers without a node."""
    return int(np.count_nonzero(packed.bin_of == NOWHERE))


def _used(workers: Items, packed: Greedy, topology: int) -> list[int]:
    """Return the nodes of a topology."""
    nodes = packed.bin_of[(workers.group == topology) & (packed.bin_of != NOWHERE)]
    used: list[int] = np.unique(nodes).tolist()
    return used


@dataclass(frozen=True, kw_only=True)
class OnlineParams(TriggerParams):
    """Parameters of the scheduler, and of its triggers."""

    alpha: float = param(1.0, "0: equally many executors per worker; 1: as many as `gamma` allows", low=0, high=1)
    beta: float = param(
        1.0, "0: a topology gets the fewest possible nodes; 1: as many as reduce the cost", low=0, high=1
    )
    gamma: float = param(3.0, "CPU load that a worker may have, in parts of its topology's mean", low=1, high=MAX_GAMMA)
    delta: float = param(
        1.0, "0: a topology uses equally many slots of each node; 1: as many as there are", low=0, high=1
    )
    meaning: str = param(
        OWN,
        "of beta and delta; authors: as in the code of the paper's authors",
        choices=(OWN, AUTHORS),
    )
    capacity: float = param(
        100.0, "percent of a node's CPU that executors may use, and at which it is overloaded", low=1, high=100
    )
    keep_running: bool = param(False, "true: only place executors without a slot; running ones stay")


class OnlineScheduler:
    """Puts executors with much mutual traffic into one worker, then such workers onto one node.

    L. Aniello, R. Baldoni, L. Querzoni, "Adaptive online scheduling in Storm", DEBS 2013,
    https://doi.org/10.1145/2488222.2488267. The paper states the problem in §3.2.2, equations 1 to 3; the rule of both
    phases, which its text leaves to the authors' code, is `Greedy.place_pairs`. Traffic is taken as measured, that is,
    assumed not to change with the placement.

    ``stormwright.alpha``, ``stormwright.beta``, ``stormwright.delta`` (numbers from 0 to 1) and ``stormwright.gamma``
    (at least 1) in a topology's configuration override the parameters here: in the paper they are part of the topology
    (``alfa``, ``beta``, ``gamma``, ``delta``, strings, in the authors' code). A node's capacity is its
    ``supervisor.cpu.capacity``, of which `capacity` is a fraction; a node's own X is ``stormwright.overload_s`` in its
    `supervisor.scheduler.meta`. X, P, R and T are for a service, where ``--set`` and the options ``--overload``,
    ``--period``, ``--gain`` and ``--cool-down`` set them; a single placement does not use them.

    Differences from the paper and the authors' code:

    1. Traffic between racks counts twice, as in the cost of a placement. With one rack nothing changes.
    2. Phase 2 repeats the pass over pairs of workers while that lowers the cost, and with several racks also tries the
       least loaded node of the present racks; the cheaper result is used.
    3. If the greedy rule leaves a worker without a node, `make_room` searches for a place in few small steps, and may
       miss one. Reasons then refer to the workers of phase 1; other workers might fit.
    4. Memory is a hard limit, as is the topology's own limit on executors in a worker; generic resources and limits on
       components are satisfied by `make_room` afterwards. `alpha`, `beta`, `gamma` and `delta` are soft, given up for
       executors that do not fit otherwise.
    5. Running executors move only if the whole placement then costs less, or becomes valid; of a topology that lost
       workers only these are placed. Without a gain no worker changes its slot.
    6. All executors of a topology are placed, including those without traffic, or none.
    7. `beta` bounds the nodes of a topology from above, from the fewest with enough slots, CPU and memory up to as many
       as reduce the cost. All topologies together never use more than with 1; one of them may, if others use fewer. In
       the authors' code it bounds them from below: with W workers and n = min(N, W) nodes, the workers that are
       cheapest to move go to unused nodes until u = ⌈W/n⌉ + ⌈beta (n - ⌈W/n⌉)⌉ are used.
    8. `delta` bounds a topology's workers on a node by the slots of nodes, from the fewest that suffice if each node
       provides as many. In the authors' code the bound depends on W alone: ⌈W/u⌉ + ⌈delta (W - u + 1 - ⌈W/u⌉)⌉.
    9. The authors' code takes alpha 0, beta 1, delta 0 and no limit on load (a gamma that it then refuses, so that it
       has to be set) by default. `meaning` ``authors`` selects 7 and 8 as in their code, `variant` ``authors`` these
       defaults, too.
    10. In the authors' code a node's load is never updated while workers are added, so that any number fits of which
        each one does; workers without traffic, and executors, are left to Storm's EvenScheduler; all slots of the
        cluster are freed at each change; and a node is overloaded as soon as it exceeds its capacity, whereas here, as
        in the paper, it has to do so for X seconds.

    CPU is compared in Hz, with the speed of each node's cores if known: a service learns it from the workers.

    Deterministic. Ties go to the running placement, then to the lower index of executor, worker, node or topology. So
    names have no influence; the order of supervisors and topologies in the problem breaks ties.

    When to use
    -----------
    A running topology with measurements. Unless `keep_running`, running executors also move if that pays off.

    Ignores
    -------
    Streams, the speed of links, and that shuffled traffic follows the new placement.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks

    Raises
    ------
    InputError
        On scheduling: a parameter in a topology's configuration is out of range; all faults at once.
    """

    params_type = OnlineParams
    variants: ClassVar[Mapping[str, ParameterSet]] = {
        "authors": ParameterSet(
            "meaning and defaults of the authors' code, whose gamma has no limit; what the paper's own evaluation (§4) "
            "used is not known, nor are its X, P, R and T, which are ours",
            {"meaning": AUTHORS, "alpha": 0.0, "beta": 1.0, "gamma": MAX_GAMMA, "delta": 0.0},
        )
    }
    cpu_percent_parameter = "capacity"
    moves_running = True
    adapts = ONLINE

    def __init__(self, params: OnlineParams | None = None) -> None:
        self.params = params or OnlineParams()
        self.moves_running = not self.params.keep_running
        self.stays_near = self.params.keep_running

    def schedule(self, problem: Problem) -> Assignment:
        """Place every topology, as a whole or not at all."""
        problem = _with_capacity(problem, self.params.capacity / 100)
        traffic = measured_traffic(problem)
        rates, params = Rates.of(problem, traffic), _TopologyParams.of(problem, self.params)
        plan = self._plan(problem, rates, params, keep_running=True)
        if not self.params.keep_running and np.any(problem.current_slot != UNPLACED):
            moved = self._plan(problem, rates, params, keep_running=False)
            if _is_better(problem, traffic, moved, plan):
                plan = moved
        return answer(problem, NAME, self.params, plan)

    def _plan(self, problem: Problem, rates: Rates, params: _TopologyParams, *, keep_running: bool) -> CompletePlan:
        return plan_with_last_resort(
            problem, lambda usable: self._plan_on(problem, rates, params, keep_running, usable)
        )

    def _plan_on(
        self, problem: Problem, rates: Rates, params: _TopologyParams, keep_running: bool, usable: BoolArray
    ) -> CompletePlan:
        placement = PartialPlacement.empty(problem, usable)
        for wanted in admit(placement, find_wanted_workers(placement, keep_running)):
            for executors in self._workers(placement, rates, params, wanted):
                placement.add_worker(wanted.topology, executors)
        self._choose_nodes(placement, rates, params)
        if not keep_running:
            restore_cheaper(placement, rates, _WEIGHTS)
            swap_nodes(placement)
        return CompletePlan(choose_slots(placement), placement.reasons)

    def _workers(
        self, placement: PartialPlacement, rates: Rates, params: _TopologyParams, wanted: RequiredWorkers
    ) -> Iterator[IndexArray]:
        """Yield the executors of each worker of a topology; phase 1."""
        problem, members, count = placement.problem, wanted.executors, wanted.workers
        pairs = rates.within(wanted.topology, members)
        cpu_hz, memory_mb = problem.executor_cpu_hz[members], problem.executor_demand[1][members]
        items = Items(cpu_hz, memory_mb, pairs.exchange(), np.zeros(len(members), np.int64))
        hard_limit = max_executors_per_worker(problem.topologies[wanted.topology])
        most_hz, most_mb = placement.largest[:2].tolist()
        if not problem.executor_demand[0][members].any():  # assumed only, to balance workers
            most_hz = np.inf

        def workers(executors: int, load_hz: float, memory_mb: float) -> Bins:
            every = np.ones(count)
            return Bins(executors * every, load_hz * every, memory_mb * every, np.zeros(count, np.int64))

        load_hz = min(params.gamma[wanted.topology] * float(cpu_hz.sum()) / count, most_hz)
        most = min(most_executors(len(members), count, params.alpha[wanted.topology]), hard_limit)
        greedy = Greedy(items, workers(most, load_hz, most_mb))
        greedy.place_pairs(pairs)
        if len(greedy.place_rest()):
            greedy.relax(workers(hard_limit, math.inf, math.inf))
            greedy.place_rest()
        greedy.fill_empty()  # equation 2: exactly min(E, W) workers
        for number in range(count):
            yield members[greedy.bin_of == number]

    def _choose_nodes(self, placement: PartialPlacement, rates: Rates, params: _TopologyParams) -> None:
        """Assign the workers of all topologies to nodes; phase 2."""
        wishes = authors_wishes if self.params.meaning == AUTHORS else default_wishes
        nodes_by_traffic(placement, rates, _WEIGHTS, partial(wishes, beta=params.beta, delta=params.delta))
        # The greedy rule ignores limits on components and resources other than CPU and memory.
        if NOWHERE in placement.node or placement.problem.component_limits or len(placement.problem.resources) > 2:
            make_room(placement)


class _TopologyParams(NamedTuple):
    """Parameters of every topology, by index."""

    alpha: list[float]
    beta: list[float]
    gamma: list[float]
    delta: list[float]

    @classmethod
    def of(cls, problem: Problem, params: OnlineParams) -> _TopologyParams:
        """Return the parameters in the topologies' configuration, with those of the scheduler as defaults.

        Raises
        ------
        InputError
            Values out of range; all faults at once.
        """
        keys = {ALPHA: params.alpha, BETA: params.beta, GAMMA: params.gamma, DELTA: params.delta}
        return cls(*(topology_values(problem, key, otherwise) for key, otherwise in keys.items()))


def _with_capacity(problem: Problem, part: float) -> Problem:
    """Return the problem with this fraction of each node's CPU."""
    if part == 1:
        return problem
    nodes = tuple(replace(node, cpu_hz=node.cpu_hz * part) for node in problem.supervisors)
    return replace(problem, supervisors=nodes)


def _is_better(problem: Problem, traffic: Traffic, moved: CompletePlan, stay: CompletePlan) -> bool:
    """Return whether moving pays off: more executors placed, else fewer violations, else less cost; nothing stops."""
    stopped = (moved.slots == UNPLACED) & (problem.current_slot != UNPLACED)
    if stopped.any():
        return False

    def rank(plan: CompletePlan) -> tuple[int, int, float]:
        unplaced = int(np.count_nonzero(plan.slots == UNPLACED))
        return unplaced, len(violations(problem, plan.slots)), cost_under(problem, plan.slots, traffic, _WEIGHTS).total

    unplaced, broken, cost = rank(stay)
    return rank(moved) < (unplaced, broken, cost * (1 - RELATIVE_TOLERANCE))
