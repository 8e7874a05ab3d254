"""Where flows go: the shuffle of Storm 2.x keeps tuples near, as long as those near can take them.

LoadAwareShuffleGrouping sends to the targets in the source's own worker; where there are none, or while they are
overloaded (their queues fill beyond `topology.localityaware.higher.bound`, until they fall below the lower bound), to
those on its node, then in its rack, then to all. Over time the narrower scope so takes what it can, and the wider one
the rest. ``local_or_shuffle`` knows only the worker and all.
"""

from __future__ import annotations

import numpy as np

from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.load import TopologyLoad

#: Rounding of a sum of rates, as a part of it.
_ROUNDING = 1e-12

LOCAL = "local_or_shuffle"


def flow_pairs(
    load: TopologyLoad, executor_component: IntArray, scopes: tuple[IntArray, ...]
) -> tuple[IntArray, IntArray, FloatArray]:
    """Flows as directed pairs: source and target executor, numbered within the topology, and tuples/s.

    Parameters
    ----------
    executor_component
        Component of every executor, shape (E,).
    scopes
        Slot, node and rack of every executor, -1 for none; each of shape (E,). An executor without a slot is far from
        all others.
    """
    local = is_local(load)
    parts = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0))]
    for component in np.unique(load.flow_component):
        members = np.flatnonzero(executor_component == component)
        if not len(members):
            continue
        here = load.flow_component == component
        most = member_limit(load, int(component), len(members))
        for flows, within, limit in ((here & ~local, scopes, most), (here & local, scopes[:1], np.inf)):
            if flows.any():
                sources = load.flow_source[flows]
                tps = _spread(sources, load.flow_tps[flows], members, within, limit)
                flow, member = np.nonzero(tps)
                parts.append((sources[flow], members[member].astype(np.int32), tps[flow, member]))
    source, target, rate = (np.concatenate(column) for column in zip(*parts, strict=True))
    return source, target, rate


def is_local(load: TopologyLoad) -> BoolArray:
    """Whether the grouping of each flow knows only the worker and all, shape (F,).

    That is ``local_or_shuffle``; ``shuffle`` and ``none`` go by worker, node and rack.
    """
    return np.array([grouping == LOCAL for grouping in load.flow_grouping], dtype=bool)


def member_limit(load: TopologyLoad, component: int, members: int) -> float:
    """What one executor of a component takes of flows before the rest goes on, in tuples/s.

    At least what is its share where all take equally much: there is nowhere else to go then.
    """
    if load.flow_limit_tps is None:
        return float("inf")
    follows = (load.flow_component == component) & ~is_local(load)
    return max(float(load.flow_limit_tps[component]), float(load.flow_tps[follows].sum()) / members)


def _spread(
    sources: IntArray, tps: FloatArray, members: IndexArray, scopes: tuple[IntArray, ...], limit: float
) -> FloatArray:
    """Tuples/s from every source to every member, shape (sources, members)."""
    result = np.zeros((len(sources), len(members)))
    rest = tps.astype(np.float64)
    narrower = np.zeros(result.shape, dtype=bool)
    for scope in scopes:
        group, member_group = scope[sources], scope[members]
        inside = (group[:, None] == member_group) & (group[:, None] != UNPLACED)
        beyond = inside & ~narrower
        sent_on = _sent_on(group, tps, rest, member_group, limit) if np.isfinite(limit) else 0.0
        carried = np.where(beyond.any(axis=1), rest - sent_on, 0.0)
        carried[carried <= _ROUNDING * tps] = 0.0
        result += beyond * (carried / np.maximum(beyond.sum(axis=1), 1))[:, None]
        rest, narrower = rest - carried, inside
        rest[rest <= _ROUNDING * tps] = 0.0  # no tuple goes on for what rounding leaves over
    far = ~narrower
    far[~far.any(axis=1)] = True  # where all are near, what these could not take
    return np.asarray(result + far * (rest / far.sum(axis=1))[:, None], dtype=np.float64)


def _sent_on(group: IntArray, tps: FloatArray, rest: FloatArray, member_group: IntArray, limit: float) -> FloatArray:
    """What each source sends beyond its group, in tuples/s: its part of what the members in there cannot take."""
    placed = group != UNPLACED
    # Numbered anew, what is counted is no longer than the topology, however many groups there are elsewhere.
    groups, number = np.unique(np.concatenate([group, member_group]), return_inverse=True)
    of_source, of_member, length = number[: len(group)], number[len(group) :], len(groups)
    members = np.bincount(of_member[member_group != UNPLACED], minlength=length)
    arriving, wanting = (np.bincount(of_source[placed], rates[placed], length) for rates in (tps, rest))
    takes = np.where(members > 0, members * limit, 0.0)
    too_much = np.maximum(arriving - takes, 0.0)
    too_much[too_much <= _ROUNDING * arriving] = 0.0
    part = np.minimum(too_much / np.where(wanting > 0, wanting, 1.0), 1.0)
    return np.where(placed, rest * part[of_source], rest)
