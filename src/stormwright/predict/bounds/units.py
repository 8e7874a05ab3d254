"""Executors of a problem in bounds: groups of identical executors, and the traffic between them.

How many tuples of a tree an executor handles depends on the placement only if it gets shuffled tuples. How many its
component handles does not, except that spouts with a limit of pending trees begin unequal numbers
(`predict/shares.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.predict.answer import Assumptions
from stormwright.predict.flow.layout import StreamRates
from stormwright.predict.flow.profile import Profile
from stormwright.predict.shares import MAX_SPOUTS
from stormwright.predict.sums import sums

#: Rounds for which tuples in a cycle are followed, as in predictions; traffic that still grows then is left out.
_MAX_ROUNDS, _SETTLED, _KNOWN = 300, 1e-9, 1e-8

#: What allows tuples of an arc to stay on a node: the presence of any executor of its target, their number, or the
#: tuples that they handle there.
ANY, COUNT, PART = range(3)


class Units(NamedTuple):
    """Groups of identical executors (U of them); executors without any work form one group per topology.

    Parameters
    ----------
    topology, size
        Topology and number of executors of every unit, shape (U,).
    memory_mb
        The least that one of them requests, shape (U,).
    work_s
        CPU of a tuple at a core of the reference speed, shape (U,).
    handled, least
        Tuples of a tree that its executors handle together, at most and at least, shape (U,).
    pool
        Number of the pool of a unit that begins trees: within a pool any executor may begin them; -1 for others, shape
        (U,).
    """

    topology: IndexArray
    size: IndexArray
    memory_mb: FloatArray
    work_s: FloatArray
    handled: FloatArray
    least: FloatArray
    pool: IndexArray


class Arcs(NamedTuple):
    """Traffic between units (A arcs).

    Parameters
    ----------
    source, target
        Sending and receiving unit of each arc, shape (A,).
    tuples, size
        Tuples for each that the source handles, at least, and the least bytes of one, shape (A,).
    stays_by, stays
        Items that allow tuples to stay on a node, and the largest fraction that each allows to stay, shape (A,).
    handled
        Whether the target handles the tuples that it receives, shape (A,): spouts do not.
    """

    source: IndexArray
    target: IndexArray
    tuples: FloatArray
    size: FloatArray
    stays_by: IndexArray
    stays: FloatArray
    handled: BoolArray

    def only(self, keep: BoolArray) -> Arcs:
        """Return the selected arcs, shape (A,)."""
        return Arcs(
            self.source[keep],
            self.target[keep],
            self.tuples[keep],
            self.size[keep],
            self.stays_by[keep],
            self.stays[keep],
            self.handled[keep],
        )


def units_of(problem: Problem, profile: Profile, assumptions: Assumptions) -> tuple[Units, Arcs]:
    """Return the units of a problem and their traffic; topologies that begin no trees have none.

    Parameters
    ----------
    problem
        The problem with the executors.
    profile
        Profile of its load.
    assumptions
        Costs of messages and corrections of topologies.
    """
    unit, first = _numbered(profile)
    topology = profile.layout.executor_topology[first].astype(np.int64)
    component = profile.layout.executor_component[first]
    size = np.bincount(unit, minlength=len(first))
    memory = np.full(len(first), np.inf)
    np.minimum.at(memory, unit, problem.executor_demand[1])
    cycles = _least_cycles(profile, assumptions)[first]
    begun = sums(unit, profile.begins, len(first))
    shares = _shares(profile)[topology] & profile.layout.is_spout[component] & (begun > 0)
    pool = np.where(begun > 0, np.arange(len(first)), -1)
    pool[shares] = len(first) + topology[shares]
    arcs = _arcs(profile, unit, first)
    most, least = _handled(arcs, begun, pool)
    units = Units(topology, size, memory, cycles / problem.core_hz, most, least, pool)
    return units, _known(arcs, units)


def _least_cycles(profile: Profile, assumptions: Assumptions) -> FloatArray:
    """Return the least cycles of a tuple at an executor, over all of its sources, shape (E,)."""
    cycles, mix = profile.work_cycles(assumptions.costs, assumptions.corrections), profile.mix(assumptions.corrections)
    if mix is None:
        return cycles
    ends, least = profile.graph.targets, np.full(len(cycles), np.inf)
    np.minimum.at(least, ends.executor, mix.edge[ends.edge])
    return np.where(mix.mixed, cycles * np.minimum(least, mix.measured) / mix.measured, cycles)


def _numbered(profile: Profile) -> tuple[IndexArray, IndexArray]:
    """Return the unit of every executor, shape (E,), and the first executor of every unit, shape (U,)."""
    layout, count = profile.layout, len(profile.begins)
    component, executor = layout.executor_component, np.arange(count)
    works = (profile.handled_tps > 0) & (profile.rate_tps[layout.executor_topology] > 0)
    own = np.where(profile.pooled[component], count + component, executor)
    rest = count + len(layout.size) + layout.executor_topology.astype(np.int64)
    somebody = sums(component, works, len(layout.size)) > 0
    key = np.where(np.where(profile.pooled[component], somebody[component], works), own, rest)
    _, first, unit = np.unique(key, return_index=True, return_inverse=True)
    return unit, first


def _shares(profile: Profile) -> BoolArray:
    """Return the topologies whose spouts begin trees as capacity allows, shape (T,)."""
    layout = profile.layout
    begins = (profile.begins > 0) & layout.is_spout[layout.executor_component]
    count = sums(layout.executor_topology, begins, len(layout.pending))
    shares: BoolArray = np.isfinite(layout.pending) & (count > 1) & (count <= MAX_SPOUTS)
    return shares


def _arcs(profile: Profile, unit: IndexArray, first: IndexArray) -> Arcs:
    """Return the traffic of the first executor of each unit, which is that of each of its executors."""
    layout = profile.layout
    component, spout = layout.executor_component, layout.is_spout[layout.executor_component[first]]
    of_component = np.full(len(layout.size), -1)
    of_component[component] = unit
    pairs = _added_up(profile.pairs, unit, first, unit[profile.pairs.target])
    flows = _added_up(profile.flows, unit, first, of_component[profile.flows.target])
    source, target, tuples, size, most, least = (np.concatenate(each) for each in zip(pairs, flows, strict=True))
    count = np.bincount(unit, minlength=len(first))[target]
    one_by_one = (np.arange(len(source)) < len(pairs[0])) & (count > 1)
    answers = one_by_one & spout[target] & _shares(profile)[layout.executor_topology[first[target]]]
    begins = np.zeros(len(first), bool)
    begins[unit[profile.begins > 0]] = True
    return Arcs(
        source,
        target,
        np.where(answers, least * count, tuples),
        size,
        np.where(answers, PART, np.where(one_by_one, COUNT, ANY)),
        np.where(one_by_one & ~answers, most / tuples, 1.0),
        ~begins[target] & ~spout[target],
    )


def _added_up(sent: StreamRates, unit: IndexArray, first: IndexArray, target: IndexArray) -> tuple[Any, ...]:
    """Return by pair of units: source, target, tuples, least size, and the most and least tuples of one executor."""
    here = np.flatnonzero((first[unit[sent.source]] == sent.source) & (sent.tuples > 0) & (target >= 0))
    source, target, tuples = unit[sent.source[here]], target[here], sent.tuples[here]
    keys, at, inverse = np.unique(source * np.int64(len(first)) + target, return_index=True, return_inverse=True)
    size = np.full(len(keys), np.inf)
    np.minimum.at(size, inverse, sent.size[here])
    wide = np.int64(sent.target.max(initial=0) + 1)
    each, number = np.unique(inverse * wide + sent.target[here], return_inverse=True)
    amounts, by = sums(number, tuples, len(each)), each // wide
    most, least = np.zeros(len(keys)), np.full(len(keys), np.inf)
    np.maximum.at(most, by, amounts)
    np.minimum.at(least, by, amounts)
    everybody = np.bincount(by, minlength=len(keys)) == np.bincount(unit, minlength=len(first))[target[at]]
    return source[at], target[at], sums(inverse, tuples, len(keys)), size, most, np.where(everybody, least, 0.0)


def _handled(arcs: Arcs, begun: FloatArray, pool: IndexArray) -> tuple[FloatArray, FloatArray]:
    """Return the most and the fewest tuples of a tree that units handle, over all ways to begin trees; shape (U,)."""
    shared = [np.flatnonzero(pool == each) for each in np.unique(pool[pool >= len(pool)])]
    found = []
    for turn in range(max((len(members) for members in shared), default=1)):
        begins = begun.copy()
        for members in shared:
            begins[members] = 0.0
            begins[members[turn % len(members)]] = begun[members].sum()
        found.append(_followed(arcs, begins))
    return np.max(found, axis=0), np.min(found, axis=0)


def _followed(arcs: Arcs, begins: FloatArray) -> FloatArray:
    handled = begins
    for _ in range(_MAX_ROUNDS):
        updated = begins + _received(arcs, handled)
        if np.allclose(updated, handled, rtol=_SETTLED, atol=0.0):
            return updated
        handled = updated
    return handled


def _received(arcs: Arcs, handled: FloatArray) -> FloatArray:
    tuples = np.where(arcs.handled, arcs.tuples * handled[arcs.source], 0.0)
    return sums(arcs.target, tuples, len(handled))


def _known(arcs: Arcs, units: Units) -> Arcs:
    """Remove arcs of topologies with endless cycles, or whose trees may begin in several components.

    The number of trees that each of these begins depends on the placement.
    """
    unknown = np.abs(_received(arcs, units.handled) - units.handled) > _KNOWN * units.handled
    unknown &= units.pool < 0
    unknown |= units.handled > units.least
    keep = ~np.isin(units.topology[arcs.source], units.topology[unknown])
    return arcs.only(keep)
