"""Phase 2 of the online scheduler: workers of all topologies onto nodes, those that exchange much onto one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from stormwright.model import CostWeights
from stormwright.model.arrays import FloatArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.optimize.construction.greedy import Bins, Greedy, Items, Pairs
from stormwright.optimize.kernel.records import NOWHERE
from stormwright.schedulers.draft.draft import Draft
from stormwright.schedulers.placing.node_wishes import NodeWishes
from stormwright.schedulers.traffic.rates import Rates

#: Passes over all pairs of workers; few problems still change after the fourth.
_MAX_PASSES = 10

#: How often a topology that finds no place on few nodes is allowed some more.
_MAX_RAISES = 12

#: What nodes should be used for, given the workers and the nodes.
MakeWishes = Callable[[Items, Bins], NodeWishes]


def nodes_by_traffic(draft: Draft, rates: Rates, weights: CostWeights, make_wishes: MakeWishes) -> None:
    """Put the workers of a draft onto nodes by `Greedy.place_pairs`, wherever each finds a place.

    With several racks the least loaded nodes of the racks at hand are tried, too, and the cheaper of both counts. Where
    wishes bound the nodes of topologies from above, one that finds no place is allowed some more, and if all together
    use more than without any bound, it was of no use: then what is cheaper without counts.

    Parameters
    ----------
    draft
        Its `node` is written; fixed workers stay.
    rates
        What executors exchange.
    weights
        Cost of a tuple by distance.
    make_wishes
        What topologies should use. All that is given up for what would find no place otherwise.
    """
    problem = draft.problem
    pairs = rates.between(draft.worker, len(draft.node))
    cpu_hz, memory_mb = draft.worker_use()[:2]
    workers = Items(cpu_hz, memory_mb, pairs.exchange(), np.array(draft.topology, np.int64))
    ports = np.where(draft.usable, [len(node.ports) for node in problem.supervisors], 0.0)
    nodes = Bins(ports, problem.node_cpu_hz, problem.node_memory_mb, problem.node_rack)  # equation 1: B_k
    zone_weight = weights.inter_rack / weights.inter_node - 1
    packing = _Packing(draft, workers, nodes, pairs, make_wishes(workers, nodes), zone_weight)
    draft.node = packing.best().bin_of.tolist()


@dataclass(frozen=True)
class _Packing:
    """Workers that are to go onto nodes."""

    draft: Draft
    workers: Items
    nodes: Bins
    pairs: Pairs
    wishes: NodeWishes
    zone_weight: float

    def best(self) -> Greedy:
        """Of what keeps to the bounds on nodes, if there are any, and what does not, the one that does better."""
        free = self._cheapest({})
        if not self.wishes.most_nodes:
            return free
        bounded = self._cheapest(self.wishes.most_nodes)
        if _left_out(bounded) >= max(_left_out(free), 1):
            # Whoever finds places by small steps then does not look at bounds.
            return free
        return bounded if self._rank(bounded) < self._rank(free, 1 - RELATIVE_TOLERANCE) else free

    def _cheapest(self, bound: Mapping[int, int]) -> Greedy:
        best = self._packed(bound, near=False)
        if len(np.unique(self.nodes.zone)) > 1:
            near = self._packed(bound, near=True)
            # Of the same traffic the sum is another in another order of topologies, in its last digits.
            best = near if self._rank(near) < self._rank(best, 1 - RELATIVE_TOLERANCE) else best
        return best

    def _packed(self, bound: Mapping[int, int], near: bool) -> Greedy:
        """Every worker on a node, if the rule finds one; what is left when all wishes are given up has none."""
        most = dict(bound)
        for _ in range(_MAX_RAISES):
            greedy = self._by_pairs(most, near)
            short = [t for t in self._waiting(greedy) if t in most and most[t] < self.wishes.widest[t]]
            if not short:
                break
            for topology in short:
                most[topology] = min(most[topology] + max(1, most[topology] // 4), self.wishes.widest[topology])
        for topology, least in self.wishes.least_nodes.items():
            self._spread_out(greedy, topology, least)
        greedy.relax(self.nodes)
        greedy.place_rest()
        return greedy

    def _by_pairs(self, most_nodes: Mapping[int, int], near: bool) -> Greedy:
        greedy = Greedy(self.workers, self.nodes, self.zone_weight, most_nodes, self.wishes.on_node)
        for worker, node in enumerate(self.draft.node):
            if self.draft.fixed[worker]:
                greedy.fix(worker, node)
        for _ in range(_MAX_PASSES):
            changed = greedy.place_pairs(self.pairs, near=near)
            greedy.place_rest()
            if not changed:
                break
        return greedy

    def _waiting(self, greedy: Greedy) -> list[int]:
        """Topologies of which a worker has no node."""
        waiting: list[int] = np.unique(self.workers.group[greedy.bin_of == NOWHERE]).tolist()
        return waiting

    def _rank(self, packed: Greedy, part: float = 1.0) -> tuple[int, int, int, float]:
        """Equation 3, after what is placed at all, and nodes where these are bounded; `part` of the cost."""
        excess = nodes = 0
        for topology, most in self.wishes.most_nodes.items():
            used = len(_used(self.workers, packed, topology))
            nodes, excess = nodes + used, excess + max(used - most, 0)
        return _left_out(packed), nodes, excess, part * packed.cost()

    def _spread_out(self, greedy: Greedy, topology: int, least: int) -> None:
        """Move workers of a topology, cheapest first, to nodes that have none of it, until it is on enough of them.

        Each goes to the least loaded node that takes it; ties to the lower worker, and the lower node.
        """
        own = np.flatnonzero(self.workers.group == topology)
        while len(used := _used(self.workers, greedy, topology)) < least:
            nodes = greedy.bin_of[own]
            unused = np.ones(len(self.nodes.items), bool)
            unused[used] = False
            best = (np.inf, NOWHERE, NOWHERE)
            for worker, node in zip(own.tolist(), nodes.tolist(), strict=True):
                free = unused & greedy.takes(worker)
                if self.draft.fixed[worker] or np.count_nonzero(nodes == node) < 2 or node == NOWHERE or not free.any():
                    continue
                to = int(np.argmin(np.where(free, greedy.cpu_hz, np.inf)))
                costs = self._cost_at(greedy, worker, to) - self._cost_at(greedy, worker, node)
                best = min(best, (costs, worker, to))
            if best[1] == NOWHERE:
                return
            greedy.put(*best[1:])

    def _cost_at(self, greedy: Greedy, worker: int, node: int) -> float:
        """What the traffic of a worker would cost on a node, the others being where they are."""
        row = slice(*self.workers.exchange.indptr[worker : worker + 2])
        at = greedy.bin_of[self.workers.exchange.indices[row]]
        far = self.nodes.zone[at] != self.nodes.zone[node]
        cost: FloatArray = np.where(at == node, 0.0, 1.0 + self.zone_weight * far)
        return float(np.sum(np.where(at == NOWHERE, 0.0, cost) * self.workers.exchange.data[row]))


def _left_out(packed: Greedy) -> int:
    """Workers without a node."""
    return int(np.count_nonzero(packed.bin_of == NOWHERE))


def _used(workers: Items, packed: Greedy, topology: int) -> list[int]:
    """Nodes that a topology is on."""
    nodes = packed.bin_of[(workers.group == topology) & (packed.bin_of != NOWHERE)]
    used: list[int] = np.unique(nodes).tolist()
    return used
