"""What a placement of so many executors on some nodes comes to: how full everything is, and how long trees take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stormwright.advise.observed import P95
from stormwright.advise.search.kinds import NodeMix
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.predict.costs import Correction, Costs
from stormwright.predict.evaluate import steady_states
from stormwright.predict.flow.profile import Profile
from stormwright.predict.queueing.waits import node_use
from stormwright.predict.reach import bottleneck_of
from stormwright.predict.steady import Placed, Steady

#: What is over by less is so for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class EvaluatedPlacement:
    """A placement, at the rates that are asked for.

    Parameters
    ----------
    problem, mix
        The topologies with their executors on the nodes of a mix.
    assignment
        Where they run.
    placed, state
        What it comes to.
    held
        Topology and component (indices) → part of a thread that its busiest executor keeps busy at least, where more
        than its CPU was measured.
    """

    problem: Problem
    mix: NodeMix
    assignment: Assignment
    placed: Placed
    state: Steady
    held: Mapping[tuple[int, int], float]

    @classmethod
    def of(
        cls,
        problem: Problem,
        mix: NodeMix,
        assignment: Assignment,
        profile: Profile,
        known: tuple[Costs, Mapping[str, Correction]],
        held: Mapping[tuple[int, int], float],
    ) -> EvaluatedPlacement:
        """That of an assignment.

        Parameters
        ----------
        problem, mix, assignment, held
            As above.
        profile
            Of the same executors, at the rates that are asked for.
        known
            Costs, and corrections by topology id.
        """
        placed = Placed.under(profile, problem, assignment.slot_of_executor)
        placed, (state,) = steady_states(placed, profile.rate_tps, profile.rate_tps, [known])
        return cls(problem, mix, assignment, placed, state, held)

    @property
    def complete(self) -> bool:
        """Whether every executor has a slot."""
        return not np.any(self.assignment.slot_of_executor == UNPLACED)

    @cached_property
    def thread_use(self) -> FloatArray:
        """Part of a core that each thread takes: executors', then those that send and that receive; (E + 2 W,)."""
        demand = self.state.demand
        used: FloatArray = self.state.given.rate_tps[demand.thread_topology] * demand.thread_s
        return used

    @cached_property
    def component_use(self) -> dict[tuple[int, int], float]:
        """Topology and component (indices) → part of the time for which its busiest executor has work."""
        layout = self.placed.profile.layout
        most = np.zeros(len(layout.size))
        np.maximum.at(most, layout.executor_component, self.thread_use[: self.problem.num_executors])
        number = np.arange(len(most)) - layout.component_offset[layout.topology]
        keys = zip(layout.topology.tolist(), number.tolist(), strict=True)
        return {key: max(use, self.held.get(key, 0.0)) for key, use in zip(keys, most.tolist(), strict=True)}

    @cached_property
    def cpu_use(self) -> FloatArray:
        """Part of every node's CPU in use, shape (N,)."""
        return node_use(self.state.demand, self.state.given.rate_tps)

    @property
    def total_use(self) -> float:
        """Part of the CPU of all nodes together in use."""
        cores = self.state.demand.nodes.cores
        return float(self.cpu_use @ cores / max(cores.sum(), 1e-12))

    @property
    def cpu_hz(self) -> float:
        """CPU of all nodes together in use."""
        return self.total_use * self.mix.cpu_hz

    @cached_property
    def link_use(self) -> FloatArray:
        """Part of every node's link in use in its busier direction, shape (N,)."""
        used = self.state.demand.link_use(self.state.given.rate_tps)
        return np.maximum(*np.split(used, 2))

    @cached_property
    def message_use(self) -> float:
        """Part of a core that the busiest thread takes which sends or receives for a worker."""
        return float(self.thread_use[self.problem.num_executors :].max(initial=0.0))

    def fullest(self, chosen: set[int]) -> float:
        """How full the fullest of nodes, links and threads is; of executors those of some topologies count."""
        threads = [use for (topology, _), use in self.component_use.items() if topology in chosen]
        shared = (self.cpu_use.max(initial=0.0), self.link_use.max(initial=0.0), self.message_use)
        return float(max(*shared, *threads)) if threads else float(max(shared))

    def too_full(self, chosen: set[int], allowed: float) -> list[tuple[int, int]]:
        """Topologies and components with an executor that is fuller than allowed, of some topologies; fullest first."""
        over = {key: use for key, use in self.component_use.items() if key[0] in chosen and use > allowed + _ROUNDING}
        return sorted(over, key=lambda key: (-over[key], key))

    def node_fault(self, allowed: float) -> str:
        """What of the nodes is fuller than allowed, in words; empty where nothing is."""
        kinds = ((self.cpu_use, "CPU"), (self.link_use, "link"))
        worst, name, node = max((float(use.max(initial=0.0)), name, int(np.argmax(use))) for use, name in kinds)
        if worst > allowed + _ROUNDING:
            return f"the {name} of {self.problem.cluster.node_names[node]} would be {worst:.0%} full"
        if self.message_use > allowed + _ROUNDING:
            return f"a thread that sends or receives messages would be {self.message_use:.0%} busy"
        return ""

    def p95_ms(self, topology: int) -> float:
        """95th percentile of a topology's complete latency in ms."""
        return float(self.state.given.ways.latency.quantile(P95)[topology] * 1e3)

    def mean_ms(self, topology: int) -> float:
        """Mean complete latency of a topology in ms."""
        return float(self.state.given.ways.latency.mean[topology] * 1e3)

    def highest_tps(self, topology: int) -> float:
        """Trees/s that a topology can come to, all growing by the same factor."""
        return float(self.state.highest_tps[topology])

    def bottleneck(self, topology: int) -> str:
        """What limits a topology first, in words."""
        return str(bottleneck_of(self.problem, self.placed.profile, self.state, topology))

    def pending(self, topology: int) -> float:
        """Trees that are under way at once, on average."""
        return float(self.state.given.rate_tps[topology] * self.state.given.ways.cycle.mean[topology])

    def workers(self, topology: int) -> int:
        """How many workers a topology has."""
        slots = self.assignment.slot_of_executor[self.problem.executors_of(topology)]
        return len(set(slots.tolist()) - {UNPLACED})

    def used_nodes(self) -> set[int]:
        """Nodes on which anything runs."""
        slots = self.assignment.slot_of_executor
        return set(self.problem.slot_node[slots[slots != UNPLACED]].tolist())

    @cached_property
    def used(self) -> NodeMix:
        """How many nodes of each kind have anything."""
        kinds = [self.mix.kind_of(node) for node in self.used_nodes()]
        return NodeMix(self.mix.kinds, tuple(kinds.count(kind) for kind in self.mix.kinds))
