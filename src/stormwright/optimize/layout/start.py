"""Conversion of a problem to a layout for a search, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stormwright.jit.compiled import compiled
from stormwright.model import UNPLACED, CostWeights, Problem
from stormwright.model.arrays import BoolArray, IndexArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.optimize.kernel import records as arrays
from stormwright.optimize.kernel.costs import cost_of_topology
from stormwright.optimize.kernel.records import NOWHERE, Layout, Records
from stormwright.optimize.kernel.rules import clear
from stormwright.optimize.kernel.steps import join, start_worker, stop_worker, tabulate
from stormwright.optimize.layout.links import Links
from stormwright.optimize.layout.objective import Prices
from stormwright.optimize.layout.ruling import make_rules

#: Most topologies that are removed at once.
_MAX_RUINED = 3


def scratch(executors: int, workers: int, nodes: int, racks: int) -> dict[str, Any]:
    """Return the scratch arrays of a layout, by their names in it.

    Parameters
    ----------
    executors, workers, nodes, racks
        Sizes of the layout, which determine the lengths of the arrays.
    """
    return {
        "node_scopes": np.zeros(nodes, arrays.SCOPE),
        "rack_scopes": np.zeros(racks, arrays.SCOPE),
        "around": np.zeros(executors),
        "near": np.zeros(executors),
        "close": np.zeros(executors),
        "rack_room": np.zeros(racks),
        "waiting": np.zeros(executors, np.int64),
        "saved_worker": np.zeros(executors, np.int64),
        "saved_node": np.zeros(workers, np.int64),
        "ruined": np.zeros(_MAX_RUINED, np.int64),
    }


#: Topologies with more workers have no tables: these would grow with the square, and walking the links is as fast.
_MAX_TABLED = 256

#: Topologies with more executors are not removed as a whole: one such step would take as long as all others.
_MAX_WHOLE = 400

#: Rounding tolerance of sums of loads; a fraction of that of a valid placement.
_TOLERANCE = RELATIVE_TOLERANCE / 2


@dataclass(frozen=True)
class Workers:
    """Workers, and the executors in them.

    Parameters
    ----------
    of_executor
        Worker of every executor, -1 for none yet, shape (E,).
    topology, node
        Topology of every worker; its node, -1 for none yet; shape (W,).
    runs
        Whether a worker runs now, shape (W,).
    held
        Whether a worker is fixed, shape (W,).
    """

    of_executor: IndexArray
    topology: IndexArray
    node: IndexArray
    runs: BoolArray
    held: BoolArray


def make_layout(
    problem: Problem,
    links: Links,
    workers: Workers,
    usable: BoolArray,
    most_per_worker: IndexArray,
    weights: CostWeights,
    seed: int,
    prices: Prices | None = None,
) -> Layout:
    """Return a layout of `workers`, which must be sorted by topology; executors without a worker wait.

    Parameters
    ----------
    problem
        Demands, nodes and racks, and the current placement, which separates lost executors from those that could keep
        their slot.
    links
        Traffic of executors in both directions, and their flows.
    workers
        The initial placement; it may break limits.
    usable
        Whether workers may go to a node, shape (N,).
    most_per_worker
        Executors that a worker of each topology may have, shape (T,).
    weights
        Cost of a tuple by distance; that within a worker is subtracted from all, as it is paid in any case.
    seed
        Seed of the random numbers, from 0 to 2⁶⁴ - 1.
    prices
        Prices beside the cost of traffic; none by default. Fixed workers can neither move nor restart, so
        if nothing else runs only the prices of nodes count.
    """
    free = ~workers.held & (workers.node != NOWHERE)
    topologies = _topologies(problem, links, workers, most_per_worker, free)
    rules = make_rules(problem, topologies["first_worker"], workers.topology)
    topologies["limited"] = rules.topologies["limited"]
    topologies["whole"] &= (rules.topologies["on"] == NOWHERE) & (rules.topologies["apart"] == NOWHERE)
    tables = _Tables.of(topologies)
    home = np.where(workers.runs & ~workers.held, np.arange(len(free)), NOWHERE)
    executors = _executors(problem, links, tables, np.append(home, NOWHERE)[workers.of_executor])
    rows = _workers(workers, tables, topologies, home, executors)
    nodes, racks = _nodes(problem, usable)
    sinks, flowing = _sinks(links, topologies, problem.num_executors)
    width = int(tables.workers[_sink_topology(links)].sum())
    layout = Layout(
        executors=executors,
        links=_links(links),
        pull=links.pull,
        flowing=flowing,
        flows=links.flows,
        sinks=sinks,
        sent=np.zeros(width),
        members=np.zeros(width, np.int64),
        workers=rows,
        nodes=nodes,
        topologies=topologies,
        workers_on=np.zeros(sum(len(node.ports) for node in problem.supervisors), np.int64),
        racks=racks,
        rack_nodes=np.argsort(problem.node_rack, kind="stable"),
        table=np.zeros(int(tables.sizes.sum())),
        free_executors=np.flatnonzero(np.append(free, False)[workers.of_executor]),
        free_workers=np.flatnonzero(free),
        free_topologies=np.flatnonzero(topologies["whole"]),
        rules=rules,
        totals=np.zeros(1, arrays.TOTALS),
        random=np.array([seed], np.uint64),
        **scratch(len(executors), len(rows), len(nodes), len(racks)),
        reach=np.zeros(_most_reach(topologies)),
        **_weighed(weights, prices or Prices(), nodes, stays=bool(np.any(home != NOWHERE))),
    )
    _settle(layout, workers.of_executor.astype(np.int64), workers.node.astype(np.int64))
    joined = (rows["home_node"] != NOWHERE) & (rows["size"] != rows["home_size"])
    layout.totals["restarted"] = np.count_nonzero(joined)  # lost executors are in them
    return layout


class _Tables(NamedTuple):
    """Start and size of the tables of topologies; their executors and workers, shape (T,)."""

    first: IndexArray
    sizes: IndexArray
    executors: IndexArray
    workers: IndexArray

    @classmethod
    def of(cls, topologies: Records) -> _Tables:
        executors = topologies["last"] - topologies["first"]
        workers = topologies["last_worker"] - topologies["first_worker"]
        sizes = np.where(topologies["tabled"], (executors + 2 * workers) * workers, 0)
        return cls(np.cumsum(sizes) - sizes, sizes, executors, workers)


def _topologies(
    problem: Problem, links: Links, workers: Workers, most_per_worker: IndexArray, free: BoolArray
) -> Records:
    numbers = np.arange(len(problem.topologies))
    topologies = np.zeros(len(numbers), arrays.TOPOLOGY)
    topologies["first"], topologies["last"] = problem.executor_offset[:-1], problem.executor_offset[1:]
    topologies["first_worker"] = np.searchsorted(workers.topology, numbers)
    topologies["last_worker"] = np.searchsorted(workers.topology, numbers, side="right")
    topologies["most"] = most_per_worker
    counts = topologies["last_worker"] - topologies["first_worker"]
    sizes = topologies["last"] - topologies["first"]
    topologies["tabled"] = counts <= _MAX_TABLED
    held = np.bincount(workers.topology[~free], minlength=len(numbers)) > 0
    topologies["whole"] = ~held & (counts > 0) & (sizes <= _MAX_WHOLE)
    sink_topology = _sink_topology(links)
    topologies["first_sink"] = np.searchsorted(sink_topology, numbers)
    topologies["last_sink"] = np.searchsorted(sink_topology, numbers, side="right")
    return topologies


def _most_reach(topologies: Records) -> int:
    """Return the most executors × workers and workers × workers of a topology that may be placed again."""
    sizes = topologies["last"] - topologies["first"]
    workers = topologies["last_worker"] - topologies["first_worker"]
    return int(np.max((sizes + workers) * workers, where=topologies["whole"] & topologies["tabled"], initial=0))


def _executors(problem: Problem, links: Links, tables: _Tables, home: IndexArray) -> Records:
    executors = np.zeros(problem.num_executors, arrays.EXECUTOR)
    executor_topology = problem.executor_topology
    executors["cpu_hz"], executors["memory_mb"] = problem.executor_cpu_hz, problem.executor_demand[1]
    executors["first"], executors["last"] = links.first[:-1], links.first[1:]
    executors["tps"] = links.pull_of_executors()
    executors["topology"], executors["worker"], executors["places"] = executor_topology, NOWHERE, 1
    at = np.arange(len(executors)) - problem.executor_offset[executor_topology]
    executors["row"] = tables.first[executor_topology] + at * tables.workers[executor_topology]
    executors["home"] = np.where(problem.current_slot == UNPLACED, NOWHERE, home)  # lost ones are at home nowhere
    return executors


def _workers(workers: Workers, tables: _Tables, topologies: Records, home: IndexArray, executors: Records) -> Records:
    own, count = workers.topology, len(workers.topology)
    rows = np.zeros(count, arrays.WORKER)
    at = np.arange(count) - topologies["first_worker"][own]
    rows["row"] = tables.first[own] + (tables.executors[own] + at) * tables.workers[own]
    rows["node"] = rows["rack"] = rows["any"] = NOWHERE
    rows["topology"], rows["most"], rows["movable"] = own, topologies["most"][own], ~workers.held
    rows["home_node"] = np.where(home == NOWHERE, NOWHERE, workers.node)
    rows["home_size"] = np.bincount(executors["home"][executors["home"] != NOWHERE], minlength=count)
    return rows


def _nodes(problem: Problem, usable: BoolArray) -> tuple[Records, Records]:
    """Return the nodes, and the range of those of each rack."""
    nodes = np.zeros(len(problem.supervisors), arrays.NODE)
    ports = np.array([len(node.ports) for node in problem.supervisors], dtype=np.int64)
    nodes["cpu_hz"] = np.where(np.isfinite(problem.node_cpu_hz), problem.node_cpu_hz, 0.0)
    nodes["cpu_hz_left"] = problem.node_cpu_hz * (1 + _TOLERANCE)
    nodes["memory_mb_left"] = problem.node_memory_mb * (1 + _TOLERANCE)
    nodes["rack"], nodes["first"], nodes["ports"] = problem.node_rack, np.cumsum(ports) - ports, ports * usable
    racks = np.zeros(int(problem.node_rack.max(initial=-1)) + 1, arrays.SPAN)
    racks["last"] = np.cumsum(np.bincount(problem.node_rack, minlength=len(racks)))
    racks["first"][1:] = racks["last"][:-1]
    return nodes, racks


def _sinks(links: Links, topologies: Records, num_executors: int) -> tuple[Records, Records]:
    """Return the sinks, and the ranges of flows and sinks of every executor."""
    sinks = np.zeros(len(links.sinks), arrays.SINK)
    own = topologies[_sink_topology(links)]
    widths = own["last_worker"] - own["first_worker"]
    sinks["row"] = np.cumsum(widths) - widths
    sinks["local"], sinks["limit"] = [sink.local for sink in links.sinks], [sink.limit_tps for sink in links.sinks]
    flowing = np.zeros(num_executors, arrays.FLOWING)
    flowing["first_flow"], flowing["last_flow"] = links.first_flow[:-1], links.first_flow[1:]
    for number, sink in enumerate(links.sinks):  # those of a component follow each other
        new = flowing["last_sink"][sink.members] == 0
        flowing["first_sink"][sink.members[new]] = number
        flowing["last_sink"][sink.members] = number + 1
    return sinks, flowing


def _sink_topology(links: Links) -> IndexArray:
    return np.array([sink.topology for sink in links.sinks], int)


def _links(links: Links) -> Records:
    rows = np.empty(len(links.tps), arrays.LINK)
    rows["executor"], rows["tps"] = links.executor, links.tps
    return rows


def _weighed(weights: CostWeights, prices: Prices, nodes: Records, *, stays: bool) -> dict[str, Any]:
    prices = prices if stays else prices.without_changes()
    mean_hz = float(nodes["cpu_hz"].sum()) / max(int(np.count_nonzero(nodes["cpu_hz"])), 1)
    return {
        "inter_worker": weights.inter_worker - weights.same_worker,
        "inter_node": weights.inter_node - weights.same_worker,
        "inter_rack": weights.inter_rack - weights.same_worker,
        "move_price": float(prices.move),
        "max_moves": int(prices.max_moves),
        "restart_price": float(prices.restart),
        "max_restarts": int(prices.max_restarts),
        "node_price": float(prices.node),
        "imbalance_price": float(prices.imbalance) / mean_hz if mean_hz else 0.0,
    }


def rearrange(layout: Layout, worker_of: IndexArray, node_of: IndexArray) -> None:
    """Set another placement of a layout: worker of every executor and node of every worker, -1 for none."""
    _clear(layout)
    _settle(layout, worker_of.astype(np.int64), node_of.astype(np.int64))
    add_up_cost(layout)


@compiled
def _clear(layout: Layout) -> None:
    """Take all workers off their nodes and all executors out of them; tables are unchanged."""
    for worker in range(len(layout.workers)):
        if layout.workers[worker].node != NOWHERE:
            stop_worker(layout, worker)
        layout.workers[worker].cpu_hz = layout.workers[worker].memory_mb = 0.0
        layout.workers[worker].size = layout.workers[worker].at_home = 0
    for executor in range(len(layout.executors)):
        layout.executors[executor].worker = NOWHERE
    clear(layout.rules)
    layout.totals[0].broken = 0.0


@compiled
def _settle(layout: Layout, worker_of: IndexArray, node_of: IndexArray) -> None:
    """Put workers on nodes and executors into workers, where they have any."""
    for worker in range(len(node_of)):
        if node_of[worker] != NOWHERE:
            start_worker(layout, worker, node_of[worker])
    for executor in range(len(worker_of)):
        if worker_of[executor] != NOWHERE:
            join(layout, executor, worker_of[executor])
    for topology in range(len(layout.topologies)):
        tabulate(layout, topology)


@compiled
def add_up_cost(layout: Layout) -> None:
    """Recompute the cost of the placement."""
    layout.totals[0].cost = 0.0
    for topology in range(len(layout.topologies)):
        layout.totals[0].cost += cost_of_topology(layout, topology)
