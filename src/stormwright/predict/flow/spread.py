"""Targets of shuffled traffic under a placement, as arrays over the whole problem.

Shuffled traffic goes to the nearest scope that has a target: the source's worker, then its node, its rack, and all;
``local_or_shuffle`` knows only the worker and all. This equals `stormwright.model.traffic` for flows without limits,
for all topologies at once. Flows along one edge from one scope go to the same executors. So they form a lot, of which
each of these gets the same fraction, and everything is linear in flows and executors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.traffic_matrix import Scopes
from stormwright.predict.sums import ratio, sums


class SpreadFlows(NamedTuple):
    """Source executor, edge, and whether the grouping knows only the worker and all; shape (F,)."""

    source: IndexArray
    edge: IndexArray
    local: BoolArray


@dataclass(frozen=True, eq=False)
class Spread:
    """Targets of flows, and the part that leaves worker and node.

    In a lot that goes to all, only tuples from another worker are messages: all of the lot minus those from the own
    worker, which form a lot of their own; and so for nodes.

    Parameters
    ----------
    flow, lot
        Assignment of flows to lots.
    lot_of_member, edge, member
        Lot, edge, and executor that gets some of it, shape (M,).
    gets, comes, comes_far
        Fraction of the lot that the executor gets, gets from other workers, and from other nodes, shape (M,).
    leaves, leaves_node
        Fraction of every flow that goes to other workers, and to other nodes, shape (F,).
    """

    flow: IndexArray
    lot: IndexArray
    lot_of_member: IndexArray
    edge: IndexArray
    member: IndexArray
    gets: FloatArray
    comes: FloatArray
    comes_far: FloatArray
    leaves: FloatArray
    leaves_node: FloatArray

    def lots(self, amounts: FloatArray) -> FloatArray:
        """Return the lot of each member, if flows are `amounts`, shape (…, F); shape (…, M)."""
        return sums(self.lot, amounts.take(self.flow, axis=-1), int(self.lot.max(initial=-1)) + 1).take(
            self.lot_of_member, axis=-1
        )


def spread(
    scopes: Scopes,
    component: IndexArray,
    target: IndexArray,
    flows: SpreadFlows,
    executors: IndexArray | None = None,
    *,
    near: bool = True,
) -> Spread:
    """Return the targets of flows.

    Parameters
    ----------
    scopes
        Slot, node and rack of every executor.
    component
        Component of every executor, numbered over the problem, shape (E,).
    target
        Target component of each edge, shape (D,).
    flows
        Flows to be spread.
    executors
        Executors of its topologies; all by default.
    near
        Whether flows go as near as possible, else to all alike.
    """
    executors = np.arange(len(component)) if executors is None else executors
    count = int(max(component.max(initial=-1), target.max(initial=-1))) + 1
    slot, node, rack, whole = (
        _Scope.of(scope, component, executors, count) for scope in (*scopes, np.zeros_like(scopes.slot))
    )
    leaves, leaves_node = np.zeros(len(flows.source)), np.zeros(len(flows.source))
    left, lots = np.arange(len(flows.source)), []
    for scope, out, off in ((slot, 0.0, 0.0), (node, 1.0, 0.0), (rack, 1.0, 1.0)) if near else ():
        lot = scope.lots(target, flows, left if scope is slot else left[~flows.local[left]])
        lots.append(lot.parts(1.0, out, off))
        there = lot.flow[lot.size > 0]
        leaves[there], leaves_node[there] = out, off
        left = np.setdiff1d(left, there, assume_unique=True)
    lot = whole.lots(target, flows, left)
    lots.append(lot.parts(1.0, 1.0, 1.0))
    # Executors without a location neither send nor receive.
    placed = np.bincount(component[executors[scopes.slot[executors] != UNPLACED]], minlength=count)
    others = placed[target[flows.edge[left]]] * (scopes.slot[flows.source[left]] != UNPLACED)
    for scope, out, off, part in ((slot, -1.0, 0.0, leaves), (node, 0.0, -1.0, leaves_node)):
        beside = scope.lots(target, flows, left)
        lots.append(beside.parts(0.0, out, off, whole.size[target]))
        part[left] = ratio(np.maximum(others - beside.size, 0), lot.size)
    return _joined(lots, leaves, leaves_node)


class _Parts(NamedTuple):
    """Some lots, numbered from 0, and the fractions of their members: see `Spread`."""

    flow: IndexArray
    lot: IndexArray
    lot_of_member: IndexArray
    edge: IndexArray
    member: IndexArray
    gets: FloatArray
    comes: FloatArray
    comes_far: FloatArray


class _Lots(NamedTuple):
    """Lots of some flows: number of members of each flow's lot, and edge and first and last member of each lot."""

    flow: IndexArray
    lot: IndexArray
    size: IndexArray
    edge: IndexArray
    first: IndexArray
    last: IndexArray
    members: IndexArray

    def parts(self, gets: float, comes: float, far: float, among: IndexArray | None = None) -> _Parts:
        """Return equal fractions of a lot for its members: by their number, or that of `among`; times factors."""
        size = self.last - self.first
        lot = np.repeat(np.arange(len(size)), size)
        at = np.arange(len(lot)) - np.repeat(np.cumsum(size) - size - self.first, size)
        part = 1.0 / (size[lot] if among is None else among[self.edge[lot]])
        return _Parts(self.flow, self.lot, lot, self.edge[lot], self.members[at], part * gets, part * comes, part * far)


class _Scope(NamedTuple):
    """Executors by component and location; `size` is that of the components, shape (C,)."""

    of_executor: IntArray
    width: np.int64
    keys: IndexArray
    members: IndexArray
    size: IndexArray

    @classmethod
    def of(cls, scope: IntArray, component: IndexArray, executors: IndexArray, count: int) -> _Scope:
        width = np.int64(scope.max(initial=0) + 1)
        inside = executors[scope[executors] != UNPLACED]
        keys = component[inside] * width + scope[inside]
        order = np.argsort(keys, kind="stable")
        size = np.bincount(component[inside], minlength=count)
        return cls(scope, width, keys[order], inside[order], size)

    def lots(self, target: IndexArray, flows: SpreadFlows, asking: IndexArray) -> _Lots:
        """Return the lots of the flows `asking`."""
        scope = self.of_executor[flows.source[asking]]
        # A source without a location is looked up in an empty scope.
        keys, lot = np.unique(flows.edge[asking] * (self.width + 1) + scope + 1, return_inverse=True)
        edge, scope = np.divmod(keys, self.width + 1)
        wanted = np.where(scope > 0, target[edge] * self.width + scope - 1, -1)
        first = np.searchsorted(self.keys, wanted)
        last = np.searchsorted(self.keys, wanted, side="right")
        return _Lots(asking, lot, (last - first)[lot], edge, first, last, self.members)


def _joined(lots: list[_Parts], leaves: FloatArray, leaves_node: FloatArray) -> Spread:
    counts = [int(each.lot.max(initial=-1)) + 1 for each in lots]
    before = np.cumsum([0, *counts[:-1]])
    shifted = [
        each._replace(lot=each.lot + at, lot_of_member=each.lot_of_member + at)
        for each, at in zip(lots, before, strict=True)
    ]
    every: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in shifted]) for name in _Parts._fields}
    return Spread(**every, leaves=leaves, leaves_node=leaves_node)
