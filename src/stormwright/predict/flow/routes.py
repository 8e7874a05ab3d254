"""Who sends how many tuples of a tree to whom under a placement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IndexArray, IntArray
from stormwright.model.traffic.scopes import Scopes, scopes_of
from stormwright.predict.flow.graph import Graph
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.spread import spread
from stormwright.predict.sums import sums

#: Tuples that circle in a topology are followed so far; each round leaves fewer.
_MOST_ROUNDS = 300
_SETTLED = 1e-9


@dataclass(frozen=True, eq=False)
class Routes:
    """Who sends how many tuples of a tree to whom under a placement (P routes).

    Parameters
    ----------
    scopes
        Where executors are.
    handled
        Tuples of a tree that each executor handles, shape (E,).
    source, target, edge
        Executors, and the edge of the graph, shape (P,).
    tuples, size
        For each tree, and bytes of one, shape (P,).
    """

    scopes: Scopes
    handled: FloatArray
    source: IndexArray
    target: IndexArray
    edge: IndexArray
    tuples: FloatArray
    size: FloatArray

    @classmethod
    def under(
        cls,
        profile: Profile,
        graph: Graph,
        problem: Problem,
        slot_of_executor: IntArray,
        near: FloatArray | None = None,
    ) -> Routes:
        """The routes of a profile's traffic if the executors of `problem` sat in `slot_of_executor`.

        Parameters
        ----------
        profile, graph
            Of the load.
        problem
            Has the nodes; the executors are those of the profile.
        slot_of_executor
            Index into the problem's slots, -1 for none, shape (E,).
        near
            Part of its shuffled tuples that stays as near as can be, by topology, the rest going to all executors
            alike; by default all of them, shape (T,).
        """
        pairs, flows = profile.pairs, profile.flows
        scopes = scopes_of(problem, slot_of_executor)
        of_component = profile.layout.executor_component
        flow, member, share = spread(scopes, of_component, flows.source, flows.target, flows.local)
        if near is not None and np.any(near < 1):
            stays = np.where(flows.local, 1.0, near[profile.layout.executor_topology[flows.source]])
            some = np.flatnonzero(stays < 1)
            nowhere = Scopes(*(np.full_like(scope, UNPLACED) for scope in scopes))
            where = flows.source[some], flows.target[some], flows.local[some]
            far, other, part = spread(nowhere, of_component, *where)
            flow, member, share = (
                np.concatenate(both)
                for both in (
                    (flow, some[far]),
                    (member, other),
                    (share * stays[flow], part * (1 - stays[some[far]])),
                )
            )
        source = np.concatenate([pairs.source, flows.source[flow]])
        target = np.concatenate([pairs.target, member])
        each = np.concatenate([pairs.tuples, flows.tuples[flow] * share])
        handled = _handled(profile, source, target, each)
        return cls(
            scopes=scopes,
            handled=handled,
            source=source,
            target=target,
            edge=np.concatenate([graph.of_pair, graph.of_flow[flow]]),
            tuples=each * handled[source],
            size=np.concatenate([pairs.size, flows.size[flow]]),
        )


def _handled(profile: Profile, source: IndexArray, target: IndexArray, each: FloatArray) -> FloatArray:
    """Tuples of a tree that every executor handles: what it begins, and what it is sent of what others handle."""
    layout = profile.layout
    # Spouts are answered by ackers, and handle only what they begin.
    sent_to = (profile.begins[target] == 0) & ~layout.is_spout[layout.executor_component[target]]
    source, target, each = source[sent_to], target[sent_to], each[sent_to]
    handled = profile.begins
    for _ in range(_MOST_ROUNDS):
        received = sums(target, each * handled[source], len(handled))
        again = profile.begins + received
        if np.allclose(again, handled, rtol=_SETTLED, atol=0.0):
            return again
        handled = again
    return handled
