"""Flows of tuples that follow the placement: the shuffle of Storm 2.x prefers near targets as long as they keep up.

LoadAwareShuffleGrouping sends to the targets in the source's own worker; where there are none, or while they are
overloaded (their queues fill beyond `topology.localityaware.higher.bound`, until they fall below the lower bound), to
those on its node, then in its rack, then to all. Over time the narrower scope so takes as much as it can, and the wider
one the rest. ``local_or_shuffle`` knows only the worker and all.

All topologies are handled at once, in time linear in flows, executors and the pairs that come of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.load import TopologyLoad

#: Rounding of a sum of rates, as a part of it.
_ROUNDING = 1e-12

LOCAL = "local_or_shuffle"

#: Flow, executor that gets some of it, and tuples/s.
_Part = tuple[IndexArray, IndexArray, FloatArray]


class Flows(NamedTuple):
    """Flows of several topologies, with executors and components numbered over all of them.

    Parameters
    ----------
    source, component
        Sending executor and receiving component, shape (F,); flows to one component by one kind of grouping are
        adjacent.
    local
        Whether the grouping distinguishes only the worker from all others, shape (F,).
    tps
        Tuples per second from the executor to the component, shape (F,).
    limit_tps
        Tuples/s that one executor of the component takes before the rest spills over, shape (F,).
    executor_component
        Component of every executor, shape (E,).
    """

    source: IndexArray
    component: IndexArray
    local: BoolArray
    tps: FloatArray
    limit_tps: FloatArray
    executor_component: IndexArray

    @classmethod
    def of(cls, loads: Sequence[TopologyLoad], executor_components: Sequence[IntArray]) -> Flows:
        """Return the flows of loads; components of executors are numbered within each topology, shape (E,) each."""
        parts, of_executor, executors, components = [], [], 0, 0
        for load, own in zip(loads, executor_components, strict=True):
            if len(load.flow_source):
                limit = np.full(len(load.flow_source), np.inf)
                for component in np.unique(load.flow_component) if load.flow_limit_tps is not None else ():
                    members = int(np.count_nonzero(own == component))
                    limit[load.flow_component == component] = member_limit(load, int(component), max(members, 1))
                ends = load.flow_source + np.int64(executors), load.flow_component + np.int64(components)
                parts.append((*ends, is_local(load), load.flow_tps, limit))
            of_executor.append(own + np.int64(components))
            executors += len(own)
            components += 1 + max(int(each.max(initial=0)) for each in (own, load.flow_component))
        none = np.empty(0, np.int64)
        nothing = (none, none, np.empty(0, np.bool_), np.empty(0), np.empty(0))
        source, component, local, tps, limit = (np.concatenate(each) for each in zip(nothing, *parts, strict=True))
        order = np.argsort(component * 2 + local, kind="stable")
        limit = np.where(local, np.inf, limit)
        return cls(
            source[order],
            component[order],
            local[order],
            tps[order],
            limit[order],
            np.concatenate([none, *of_executor]),
        )


def flow_pairs(flows: Flows, scopes: tuple[IntArray, ...]) -> tuple[IntArray, IntArray, FloatArray]:
    """Return flows as directed pairs: source and target executor, and tuples/s.

    Parameters
    ----------
    flows
        Flows whose traffic follows the placement.
    scopes
        Slot, node and rack of every executor, -1 for none; each of shape (E,). An executor without a slot is distant
        from all others.
    """
    local = flows.local
    parts = _spread(flows, np.flatnonzero(~local), scopes) + _spread(flows, np.flatnonzero(local), scopes[:1])
    flow, target, tps = (np.concatenate(each) for each in zip(*parts, strict=True))
    keys = flow * np.int64(len(flows.executor_component)) + target
    order = np.argsort(keys, kind="stable")  # parts are in order: they are merged
    keys, target, tps = keys[order], target[order], tps[order]
    new = np.flatnonzero(np.diff(keys, prepend=-1))
    if len(new) < len(keys):  # who is near gets what those near could not take, too
        target, tps, order = target[new], np.add.reduceat(tps, new), order[new]
    return flows.source[flow[order]].astype(np.int32), target.astype(np.int32), tps


def is_local(load: TopologyLoad) -> BoolArray:
    """Return whether the grouping of each flow distinguishes only the worker from all others, shape (F,).

    That is ``local_or_shuffle``; ``shuffle`` and ``none`` distinguish worker, node and rack.
    """
    return np.array([grouping == LOCAL for grouping in load.flow_grouping], dtype=bool)


def member_limit(load: TopologyLoad, component: int, members: int) -> float:
    """Return the tuples/s that one executor of a component takes of flows before the rest spills over.

    At least its share if all take equally much: there is nowhere else to go then.
    """
    if load.flow_limit_tps is None:
        return float("inf")
    follows = (load.flow_component == component) & ~is_local(load)
    return max(float(load.flow_limit_tps[component]), float(load.flow_tps[follows].sum()) / members)


def _spread(flows: Flows, chosen: IndexArray, scopes: tuple[IntArray, ...]) -> list[_Part]:
    """Return the targets of some flows, scope by scope; each in order of flows and executors."""
    component, source, tps = flows.component[chosen], flows.source[chosen], flows.tps[chosen]
    if not len(chosen):
        return [(chosen, chosen, tps)]
    no_one = _LocalMembers.none(flows, chosen)
    rest, narrower, parts = tps, no_one, []
    for scope in scopes:
        near = _LocalMembers.of(flows, chosen, scope)
        limited = np.flatnonzero(np.isfinite(flows.limit_tps[chosen]) & (scope[source] != UNPLACED))
        sent_on = np.zeros(len(tps))
        if len(limited):
            takes = near.size[limited] * flows.limit_tps[chosen][limited]
            group = component[limited] * np.int64(scope.max() + 1) + scope[source[limited]]
            sent_on[limited] = _sent_on(group, tps[limited], rest[limited], takes)
        carried = np.where(near.size > narrower.size, rest - sent_on, 0.0)
        carried[carried <= _ROUNDING * tps] = 0.0
        parts.append(near.given(carried, narrower))
        rest, narrower = rest - carried, near
        rest[rest <= _ROUNDING * tps] = 0.0  # no tuple goes on for what rounding leaves over
    whole = _LocalMembers.of(flows, chosen, np.zeros_like(no_one.scope))
    is_far = whole.size > narrower.size
    parts.append(whole.given(np.where(is_far, rest, 0.0), narrower))
    # Where all are near, what these could not take.
    parts.append(whole.given(np.where(is_far, 0.0, rest), no_one))
    return parts


class _LocalMembers(NamedTuple):
    """Members of each flow's component in the same scope as its source.

    These are `members` from `first` on, `size` of them by flow; `scope` is the scope of every executor.
    """

    flow: IndexArray
    source: IndexArray
    scope: IntArray
    members: IndexArray
    first: IndexArray
    size: IndexArray

    @classmethod
    def none(cls, flows: Flows, chosen: IndexArray) -> _LocalMembers:
        """Return no members of any flow, as if no executor had a scope."""
        scope = np.full(len(flows.executor_component), UNPLACED, np.int32)
        nothing = np.zeros(len(chosen), np.int64)
        return cls(chosen, flows.source[chosen], scope, np.empty(0, np.int64), nothing, nothing)

    @classmethod
    def of(cls, flows: Flows, chosen: IndexArray, scope: IntArray) -> _LocalMembers:
        """Return the members in `scope`, one of every executor; -1 for none."""
        width, source = np.int64(scope.max(initial=0) + 1), flows.source[chosen]
        inside = np.flatnonzero(scope != UNPLACED)
        keys = flows.executor_component[inside] * width + scope[inside]
        order = np.argsort(keys, kind="stable")
        wanted = np.where(scope[source] != UNPLACED, flows.component[chosen] * width + scope[source], UNPLACED)
        first, last = (np.searchsorted(keys[order], wanted, side=side) for side in ("left", "right"))
        return cls(chosen, source, scope, inside[order], first, last - first)

    def given(self, tps: FloatArray, but: _LocalMembers) -> _Part:
        """Return `tps` of every flow spread evenly over its members, except for `but`, which are near already."""
        some = np.flatnonzero((tps > 0) & (self.size > 0))
        size = self.size[some]
        row = np.repeat(some, size)
        member = self.members[np.arange(len(row)) + np.repeat(self.first[some] - np.cumsum(size) + size, size)]
        if but.size[some].any():
            beyond = (but.size[row] == 0) | (but.scope[member] != but.scope[self.source[row]])
            row, member = row[beyond], member[beyond]
        return self.flow[row], member, (tps / np.maximum(self.size - but.size, 1))[row]


def _sent_on(group: IndexArray, tps: FloatArray, rest: FloatArray, takes: FloatArray) -> FloatArray:
    """Return the tuples/s that each flow sends beyond its group: its part of the members' excess."""
    groups, number = np.unique(group, return_inverse=True)
    arriving, wanting = (np.bincount(number, rates, len(groups))[number] for rates in (tps, rest))
    too_much = np.maximum(arriving - takes, 0.0)
    too_much[too_much <= _ROUNDING * arriving] = 0.0
    sent_on: FloatArray = rest * np.minimum(too_much / np.where(wanting > 0, wanting, 1.0), 1.0)
    return sent_on
