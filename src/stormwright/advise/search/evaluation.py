"""Evaluation of a placement on some nodes: utilisation and latency."""

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
from stormwright.predict.steady import PlacedLoad, SteadyState

#: Tolerance of rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class EvaluatedPlacement:
    """A placement at the requested rates.

    Parameters
    ----------
    problem, mix
        The topologies with their executors on the nodes of a mix.
    assignment
        Placement of the executors.
    placed, state
        Result of the evaluation.
    held
        Topology and component (indices) → part of a thread that its busiest executor keeps busy at least, where more
        than its CPU was measured.
    """

    problem: Problem
    mix: NodeMix
    assignment: Assignment
    placed: PlacedLoad
    state: SteadyState
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
        """Evaluate an assignment.

        Parameters
        ----------
        problem, mix, assignment, held
            As in the class.
        profile
            Load of the same executors at the required rates.
        known
            Costs, and corrections by topology id.
        """
        placed = PlacedLoad.under(profile, problem, assignment.slot_of_executor)
        placed, (state,) = steady_states(placed, profile.rate_tps, profile.rate_tps, [known])
        return cls(problem, mix, assignment, placed, state, held)

    @property
    def complete(self) -> bool:
        """Whether every executor has a slot."""
        return not np.any(self.assignment.slot_of_executor == UNPLACED)

    @cached_property
    def thread_use(self) -> FloatArray:
        """Return the cores used by each thread: executors', then sending and receiving ones, (E + 2 W,)."""
        demand = self.state.demand
        used: FloatArray = self.state.given.rate_tps[demand.thread_topology] * demand.thread_s
        return used

    @cached_property
    def component_use(self) -> dict[tuple[int, int], float]:
        """Return the utilisation of the busiest executor by topology and component (indices)."""
        layout = self.placed.profile.layout
        most = np.zeros(len(layout.size))
        np.maximum.at(most, layout.executor_component, self.thread_use[: self.problem.num_executors])
        number = np.arange(len(most)) - layout.component_offset[layout.topology]
        keys = zip(layout.topology.tolist(), number.tolist(), strict=True)
        return {key: max(use, self.held.get(key, 0.0)) for key, use in zip(keys, most.tolist(), strict=True)}

    @cached_property
    def cpu_use(self) -> FloatArray:
        """CPU utilisation of every node, shape (N,)."""
        return node_use(self.state.demand, self.state.given.rate_tps)

    @property
    def total_use(self) -> float:
        """CPU utilisation of all nodes together."""
        cores = self.state.demand.nodes.cores
        return float(self.cpu_use @ cores / max(cores.sum(), 1e-12))

    @property
    def cpu_hz(self) -> float:
        """Used CPU of all nodes together."""
        return self.total_use * self.mix.cpu_hz

    @cached_property
    def link_use(self) -> FloatArray:
        """Link utilisation of every node in its busier direction, shape (N,)."""
        used = self.state.demand.link_use(self.state.given.rate_tps)
        return np.maximum(*np.split(used, 2))

    @cached_property
    def message_use(self) -> float:
        """Cores used by the busiest messaging thread of a worker."""
        return float(self.thread_use[self.problem.num_executors :].max(initial=0.0))

    def fullest(self, chosen: set[int]) -> float:
        """Return the highest utilisation of nodes, links and threads; of executors only those of some topologies."""
        threads = [use for (topology, _), use in self.component_use.items() if topology in chosen]
        shared = (self.cpu_use.max(initial=0.0), self.link_use.max(initial=0.0), self.message_use)
        return float(max(*shared, *threads)) if threads else float(max(shared))

    def too_full(self, chosen: set[int], allowed: float) -> list[tuple[int, int]]:
        """Return topologies and components with an overloaded executor, of some topologies; fullest first."""
        over = {key: use for key, use in self.component_use.items() if key[0] in chosen and use > allowed + _ROUNDING}
        return sorted(over, key=lambda key: (-over[key], key))

    def node_fault(self, allowed: float) -> str:
        """Return a text about overloaded nodes; empty if there are none."""
        kinds = ((self.cpu_use, "CPU"), (self.link_use, "link"))
        worst, name, node = max((float(use.max(initial=0.0)), name, int(np.argmax(use))) for use, name in kinds)
        if worst > allowed + _ROUNDING:
            return f"the {name} of {self.problem.cluster.node_names[node]} would be {worst:.0%} full"
        if self.message_use > allowed + _ROUNDING:
            return f"a thread that sends or receives messages would be {self.message_use:.0%} busy"
        return ""

    def p95_ms(self, topology: int) -> float:
        """Return the 95th percentile of a topology's complete latency in ms."""
        return float(self.state.given.ways.latency.quantile(P95)[topology] * 1e3)

    def mean_ms(self, topology: int) -> float:
        """Return the mean complete latency of a topology in ms."""
        return float(self.state.given.ways.latency.mean[topology] * 1e3)

    def highest_tps(self, topology: int) -> float:
        """Return the highest trees/s of a topology, if all grow by the same factor."""
        return float(self.state.highest_tps[topology])

    def bottleneck(self, topology: int) -> str:
        """Return the first bottleneck of a topology as text."""
        return str(bottleneck_of(self.problem, self.placed.profile, self.state, topology))

    def pending(self, topology: int) -> float:
        """Return the mean number of pending trees."""
        return float(self.state.given.rate_tps[topology] * self.state.given.ways.cycle.mean[topology])

    def workers(self, topology: int) -> int:
        """Return the number of workers of a topology."""
        slots = self.assignment.slot_of_executor[self.problem.executors_of(topology)]
        return len(set(slots.tolist()) - {UNPLACED})

    def used_nodes(self) -> set[int]:
        """Return the nodes in use."""
        slots = self.assignment.slot_of_executor
        return set(self.problem.slot_node[slots[slots != UNPLACED]].tolist())

    @cached_property
    def used(self) -> NodeMix:
        """Return the number of used nodes of each kind."""
        kinds = [self.mix.kind_of(node) for node in self.used_nodes()]
        return NodeMix(self.mix.kinds, tuple(kinds.count(kind) for kind in self.mix.kinds))
