"""Records for a search, from a problem, its measured load and a placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.optimize.kernel.records import Records
from stormwright.optimize.layout.ruling import make_rules, settle
from stormwright.optimize.throughput.parts import Parts
from stormwright.optimize.throughput.records import (
    BROKEN_MB,
    CHANGE,
    COST,
    EXECUTOR,
    NODE,
    PLACE,
    PORT_MB,
    RACK,
    SCORING,
    TOPOLOGY,
    WORKER,
    PlacementState,
)
from stormwright.predict.costs import Correction, Costs
from stormwright.predict.fixed_point import fixed_costs
from stormwright.predict.flow.mix import Mix
from stormwright.predict.flow.profile import Factors, Profile
from stormwright.predict.workers import nodes_of

#: A node without CPU or ports takes nothing.
_NO_CORES = 1e-9


@dataclass(frozen=True, eq=False)
class MeasuredLoad:
    """The measured load, and costs of messages."""

    profile: Profile
    costs: Costs = field(default_factory=Costs)
    corrections: Mapping[str, Correction] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem) -> Self:
        """Return the load of a problem, with its costs and the placement that runs as measured."""
        profile = Profile.of(problem)
        return cls(profile, *fixed_costs(profile))


@dataclass(frozen=True, eq=False)
class Seats:
    """Positions of executors, and the movable ones.

    Parameters
    ----------
    worker
        Worker of every executor, -1 for none, shape (E,).
    topology, node
        Topology and node of every worker, by topology, shape (W,). An empty one may have any node.
    most
        Executors that a worker of each topology may hold, shape (T,).
    movable, may_be_empty
        Whether its executors may move, and whether it may have fewer workers; shape (T,).
    ports
        Number of ports of every usable node, 0 for others, shape (N,).
    """

    worker: IndexArray
    topology: IndexArray
    node: IndexArray
    most: IndexArray
    movable: BoolArray
    may_be_empty: BoolArray
    ports: IndexArray


@dataclass(frozen=True)
class Aim:
    """Objective of a search: its kind of score, trees/s of every topology (T,), and the limit of utilisation."""

    kind: int
    rate_tps: FloatArray
    limit: float = 1.0


def make_placement_state(
    problem: Problem, load: MeasuredLoad, seats: Seats, aim: Aim, seed: int = 0, parts: Parts | None = None
) -> PlacementState:
    """Return the records of a placement; `stormwright.optimize.throughput.score.add_up` makes their sums.

    Parameters
    ----------
    problem
        The problem with the nodes; executors are those of the load's problem.
    load
        Measured load, with costs and corrections.
    seats
        Worker of each executor, node of each worker, and the movable topologies.
    aim
        Objective of the score.
    seed
        Seed of the random numbers.
    parts
        Parts of the load, if known.
    """
    count, layout = problem.num_executors, load.profile.layout
    mix = load.profile.mix(load.corrections)
    parts = (parts or Parts.of(load.profile)).mixed(load.profile, mix)
    placed = np.bincount(problem.executor_topology, seats.worker == UNPLACED, len(seats.most)) == 0
    topologies = _topologies(problem, load, seats, aim, placed)
    topologies["rounds"] = parts.rounds
    first = np.searchsorted(layout.topology[parts.order], np.arange(len(topologies) + 1))
    topologies["first_component"] = np.where(placed, first[:-1], 0)
    topologies["last_component"] = np.where(placed, first[1:], 0)
    scoring = np.zeros(1, SCORING)
    scoring["limit"], scoring["scale"], scoring["kind"] = aim.limit, 1.0, aim.kind
    nodes = _nodes(problem, seats, load.profile.idle_hz())
    lack_mb = np.maximum(-nodes["memory_left"], 0.0)
    rules = make_rules(problem, np.searchsorted(seats.topology, np.arange(len(topologies))), seats.topology)
    own = problem.executor_topology.astype(np.int64)
    broken = settle(rules, own, seats.worker.astype(np.int64), seats.node.astype(np.int64))
    scoring["short"] = BROKEN_MB * broken + np.sum(lack_mb + PORT_MB * np.maximum(nodes["used"] - nodes["ports"], 0))
    movable = (placed & (topologies["rate"] > 0) & seats.movable)[problem.executor_topology]
    return PlacementState(
        executors=_executors(problem, load, seats, mix),
        components=parts.components,
        flows=parts.flows,
        pairs=parts.pairs,
        deals=parts.deals,
        senders=parts.senders,
        receivers=parts.receivers,
        topologies=topologies,
        workers=_workers(seats),
        nodes=nodes,
        racks=np.zeros(max(int(problem.node_rack.max(initial=0)) + 1, 1), RACK),
        members=layout.members.astype(np.int64),
        places=np.zeros(count, PLACE),
        tried=np.zeros(count, PLACE),
        filled=np.zeros(count, np.int64),
        touched=np.zeros(len(problem.supervisors), np.int64),
        changes=np.zeros(2 * count + len(seats.topology) + 4, CHANGE),
        free=np.flatnonzero(movable).astype(np.int64),
        cost=_cost(load.costs),
        scoring=scoring,
        random=np.array([seed], np.uint64),
        rules=rules,
    )


def _executors(problem: Problem, load: MeasuredLoad, seats: Seats, mix: Mix | None) -> Records:
    profile = load.profile
    executors = np.zeros(problem.num_executors, EXECUTOR)
    executors["work_s"] = profile.work_cycles(load.costs, load.corrections) / problem.core_hz
    if mix is not None:
        executors["work_s"] /= mix.measured
    executors["begins"] = profile.begins
    executors["memory_mb"] = problem.executor_demand[1]
    executors["topology"], executors["worker"] = problem.executor_topology, seats.worker
    return executors


def _topologies(problem: Problem, load: MeasuredLoad, seats: Seats, aim: Aim, placed: BoolArray) -> Records:
    topologies = np.zeros(len(problem.topologies), TOPOLOGY)
    begin = np.searchsorted(problem.executor_topology, np.arange(len(topologies) + 1))
    worker = np.searchsorted(seats.topology, np.arange(len(topologies) + 1))
    topologies["first"], topologies["last"] = begin[:-1], np.where(placed, begin[1:], begin[:-1])
    topologies["first_worker"], topologies["last_worker"] = worker[:-1], np.where(placed, worker[1:], worker[:-1])
    topologies["rate"] = np.where(load.profile.rate_tps > 0, aim.rate_tps, 0.0)
    factors = Factors.of(problem, load.corrections)
    topologies["dearer"] = factors.messages * factors.scale
    topologies["most"] = seats.most
    topologies["movable"], topologies["may_be_empty"] = seats.movable, seats.may_be_empty
    return topologies


def _workers(seats: Seats) -> Records:
    workers = np.zeros(len(seats.topology), WORKER)
    workers["topology"], workers["node"] = seats.topology, seats.node
    workers["size"] = np.bincount(seats.worker[seats.worker != UNPLACED], minlength=len(workers))
    return workers


def _nodes(problem: Problem, seats: Seats, idle_hz: FloatArray) -> Records:
    state = nodes_of(problem)
    nodes = np.zeros(len(problem.supervisors), NODE)
    nodes["cores"] = np.maximum(state.cores, _NO_CORES)
    nodes["speed"] = state.core_hz / problem.core_hz
    nodes["link_s"] = 1.0 / state.link_bytes_per_s
    nodes["rack"], nodes["ports"] = problem.node_rack, seats.ports
    on = np.append(seats.node, UNPLACED)[seats.worker]
    here = on != UNPLACED
    placed = np.bincount(problem.executor_topology, ~here, len(problem.topologies)) == 0
    burns = here & placed[problem.executor_topology]
    idle = np.bincount(on[burns], idle_hz[burns] / state.core_hz[on[burns]], len(nodes))
    nodes["base"] = state.overhead_cores + idle
    taken = np.bincount(on[here], problem.executor_demand[1][here], len(nodes))
    nodes["memory_left"] = problem.node_capacity[1] - taken
    in_use = np.unique(seats.worker[here])
    nodes["used"] = np.bincount(seats.node[in_use], minlength=len(nodes))
    return nodes


def _cost(costs: Costs) -> Records:
    cost = np.zeros(1, COST)
    for end in ("serialise", "send", "receive"):
        cost[f"{end}_s"] = getattr(costs, f"{end}_us") * 1e-6
        cost[f"{end}_byte_s"] = getattr(costs, f"{end}_us_per_kb") * 1e-9
    cost["overhead"], cost["worker_cores"] = costs.overhead_bytes, costs.worker_cores
    cost["polling_cores"] = costs.polling_cores
    cost["hop_s"] = costs.remote_hop_us * 1e-6
    return cost
