"""Each cell as predicted from another placement of the same topology under the same limit, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.cells.chosen import TOPOLOGIES, Limit
from benchmarks.cells.fitted import Fitted, at_speed, usable_cores
from benchmarks.cells.measured import Measured, Stretch
from stormwright.model import Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.link_speed import link_bits_per_s
from stormwright.predict.answer import Assumptions, predict
from stormwright.predict.costs import Correction, Costs
from stormwright.predict.demand import TreeDemand
from stormwright.predict.flow.profile import Profile
from stormwright.predict.shares import with_shares
from stormwright.predict.steady import PlacedLoad
from stormwright.predict.sums import sums

#: Costs of messages, workers and idle threads, from the start and stretch that is predicted from.
Fit = Callable[[Measured, Stretch], Fitted]

#: A node or link is full where it is used at least so far, a node also where it used up its quota in most periods.
FULL, HELD_BACK = 0.93, 0.9

#: How far what is likely is moved towards what the source has measured, in logarithms.
_HALF_WAY = 0.5


@dataclass(frozen=True)
class Cell:
    """What was predicted and measured of one placement under one limit.

    Parameters
    ----------
    predicted_tps, measured_tps
        Trees/s with as many as can be.
    predicted_ms, measured_ms
        Mean and 99th percentile of complete latency at the limited rate; None where it was not predicted to be
        sustained, or not measured.
    node_cores
        Predicted and measured cores of every node at the highest measured rate, shape (N, 2).
    link_tps
        Predicted and measured tuples/s out of every node then, shape (N, 2).
    predicted_limit, measured_limits
        What limits it by name, as predicted; and all that was full.
    """

    topology: str
    placement: str
    source: str
    limit: Limit
    predicted_tps: float
    measured_tps: float
    predicted_ms: tuple[float, float] | None
    measured_ms: tuple[float, float] | None
    node_cores: FloatArray
    link_tps: FloatArray
    predicted_limit: str
    measured_limits: tuple[str, ...]

    @property
    def rate_error(self) -> float:
        """In parts of what was measured, with its sign."""
        return self.predicted_tps / self.measured_tps - 1

    @property
    def q_error(self) -> float:
        """The larger of the two rates by the smaller."""
        return max(self.predicted_tps / self.measured_tps, self.measured_tps / self.predicted_tps)

    @property
    def latency_error(self) -> float | None:
        """Of the mean, in parts of what was measured, with its sign; infinite where it was not predicted."""
        if self.measured_ms is None:
            return None
        return np.inf if self.predicted_ms is None else self.predicted_ms[0] / self.measured_ms[0] - 1

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "topology": self.topology,
            "placement": self.placement,
            "source": self.source,
            "limit": str(self.limit),
            "trees_per_s": [round(self.predicted_tps, 1), round(self.measured_tps, 1)],
            "latency_ms": [self.predicted_ms, self.measured_ms],
            "node_cores": np.round(self.node_cores, 3).tolist(),
            "sent_tuples_per_s": np.round(self.link_tps, 1).tolist(),
            "limited_by": [self.predicted_limit, list(self.measured_limits)],
        }


def cells(starts: Sequence[Measured], sources: Sequence[str], fit: Fit, by_speed: bool = False) -> Iterator[Cell]:
    """Every placement of each topology and limit, predicted from each of the source placements but itself.

    Parameters
    ----------
    starts
        Of which the first ones of each placement count.
    sources
        Placements that are predicted from.
    fit
        Gives the costs.
    by_speed
        Whether predictions are told how fast the machine was when each cell was measured.
    """
    for source, target, problem, limit, known in pairs(starts, sources, fit):
        yield cell_of(source, target, problem, limit, known, by_speed)


def pairs(
    starts: Sequence[Measured], sources: Sequence[str], fit: Fit
) -> Iterator[tuple[Measured, Measured, Problem, Limit, Fitted]]:
    """Source, target, the problem as the source tells it, limit and costs of every cell.

    Parameters
    ----------
    starts, sources, fit
        As for `cells`.
    """
    first = [start for start in starts if start.start.repeat == 0 and start.start.topology in TOPOLOGIES]
    for source in first:
        if source.start.placement not in sources:
            continue
        asleep_us = _asleep_us(source, fit)
        for limit in source.start.limits:
            known, problem = _as_source(source, limit, fit)
            known = replace(known, costs=replace(known.costs, asleep_us=asleep_us))
            for target in first:
                if target.start.topology == source.start.topology and target is not source:
                    yield source, target, problem, limit, known


def _as_source(source: Measured, limit: Limit, fit: Fit) -> tuple[Fitted, Problem]:
    """What the source tells of costs and of the load under a limit."""
    at_most = source.at(limit)
    known = fit(source, at_most)
    return known, source.under(limit, usable_cores(at_most), known.spin)


def _asleep_us(source: Measured, fit: Fit) -> float:
    """For how long threads sleep when a tuple comes, by the source's own latencies at limited rates: half way to them.

    Two starts of the same are too far apart to go all the way.
    """
    off = []
    for limit in source.start.limits:
        limited = source.at(limit, limited=True)
        known, problem = _as_source(source, limit, fit)
        assumed = assumed_at(source, limit, limited, known, by_speed=True)
        (topology,) = predict(problem, source.slots_in(problem), assumed).topologies
        if topology.latency_ms is not None and limited.latency_ms is not None:
            off.append(np.log(limited.latency_ms[0] / topology.latency_ms.value))
    likely = Costs().asleep_us
    return likely * float(np.exp(_HALF_WAY * np.mean(off))) if off else likely


def assumed_at(source: Measured, limit: Limit, target: Stretch, known: Fitted, by_speed: bool) -> Assumptions:
    """What is taken for given at the rate of a stretch, and at the speed that the machine had in it."""
    slower = _slower(source, limit, target, by_speed)
    fixed = source.fixed_share(limit)
    return Assumptions(
        # Intervals are not compared, and without errors not worked out.
        costs=replace(at_speed(known, slower).costs, work_error=0.0, message_error=0.0, delay_error=0.0),
        corrections={source.topology: Correction(work=fixed + (1 - fixed) * slower)},
        rate_tps={source.topology: target.acked_tps},
    )


def _slower(source: Measured, limit: Limit, target: Stretch, by_speed: bool) -> float:
    """How many times as long as in the source's stretch the machine took for the same in another, where that counts."""
    return target.loop_ms / source.at(limit).loop_ms if by_speed else 1.0


def cell_of(source: Measured, target: Measured, problem: Problem, limit: Limit, known: Fitted, by_speed: bool) -> Cell:
    """What was predicted and measured of one cell; arguments as `pairs` gives them and `cells` takes them."""
    full, limited = target.at(limit), target.at(limit, limited=True)
    slots = target.slots_in(problem)
    assumed = assumed_at(source, limit, full, known, by_speed)
    (topology,) = predict(problem, slots, assumed).topologies
    (at_less,) = predict(problem, slots, assumed_at(source, limit, limited, known, by_speed)).topologies
    latency = (at_less.latency_ms, at_less.p99_ms)
    order = sorted(range(len(problem.supervisors)), key=lambda node: problem.supervisors[node].host)
    hosts = sorted(full.nodes)
    there = at_speed(known, _slower(source, limit, full, by_speed))
    used, sent = _at_most(problem, slots, assumed, there, full.acked_tps)
    cores = [[used[node], full.nodes[host]["cores"]] for node, host in _zip(order, hosts)]
    measured = full.sent_tps()
    own = {host: node for node, host in target.host_of.items()}
    links = [[sent[node] * full.acked_tps, measured.get(own[host], 0.0)] for node, host in _zip(order, hosts)]
    names = {problem.cluster.node_names[node]: f"node {number}" for number, node in enumerate(order)}
    return Cell(
        topology=target.start.topology,
        placement=target.start.placement,
        source=source.start.placement,
        limit=limit,
        predicted_tps=topology.reachable_tps.value,
        measured_tps=full.acked_tps,
        predicted_ms=None if latency[0] is None or latency[1] is None else (latency[0].value, latency[1].value),
        measured_ms=limited.latency_ms,
        node_cores=np.array(cores),
        link_tps=np.array(links),
        predicted_limit=" of ".join(filter(None, (topology.bottleneck.kind, names.get(topology.bottleneck.node, "")))),
        measured_limits=tuple(_full(full, hosts)),
    )


def _zip(order: Sequence[int], hosts: Sequence[str]) -> Iterator[tuple[int, str]]:
    return zip(order, hosts, strict=True)


def _at_most(
    problem: Problem, slots: IntArray, assumed: Assumptions, known: Fitted, rate_tps: float
) -> tuple[FloatArray, FloatArray]:
    """Cores of nodes in use at a rate in trees/s, tuples going as at highest rates; tuples of a tree that leave them.

    Threads with nothing to do take what is left: those of executors and, where there are other workers, the two that
    carry messages sleep for 1 ms at a time and look (``WorkerTransfer.makeTransferThread`` of Storm 2.8.3). What of
    that full nodes have is in the costs.

    Returns
    -------
    cores, tuples
        Shapes (N,) and (N,).
    """
    profile = Profile.of(problem)
    placed = PlacedLoad.under(profile, problem, slots)
    placed = with_shares(placed, assumed.costs, assumed.corrections)
    demand = TreeDemand.of(profile, placed.full_routes or placed.routes, problem, assumed.costs, assumed.corrections)
    nodes, on = len(problem.supervisors), demand.thread_node
    busy, count = rate_tps * demand.thread_s, len(demand.worker_node)
    used = sums(on, busy, nodes) + demand.base_cores
    waits = np.maximum(1 - busy, 0.0)
    waits[len(demand.executor_node) :] *= count > 1
    idle = known.spin * sums(on, waits, nodes) - known.polled * np.bincount(demand.worker_node, minlength=nodes)
    used += np.clip(idle, 0.0, np.maximum(demand.nodes.cores - used, 0.0))
    tuples = sums(demand.worker_node, demand.link_messages[0], nodes)
    return used, tuples


def _full(stretch: Stretch, hosts: Sequence[str]) -> Iterator[str]:
    """What was full; nothing of it where the trees that may be pending were too few."""
    bytes_per_s = link_bits_per_s(stretch.limit.link) / 8
    for number, host in enumerate(hosts):
        node = stretch.nodes[host]
        if node["cores"] >= FULL * stretch.limit.cores or node["throttled_share"] >= HELD_BACK:
            yield f"cpu of node {number}"
        for name, way in (("sent", "link out"), ("received", "link in")):
            if node[f"{name}_bytes_per_s"] >= FULL * bytes_per_s:
                yield f"{way} of node {number}"
