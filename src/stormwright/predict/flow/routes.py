"""Routes of tuples under a placement: tuples of a tree per executor, and messages between workers and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.predict.flow.part import TopologySubset
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.spread import Spread, SpreadFlows, spread
from stormwright.predict.sums import ratio, sums
from stormwright.predict.workers import SteadyWorkers

if TYPE_CHECKING:
    from scipy.sparse import coo_array

#: Rounds for which tuples in a cycle are followed; each round leaves fewer.
_MAX_ROUNDS = 300
_SETTLED = 1e-12

#: Relative size below which a difference of sums is rounding.
_ROUNDING = 1e-12


class Messages(NamedTuple):
    """Messages of a tree, at the ends of edges: tuples and bytes, and the part of these that leaves nodes; (K,)."""

    tuples: FloatArray
    bytes: FloatArray
    far_tuples: FloatArray
    far_bytes: FloatArray


@dataclass(frozen=True, eq=False)
class Routes:
    """Tuples of a tree under a placement; or of several trees, which are then the first axis of all arrays.

    Parameters
    ----------
    workers
        Workers of the placement.
    handled
        Tuples of a tree that each executor handles, shape (E,).
    edge_tuples
        Along each edge of the graph, shape (D,).
    came
        Tuples that come to each executor: at the target ends of edges, shape (K,).
    sent, received
        Messages, at the source ends and at the target ends of edges.
    """

    workers: SteadyWorkers
    handled: FloatArray
    edge_tuples: FloatArray
    came: FloatArray
    sent: Messages
    received: Messages

    def of_part(self, part: TopologySubset, workers: SteadyWorkers) -> Routes:
        """Return the routes of some topologies, whose executors are in these workers."""
        at_sources, at_targets = part.ends
        return Routes(
            workers=workers,
            handled=self.handled[part.executors],
            edge_tuples=self.edge_tuples[part.edges],
            came=self.came[at_targets],
            sent=Messages(*(each[at_sources] for each in self.sent)),
            received=Messages(*(each[at_targets] for each in self.received)),
        )

    def with_part(self, part: TopologySubset, other: Routes, workers: SteadyWorkers) -> Routes:
        """Return these routes with those of some topologies from `other`; `workers` are those of all executors."""
        at_sources, at_targets = part.ends

        def messages(ours: Messages, theirs: Messages, at: IndexArray) -> Messages:
            return Messages(*(_with(old, new, at) for old, new in zip(ours, theirs, strict=True)))

        return Routes(
            workers=workers,
            handled=_with(self.handled, other.handled, part.executors),
            edge_tuples=_with(self.edge_tuples, other.edge_tuples, part.edges),
            came=_with(self.came, other.came, at_targets),
            sent=messages(self.sent, other.sent, at_sources),
            received=messages(self.received, other.received, at_targets),
        )


@dataclass(frozen=True, eq=False)
class Paths:
    """Targets of executors under a placement, independent of the number of tuples.

    Parameters
    ----------
    profile
        Profile of the load.
    workers
        Workers of the placement.
    """

    profile: Profile
    workers: SteadyWorkers

    def routes(self, near: FloatArray | None = None, begins: FloatArray | None = None) -> Routes:
        """Return the routes of tuples along the paths.

        Parameters
        ----------
        near
            Fraction of shuffled tuples that stays as local as possible, by topology, the rest going to all executors
            alike; by default all of them, shape (T,).
        begins
            Tuples of a tree that every executor begins, shape (E,), if not those of the profile: ackers answer
            each spout as often as it begins one. Of several trees, shape (…, E).
        """
        handled = self._handled(near, self.profile.begins if begins is None else begins)
        sent, received, came = self._of_pairs(handled, begins)
        along = sums(self.profile.graph.targets.edge, came, len(self.profile.graph.target))
        flows, graph = self.profile.flows, self.profile.graph
        for where, part in self._spreads(near):
            amounts = part * flows.tuples * handled.take(flows.source, axis=-1)
            along += sums(graph.of_flow, amounts, along.shape[-1])
            starts, ends = graph.flow_source, graph.targets.number(where.edge, where.member)
            for row, each in enumerate((amounts, amounts * flows.size)):
                sent[row] += sums(starts, where.leaves * each, sent.shape[-1])
                sent[2 + row] += sums(starts, where.leaves_node * each, sent.shape[-1])
                lots = where.lots(each)
                if row == 0:
                    came += sums(ends, where.gets * lots, came.shape[-1])
                received[row] += _rest(ends, where.comes * lots, received.shape[-1])
                received[2 + row] += _rest(ends, where.comes_far * lots, received.shape[-1])
        return Routes(self.workers, handled, along, came, Messages(*sent), Messages(*received))

    @cached_property
    def _matrix(self) -> coo_array:
        from scipy.sparse import coo_array  # takes longer to import than the rest

        pairs, count = self.profile.pairs, len(self.workers.of_executor)
        return coo_array((pairs.tuples, (pairs.target, pairs.source)), shape=(count, count))

    def _spreads(self, near: FloatArray | None) -> list[tuple[Spread, FloatArray]]:
        """Return the targets of flows, and the fraction of each that goes there."""
        flows = self.profile.flows
        if near is None or np.all(near == 1):
            return [(self._near, np.ones(len(flows.source)))]
        stays = np.where(flows.local, 1.0, near[self.profile.layout.executor_topology[flows.source]])
        return [(self._near, stays), (self._everywhere, 1.0 - stays)]

    @cached_property
    def _near(self) -> Spread:
        return self._spread(near=True)

    @cached_property
    def _everywhere(self) -> Spread:
        return self._spread(near=False)

    def _spread(self, *, near: bool) -> Spread:
        graph, sent = self.profile.graph, self.profile.flows
        flows = SpreadFlows(sent.source, graph.of_flow, sent.local)
        return spread(self.workers.scopes, self.profile.layout.executor_component, graph.target, flows, near=near)

    def _handled(self, near: FloatArray | None, begins: FloatArray) -> FloatArray:
        """Return the tuples of a tree that every executor handles: those it begins, and those it receives."""
        layout, flows = self.profile.layout, self.profile.flows
        # Ackers answer spouts, which handle only the trees that they begin.
        takes = (self.profile.begins == 0) & ~layout.is_spout[layout.executor_component]
        handled = begins
        for _ in range(_MAX_ROUNDS):
            received = np.reshape((self._matrix @ handled.T).T, handled.shape)  # one executor's would be no array
            for where, part in self._spreads(near):
                lots = where.lots(part * flows.tuples * handled.take(flows.source, axis=-1))
                received += sums(where.member, where.gets * lots, received.shape[-1])
            updated = begins + np.where(takes, received, 0.0)
            if np.allclose(updated, handled, rtol=_SETTLED, atol=0.0):
                return updated
            handled = updated
        return handled

    @cached_property
    def _kind(self) -> IndexArray:
        """Distance of every pair: 0 in one worker, 1 on one node, 2 between nodes."""
        source, target = self.profile.pairs.source, self.profile.pairs.target
        slot, node, _ = self.workers.scopes
        other_worker, other_node = slot[source] != slot[target], node[source] != node[target]
        kind: IndexArray = other_worker.astype(np.int64) + other_node
        return kind

    def _of_pairs(self, handled: FloatArray, begins: FloatArray | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return messages of pairs that are sent and received, shapes (4, …, K), and all tuples that come, (…, K)."""
        pairs, graph, layout = self.profile.pairs, self.profile.graph, self.profile.layout
        tuples = pairs.tuples * handled.take(pairs.source, axis=-1)
        if begins is not None:
            answers = layout.is_spout[layout.executor_component]
            tuples *= np.where(answers, ratio(begins, self.profile.begins), 1.0).take(pairs.target, axis=-1)
        found = []
        for numbers, ends in ((graph.pair_source, graph.sources), (graph.pair_target, graph.targets)):
            at, count = numbers * 3 + self._kind, len(ends.edge)
            amounts, volume = (
                sums(at, each, 3 * count).reshape(*tuples.shape[:-1], count, 3)
                for each in (tuples, tuples * pairs.size)
            )
            leaves, leaves_node = ([each[..., kind:].sum(axis=-1) for each in (amounts, volume)] for kind in (1, 2))
            found.append(np.stack([*leaves, *leaves_node]))
        return found[0], found[1], amounts.sum(axis=-1)


def _with(old: FloatArray, new: FloatArray, at: IndexArray) -> FloatArray:
    amounts = old.copy()
    amounts[at] = new
    return amounts


def _rest(end: IndexArray, amounts: FloatArray, length: int) -> FloatArray:
    """Return the sums of `amounts` at ends, some of which are subtracted."""
    total, gross = sums(end, amounts, length), sums(end, np.abs(amounts), length)
    return np.where(total > _ROUNDING * gross, total, 0.0)
