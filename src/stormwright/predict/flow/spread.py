"""To whom shuffled traffic goes under a placement, as arrays over the whole problem.

Shuffled traffic goes to the nearest scope that has a target: the source's worker, then its node, its rack, and all;
``local_or_shuffle`` knows only the worker and all. This is what `stormwright.model.traffic` says of flows without
limits, for all topologies at once.
"""

from __future__ import annotations

import numpy as np

from stormwright.model import UNPLACED
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.traffic.scopes import Scopes


def spread(
    scopes: Scopes, component: IndexArray, source: IndexArray, target: IndexArray, local: BoolArray
) -> tuple[IndexArray, IndexArray, FloatArray]:
    """To whom each flow goes.

    Parameters
    ----------
    scopes
        Where executors are.
    component
        Component of every executor, numbered over the problem, shape (E,).
    source, target
        Executor that sends, and component that it sends to, shape (F,).
    local
        Whether its grouping knows only the worker and all, shape (F,).

    Returns
    -------
    flow, member, share
        Flow, executor that gets some of it, and its part of the flow, shape (P,) each.
    """
    left = np.arange(len(source))
    parts = []
    for number, scope in enumerate((*scopes, np.zeros_like(scopes.slot))):
        asking = left if number in (0, 3) else left[~local[left]]
        first, size, members = _members(scope, component, source[asking], target[asking])
        sent = np.repeat(asking, size)
        position = np.arange(len(sent)) - np.repeat(np.cumsum(size) - size, size) + np.repeat(first, size)
        parts.append((sent, members[position], 1.0 / np.repeat(size, size)))
        left = np.setdiff1d(left, asking[size > 0], assume_unique=True)
    flow, member, share = (np.concatenate(column) for column in zip(*parts, strict=True))
    return flow, member, share


def _members(
    scope: IntArray, component: IndexArray, source: IndexArray, target: IndexArray
) -> tuple[IndexArray, IndexArray, IndexArray]:
    """Of each flow where its targets in its source's scope begin and how many they are, and executors in that order."""
    width = np.int64(scope.max(initial=0) + 1)
    inside = np.flatnonzero(scope != UNPLACED)
    keys = component[inside] * width + scope[inside]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    wanted = target * width + scope[source]
    first = np.searchsorted(keys, wanted)
    size = np.where(scope[source] == UNPLACED, 0, np.searchsorted(keys, wanted, side="right") - first)
    return first, size, inside[order]
