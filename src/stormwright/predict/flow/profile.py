"""Load profile: work and output per tuple, independent of the placement.

Executors of one component are assumed to treat shuffled tuples alike, so these are pooled: which of them got the tuples
depended on the placement. Tuples by a fields grouping, and their processing, belong to a single executor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.traffic_matrix import scopes_of
from stormwright.predict.costs import NO_CORRECTIONS, Correction, Costs, InputWork
from stormwright.predict.flow.graph import Graph
from stormwright.predict.flow.layout import FlowLayout, StreamRates
from stormwright.predict.flow.measured import MeasuredTraffic
from stormwright.predict.flow.mix import Mix
from stormwright.predict.flow.spread import SpreadFlows, spread
from stormwright.predict.placement_cache import CacheKey, RecentResults
from stormwright.predict.sums import ratio, sums

#: Least fraction of its CPU that is attributed to an executor's own work, whatever the costs of its messages; and where
#: its polls were counted, of which far more may be.
_MIN_WORK, _MIN_COUNTED = 0.1, 0.01


@dataclass(frozen=True, eq=False)
class Profile:
    """The load of a problem per tuple.

    A tuple that an executor handles is one that it receives; of a spout it is a tree that it begins, and of a bolt
    that gets nothing (and sends by the clock) its part of a tree.

    Parameters
    ----------
    problem, layout
        The problem and its layout.
    assumed
        Whether a topology's load is assumed, not measured, shape (T,).
    rate_tps
        Trees/s of every topology as measured, 0 without any, shape (T,).
    begins
        Tuples for each tree that an executor handles without receiving them, shape (E,).
    handled_tps
        Tuples/s that it handled, shape (E,).
    pooled
        Whether executors of a component are alike: it gets shuffled tuples, or is a spout whose trees are limited in
        number, shape (C,).
    message_tps, message_bytes_per_s
        The part of an executor's traffic that left its worker under the measured placement, shape (E,).
    pairs, flows
        Traffic to executors, and to components, one topology after the other.
    """

    problem: Problem
    layout: FlowLayout
    assumed: BoolArray
    rate_tps: FloatArray
    begins: FloatArray
    handled_tps: FloatArray
    pooled: BoolArray
    message_tps: FloatArray
    message_bytes_per_s: FloatArray
    pairs: StreamRates
    flows: StreamRates

    @classmethod
    def of(cls, problem: Problem) -> Profile:
        """Return the profile of a problem, measured under `Problem.measured_slot`."""
        layout = FlowLayout.of(problem)
        traffic = MeasuredTraffic.of(problem, layout)
        executors, component = problem.num_executors, layout.executor_component
        scopes = scopes_of(problem, problem.measured_slot)
        every = np.arange(len(layout.size))
        flows = SpreadFlows(traffic.flow_source, traffic.flow_target, traffic.flow_local)
        where = spread(scopes, component, every, flows)
        received = sums(traffic.pair_target, traffic.pair_tps, executors)
        received += sums(where.member, where.gets * where.lots(traffic.flow_tps), executors)
        begins, rate_tps = _begins(layout, traffic.trees_tps(problem, layout), received)
        from_slot, to_slot = scopes.slot[traffic.pair_source], scopes.slot[traffic.pair_target]
        leaves = traffic.pair_tps * ((from_slot != to_slot) & (from_slot != UNPLACED) & (to_slot != UNPLACED))
        source = np.concatenate([traffic.pair_source, traffic.flow_source])
        leaves = np.concatenate([leaves, traffic.flow_tps * where.leaves])
        size = np.concatenate([traffic.pair_size, traffic.flow_size])
        pooled = layout.is_spout & np.isfinite(layout.pending)[layout.topology]
        pooled[traffic.flow_target] = True
        handled = np.where(begins > 0, begins * rate_tps[layout.executor_topology], received)
        return cls(
            problem=problem,
            layout=layout,
            assumed=np.array([load is None for load in problem.demand.measured], dtype=bool),
            rate_tps=rate_tps,
            begins=begins,
            handled_tps=handled,
            pooled=pooled,
            message_tps=sums(source, leaves, executors),
            message_bytes_per_s=sums(source, leaves * size, executors),
            pairs=_per_tuple(
                layout,
                pooled,
                handled,
                StreamRates(
                    traffic.pair_source,
                    traffic.pair_target,
                    traffic.pair_tps,
                    traffic.pair_size,
                    np.zeros(len(traffic.pair_tps), dtype=bool),
                ),
            ),
            flows=_per_tuple(
                layout,
                pooled,
                handled,
                StreamRates(
                    traffic.flow_source, traffic.flow_target, traffic.flow_tps, traffic.flow_size, traffic.flow_local
                ),
            ),
        )

    @cached_property
    def sent_from(self) -> tuple[IndexArray, IndexArray]:
        """First pair and first flow of each topology, shape (T + 1,)."""
        topology, count = self.layout.executor_topology, len(self.rate_tps)
        pairs, flows = (
            np.concatenate([[0], np.cumsum(np.bincount(topology[each.source], minlength=count))])
            for each in (self.pairs, self.flows)
        )
        return pairs, flows

    @cached_property
    def limited_spouts(self) -> list[IndexArray]:
        """Active spout executors of each topology with a limit of pending trees; empty for others."""
        layout = self.layout
        spout, limited = layout.is_spout[layout.executor_component], np.isfinite(layout.pending)
        begin = np.flatnonzero(spout & limited[layout.executor_topology] & (self.begins > 0))
        # Executors are in the order of their topologies.
        first = np.searchsorted(layout.executor_topology[begin], np.arange(len(limited) + 1)).tolist()
        return [begin[start:end] for start, end in pairwise(first)]

    @cached_property
    def graph(self) -> Graph:
        """Graph of components."""
        return Graph.of(self.layout, self.pairs, self.flows)

    def work_cycles(self, costs: Costs, corrections: Mapping[str, Correction] = NO_CORRECTIONS) -> FloatArray:
        """Return the mean cycles of an executor's own work per tuple, shape (E,).

        It is the executor's CPU minus the serialisation of messages that left its worker while it was measured, and
        minus the CPU spent waiting, divided by the number of tuples; `corrections` are by topology id.
        """
        key: CacheKey[FloatArray] = CacheKey("work cycles", costs, corrections)
        return self.recent.get_or_compute(key, lambda: self._work_cycles(costs, corrections))

    def _work_cycles(self, costs: Costs, corrections: Mapping[str, Correction]) -> FloatArray:
        kilobytes = self.message_bytes_per_s / 1e3
        serialising_us = self.message_tps * costs.serialise_us + kilobytes * costs.serialise_us_per_kb
        factors, topology = Factors.of(self.problem, corrections), self.layout.executor_topology
        cpu_hz = self._without_polling_hz(costs)
        serialising_hz = serialising_us * 1e-6 * self.problem.core_hz * factors.messages[topology]
        work_hz = np.maximum(cpu_hz - serialising_hz, _MIN_WORK * cpu_hz)
        each, component = ratio(work_hz, self.handled_tps), self.layout.executor_component
        together = ratio(*(sums(component, amounts, len(self.layout.size)) for amounts in (work_hz, self.handled_tps)))
        cycles: FloatArray = np.where(self.pooled[component], together[component], each)
        return cycles * self._by_fit(together, corrections)[component] * (factors.work * factors.scale)[topology]

    def _by_fit(self, cycles: FloatArray, corrections: Mapping[str, Correction]) -> FloatArray:
        """Return the fitted work of a tuple by the measured one (`cycles`), 1 where there is none, shape (C,)."""
        found, offsets = np.ones(len(cycles)), self.layout.component_offset[:-1].tolist()
        for topology, offset in zip(self.problem.topologies, offsets, strict=True):
            known = corrections.get(topology.id)
            for name, us in known.tuple_us.items() if known else ():
                at = topology.component_index.get(name)
                if at is not None and cycles[at + offset] > 0:
                    found[at + offset] = us * 1e-6 * self.problem.core_hz / cycles[at + offset]
        return found

    def mix(self, corrections: Mapping[str, Correction]) -> Mix | None:
        """Return the relative work of tuples by source; None if unknown."""
        if not any(one.inputs for one in corrections.values()):
            return None
        key: CacheKey[Mix | None] = CacheKey("mix", corrections=corrections)
        return self.recent.get_or_compute(key, lambda: mix_of(self, corrections))

    @cached_property
    def recent(self) -> RecentResults:
        return RecentResults()

    def polling_hz(self, costs: Costs) -> FloatArray:
        """Return the CPU with which executors polled, in Hz, shape (E,)."""
        return self.problem.executor_cpu_hz - self._without_polling_hz(costs)

    def _without_polling_hz(self, costs: Costs) -> FloatArray:
        """Return the CPU of executors while they have work, in Hz, shape (E,).

        A thread polls whenever it is given a core and finds nothing. Where that was not counted: a thread that works
        for a fraction b of the time and polls for a fraction s takes b + p s of its core, p being the cost of polling.
        Both are the models to which costs are fitted (`stormwright.predict.calibration.regression`).
        """
        cpu_hz, share, core_hz = self.problem.executor_cpu_hz, costs.spin_share, self.problem.core_hz
        runs = self._runs_per_s if costs.poll_us else np.full(len(cpu_hz), np.nan)
        # Of the time that a thread does not work, which its CPU b + p s overstates.
        polling = share / (1 - share) * self._polls(costs.polling_threads) if np.isnan(runs).any() and share else 0.0
        polling = np.where(np.isnan(runs), polling, 1e-6 * costs.poll_us * runs)
        least = np.where(np.isnan(runs), _MIN_WORK, _MIN_COUNTED)
        return np.maximum(cpu_hz - polling * core_hz, least * cpu_hz)

    def _polls(self, polling_threads: float) -> FloatArray:
        """Return the fraction of time for which an executor's thread takes no core and does not wait for one, (E,).

        Where waits were not measured: a node with CPU to spare has a core for each of them; on a full one
        they poll for `polling_threads` together; in between it is interpolated by the use of the node.
        """
        problem = self.problem
        idle = np.clip(1.0 - problem.executor_cpu_hz / problem.core_hz, 0.0, 1.0)
        waited = self._waited
        node, nodes = scopes_of(problem, problem.measured_slot).node, len(problem.supervisors)
        on = node != UNPLACED
        by_executors = sums(node[on], problem.executor_cpu_hz[on], nodes)
        measured = problem.load.node_cpu_hz if problem.load else {}
        whole = np.array([measured.get(supervisor.id, 0.0) for supervisor in problem.supervisors])
        used = np.minimum(ratio(np.maximum(by_executors, whole), problem.node_cpu_hz), 1.0)
        together = np.minimum(ratio(np.full(nodes, polling_threads), sums(node[on], idle[on], nodes)), 1.0)
        part = np.append(1.0 - used * (1.0 - together), 0.0)[node]
        return np.where(np.isnan(waited), part * idle, np.clip(idle - waited, 0.0, 1.0))

    def contention(self) -> FloatArray:
        """Return for which part of the time that its executors could run they waited for a core, shape (N,)."""
        problem, waited = self.problem, np.nan_to_num(self._waited)
        node, nodes = scopes_of(problem, problem.measured_slot).node, len(problem.supervisors)
        on, busy = node != UNPLACED, problem.executor_cpu_hz / problem.core_hz
        return ratio(sums(node[on], waited[on], nodes), sums(node[on], (waited + busy)[on], nodes))

    @cached_property
    def _waited(self) -> FloatArray:
        """Fraction of time for which executors waited for a core, NaN where it was not measured; shape (E,)."""
        return self._measured("waited")

    @cached_property
    def _runs_per_s(self) -> FloatArray:
        """How often a second executors were given a core, NaN where it was not measured; shape (E,)."""
        return self._measured("runs_per_s")

    def _measured(self, name: str) -> FloatArray:
        """Return a column of all loads, NaN where it was not measured, shape (E,)."""
        each = [(getattr(load, name), len(load.cpu_hz)) for load in self.problem.loads]
        return np.concatenate([np.empty(0), *(np.full(size, np.nan) if own is None else own for own, size in each)])

    def idle_hz(self) -> FloatArray:
        """Return the CPU in Hz of executors whose topology begins no trees: it depends on no rate; shape (E,)."""
        return self._idle_hz

    @cached_property
    def _idle_hz(self) -> FloatArray:
        silent = self.rate_tps[self.layout.executor_topology] == 0
        return np.where(silent, self.problem.executor_cpu_hz, 0.0)


class Factors(NamedTuple):
    """Corrections of all topologies, shape (T,) each: see `stormwright.predict.costs.Correction`."""

    work: FloatArray
    messages: FloatArray
    scale: FloatArray
    wait_s: FloatArray

    @classmethod
    def of(cls, problem: Problem, corrections: Mapping[str, Correction]) -> Factors:
        """Return the corrections of a problem's topologies; those without one have none."""
        none = Correction()
        known = [corrections.get(topology.id, none) for topology in problem.topologies]
        return cls(*(np.array([getattr(each, name) for each in known], np.float64) for name in cls._fields))


def _begins(layout: FlowLayout, trees_tps: FloatArray, received_tps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the tuples that every executor handles without receiving them, per tree; and trees/s of every topology.

    Executors of a spout whose trees are acked and limited in number begin equally many: which of them was quick
    depended on the placement. Others have the measured shares.
    """
    topology, component = layout.executor_topology, layout.executor_component
    rate_tps = sums(topology, trees_tps, len(layout.pending))
    size = np.maximum(layout.size, 1)
    even = sums(component, trees_tps, len(size)) / size
    limited = np.isfinite(layout.pending)[topology]
    tps = np.where(limited & layout.is_spout[component], even[component], trees_tps)
    rate = rate_tps[topology]
    begins = ratio(tps, rate)
    silent = sums(component, received_tps, len(size)) == 0
    by_the_clock = (silent & ~layout.is_spout)[component] & (rate > 0)
    begins[by_the_clock] = 1.0 / size[component[by_the_clock]]
    return begins, rate_tps


def _per_tuple(layout: FlowLayout, pooled: BoolArray, handled_tps: FloatArray, sent: StreamRates) -> StreamRates:
    """Return `sent` (in tuples/s) per tuple that its source handles, equal within pooled components."""
    component = layout.executor_component[sent.source]
    together = pooled[component]
    own = np.flatnonzero(~together & (handled_tps[sent.source] > 0))
    by_component = sums(layout.executor_component, handled_tps, len(layout.size))
    keys = (component * 2 + sent.local)[together] * np.int64(sent.target.max(initial=0) + 1) + sent.target[together]
    found, at, inverse = np.unique(keys, return_index=True, return_inverse=True)
    at = np.flatnonzero(together)[at]
    at_component, tps = component[at], sums(inverse, sent.tuples[together], len(found))
    volume = sums(inverse, (sent.tuples * sent.size)[together], len(found))
    known = (by_component[at_component] > 0) & (tps > 0)
    at, at_component, tps, volume = at[known], at_component[known], tps[known], volume[known]
    times = layout.size[at_component]
    row = np.repeat(np.arange(len(at_component)), times)
    source = layout.members[
        np.arange(len(row)) - np.repeat(np.cumsum(times) - times - layout.first[at_component], times)
    ]
    joined = StreamRates(
        source=np.concatenate([sent.source[own], source]),
        target=np.concatenate([sent.target[own], sent.target[at][row]]),
        tuples=np.concatenate(
            [sent.tuples[own] / handled_tps[sent.source[own]], (tps / by_component[at_component])[row]]
        ),
        size=np.concatenate([sent.size[own], (volume / tps)[row]]),
        local=np.concatenate([sent.local[own], sent.local[at][row]]),
    )
    return joined.at(np.argsort(layout.executor_topology[joined.source], kind="stable"))


def mix_of(profile: Profile, corrections: Mapping[str, Correction]) -> Mix | None:
    """Return the mix of a profile's topologies; None if tuples of all edges are assumed to be alike.

    Parameters
    ----------
    profile
        Profile of a whole problem.
    corrections
        Corrections of single topologies, by id.
    """
    graph, layout = profile.graph, profile.layout
    edge = _factors(profile, corrections)
    unlike = np.abs(edge - 1) > _ROUNDING
    if not unlike.any():
        return None
    components = np.zeros(len(layout.size), dtype=bool)
    components[graph.target[unlike]] = True
    mixed = (components & ~layout.is_spout)[layout.executor_component] & (profile.begins == 0)
    return Mix(edge, np.where(mixed, _measured(profile, edge), 1.0), mixed)


def _factors(profile: Profile, corrections: Mapping[str, Correction]) -> FloatArray:
    """Return the factor of every edge relative to the mean of its component, shape (D,); 1 if unknown."""
    graph, factors = profile.graph, np.ones(len(profile.graph.source))
    components = np.int64(max(len(profile.layout.size), 1))
    edges = {key: number for number, key in enumerate((graph.source * components + graph.target).tolist())}
    for number, topology in enumerate(profile.problem.topologies):
        known, offset = corrections.get(topology.id), int(profile.layout.component_offset[number])
        for name, inputs in known.inputs.items() if known else ():
            for source, factor in _by_source(inputs).items():
                ends = topology.component_index.get(source), topology.component_index.get(name)
                if ends[0] is not None and ends[1] is not None:
                    at = edges.get(int((ends[0] + offset) * components + ends[1] + offset))
                    if at is not None:
                        factors[at] = factor
    return factors


def _measured(profile: Profile, edge: FloatArray) -> FloatArray:
    """Return the mean factor of tuples that executors got under the measured placement, shape (E,).

    It is the same for all executors of pooled components, as their work per tuple is.
    """
    problem, layout, graph = profile.problem, profile.layout, profile.graph
    component, count = layout.executor_component, problem.num_executors
    traffic = MeasuredTraffic.of(problem, layout)
    keys, width = graph.source * np.int64(len(layout.size)) + graph.target, np.int64(len(layout.size))

    def of(source: IndexArray, target: IndexArray) -> FloatArray:
        wanted = source * width + target
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, edge[at], 1.0)

    of_pair = of(component[traffic.pair_source], component[traffic.pair_target])
    of_flow = of(component[traffic.flow_source], traffic.flow_target)
    flows = SpreadFlows(traffic.flow_source, traffic.flow_target, traffic.flow_local)
    where = spread(scopes_of(problem, problem.measured_slot), component, np.arange(len(layout.size)), flows)
    came, took = (
        sums(traffic.pair_target, traffic.pair_tps * pair, count)
        + sums(where.member, where.gets * where.lots(traffic.flow_tps * flow), count)
        for pair, flow in ((1.0, 1.0), (of_pair, of_flow))
    )
    together = ratio(*(sums(component, each, len(layout.size)) for each in (took, came)))[component]
    mean = np.where(profile.pooled[component] | (came == 0), together, ratio(took, came))
    return np.where(mean > 0, mean, 1.0)


#: Factors that differ by less from 1 are equal to 1 up to rounding.
_ROUNDING = 1e-9


def _by_source(inputs: tuple[InputWork, ...]) -> dict[str, float]:
    """Return the relative work of tuples by source component."""
    part = sum(one.part for one in inputs)
    mean = sum(one.part * one.us for one in inputs) / part if part > 0 else 0.0
    if not mean > 0:
        return {}
    found = {}
    for source in {one.source for one in inputs}:
        own = [one for one in inputs if one.source == source]
        weight = sum(one.part for one in own)
        if weight > 0:
            found[source] = sum(one.part * one.us for one in own) / weight / mean
    return found
