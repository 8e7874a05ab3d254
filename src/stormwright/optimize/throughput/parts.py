"""Placement-independent data: the order of components, and the input of each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.optimize.kernel.records import Records
from stormwright.optimize.throughput.records import COMPONENT, DEAL, FLOW, HAND, PAIR, TAKER
from stormwright.predict.flow.fields_grouping import Distributions
from stormwright.predict.flow.mix import Mix
from stormwright.predict.flow.profile import Profile
from stormwright.predict.sums import ratio, sums

#: Rounds for which tuples in a cycle are followed.
_ROUNDS = 30

#: Rounds if some executors of a component begin trees and others handle its input.
_MIXED = 3


class Parts(NamedTuple):
    """Placement-independent records: components in order, the passes over them, and their input.

    A search only reads these records.
    """

    order: IndexArray
    rounds: IndexArray
    components: Records
    flows: Records
    pairs: Records
    deals: Records
    senders: Records
    receivers: Records

    @classmethod
    def of(cls, profile: Profile) -> Parts:
        """Return the parts of a load."""
        order, rounds = _order(profile)
        order = order[np.argsort(profile.layout.topology[order], kind="stable")]
        holds = profile.graph.blocking_weight(profile.layout, _along_edges(profile))
        holds[profile.graph.begun] = 0.0  # trees seldom wait for it
        return cls(order, rounds, *_sent(profile, order)).by_edge(profile, "holds", holds)

    def mixed(self, profile: Profile, mix: Mix | None) -> Parts:
        """Return the same, with the relative work of tuples by edge."""
        if mix is None:
            return self
        found = self.by_edge(profile, "more", mix.edge - 1.0)
        flows = found.flows
        return found._replace(flows=flows[np.lexsort((flows["source"], flows["more"], self._rank_of_flows))])

    @property
    def _rank_of_flows(self) -> IndexArray:
        """Rank of the target component of each flow."""
        return np.repeat(np.arange(len(self.order)), self.components["last_flow"] - self.components["first_flow"])

    def by_edge(self, profile: Profile, name: str, of_edge: FloatArray) -> Parts:
        """Return the parts with a field of the input set by edge, shape (D,)."""
        component, width = profile.layout.executor_component, np.int64(len(profile.layout.size))
        keys = profile.graph.source * width + profile.graph.target
        flows, pairs, senders = self.flows.copy(), self.pairs.copy(), self.senders.copy()
        deal = np.repeat(np.arange(len(self.deals)), self.deals["last_hand"] - self.deals["first_hand"])
        for sent, target in (
            (flows, self.order[self._rank_of_flows]),
            (pairs, component[pairs["target"]]),
            (senders, self.order[self.deals["component"][deal]]),
        ):
            sent[name] = of_edge[np.searchsorted(keys, component[sent["source"]] * width + target)]
        return self._replace(flows=flows, pairs=pairs, senders=senders)


def _along_edges(profile: Profile) -> FloatArray:
    """Return tuples of a tree along every edge, shape (D,): they hardly depend on the placement."""
    graph, pairs, flows = profile.graph, profile.pairs, profile.flows
    edge = np.concatenate([graph.targets.edge[graph.pair_target], graph.of_flow])
    tps = [each.tuples * profile.handled_tps[each.source] for each in (pairs, flows)]
    along = sums(edge, np.concatenate(tps), len(graph.source))
    return ratio(along, profile.rate_tps[profile.layout.topology[graph.source]])


def _sent(profile: Profile, order: IndexArray) -> tuple[Records, ...]:
    """Return components in `order`, and their input by component: flows, pairs, and distributions."""
    layout, count = profile.layout, len(order)
    distributions = Distributions.of(profile.pairs, layout.executor_component)
    pairs = profile.pairs.at(distributions.single)
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    components = np.zeros(count, COMPONENT)
    components["first"], components["last"] = layout.first[:-1][order], layout.first[1:][order]
    found = []
    for kind, dtype, to in (
        (profile.flows, FLOW, profile.flows.target),
        (pairs, PAIR, layout.executor_component[pairs.target]),
    ):
        by = np.lexsort((kind.source, rank[to]))
        records = np.zeros(len(by), dtype)
        for name in kind._fields:
            if name in (dtype.names or ()):
                records[name] = getattr(kind, name)[by]
        begin = np.searchsorted(rank[to][by], np.arange(count + 1))
        name = "flow" if dtype is FLOW else "pair"
        components[f"first_{name}"], components[f"last_{name}"] = begin[:-1], begin[1:]
        found.append(records)
    deals, senders, receivers = _distributions(distributions, rank[layout.executor_component])
    begin = np.searchsorted(deals["component"], np.arange(count + 1))
    components["first_deal"], components["last_deal"] = begin[:-1], begin[1:]
    return components, *found, deals, senders, receivers


def _distributions(distributions: Distributions, rank: IndexArray) -> tuple[Records, Records, Records]:
    """Return distributions by the rank of their target component, and sources and targets of each."""
    count = int(distributions.receivers.deal.max(initial=-1)) + 1
    deals = np.zeros(count, DEAL)
    deals["component"][distributions.receivers.deal] = rank[distributions.receivers.executor]
    order = np.argsort(deals["component"], kind="stable")
    deals, number = deals[order], np.empty(count, np.int64)
    number[order] = np.arange(count)
    found = []
    for name, kind, dtype in (("hand", distributions.senders, HAND), ("taker", distributions.receivers, TAKER)):
        by = np.argsort(number[kind.deal], kind="stable")
        begin = np.searchsorted(number[kind.deal][by], np.arange(count + 1))
        deals[f"first_{name}"], deals[f"last_{name}"] = begin[:-1], begin[1:]
        records = np.zeros(len(by), dtype)
        for field in kind._fields:
            if field in (dtype.names or ()):
                records[field] = getattr(kind, field)[by]
        found.append(records)
    return deals, found[0], found[1]


def _order(profile: Profile) -> tuple[IndexArray, IndexArray]:
    """Return components so that each comes after its sources, and the number of passes over them, (T,).

    Spouts come last: their input does not make them handle more. Components of a cycle follow in any order,
    and their topology is passed over repeatedly.
    """
    layout = profile.layout
    count = len(layout.size)
    beginning = np.bincount(layout.executor_component, profile.begins > 0, count)
    begins = beginning > 0
    source, target = profile.graph.source, profile.graph.target
    keep = ~begins[target] & ~begins[source]
    waits = np.bincount(target[keep], minlength=count)
    onward: dict[int, list[int]] = {}
    for start, end in zip(source[keep].tolist(), target[keep].tolist(), strict=True):
        onward.setdefault(start, []).append(end)
    ready = [component for component in range(count) if waits[component] == 0 and not begins[component]]
    for component in ready:  # grows meanwhile
        for after in onward.get(component, ()):
            waits[after] -= 1
            if waits[after] == 0:
                ready.append(after)
    visited = np.zeros(count, bool)
    visited[ready] = True
    circling = ~visited & ~begins
    order = np.concatenate([np.array(ready, np.int64), np.flatnonzero(circling), np.flatnonzero(begins)])
    rounds = np.ones(len(layout.pending), np.int64)
    rounds[layout.topology[begins & (beginning < layout.size)]] = _MIXED
    rounds[layout.topology[circling]] = _ROUNDS
    return order, rounds
