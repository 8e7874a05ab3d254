"""View models of the current state, computed in the background."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stormwright.base.clock import WALL, Clock
from stormwright.errors import StormwrightError
from stormwright.model import UNPLACED, Problem
from stormwright.model.peculiarities import Peculiarity, peculiarities
from stormwright.predict.answer import predict
from stormwright.predict.prediction import Prediction, TopologyPrediction
from stormwright.service.dashboard.flows import Flow, Heat, component_flows
from stormwright.service.dashboard.node_figures import MeasuredNode, NodeFigures, RequestedResources, in_slots


@dataclass(frozen=True, eq=False)
class Scene:
    """The current state at one moment.

    Parameters
    ----------
    number
        Grows with each scene.
    at_ms
        When it was taken.
    problem
        What it is of.
    predicted, unpredicted
        The state that it comes to; None where it cannot be predicted, with the reason.
    requests, nodes, heat
        What executors ask for, how full nodes are, and what these send each other.
    """

    number: int
    at_ms: int
    problem: Problem
    predicted: Prediction | None
    unpredicted: str
    requests: RequestedResources
    nodes: NodeFigures
    heat: Heat

    @classmethod
    def of(
        cls,
        problem: Problem,
        last: Scene | None = None,
        clock: Clock = WALL,
        measured: Mapping[str, MeasuredNode] | None = None,
    ) -> Scene:
        """Return the scene of a problem, reusing unchanged parts of the last one.

        Parameters
        ----------
        problem, last, clock
            Current problem, last scene, and clock of the cluster.
        measured
            Id of a supervisor → measured CPU of its whole node.
        """
        at_ms, number = round(clock.time() * 1000), last.number if last else 0
        if last and _same(problem, last.problem):
            nodes = NodeFigures.of(problem, last.requests, last.predicted, measured) if measured else last.nodes
            return cls(number, at_ms, problem, last.predicted, last.unpredicted, last.requests, nodes, last.heat)
        predicted, why = _predicted(problem)
        requests = (
            last.requests if last and last.problem.workload is problem.workload else RequestedResources.of(problem)
        )
        nodes = NodeFigures.of(problem, requests, predicted, measured)
        return cls(number + 1, at_ms, problem, predicted, why, requests, nodes, Heat.of(problem))

    @cached_property
    def by_topology(self) -> dict[str, TopologyPrediction]:
        """Topology (id) → prediction."""
        return {each.topology: each for each in self.predicted.topologies} if self.predicted else {}

    def flows(self, topology: int) -> list[Flow]:
        """Return the flows of a topology (by index), computed once (`component_flows`)."""
        if topology not in self._flows:
            self._flows[topology] = component_flows(self.problem, topology)
        return self._flows[topology]

    @cached_property
    def _flows(self) -> dict[int, list[Flow]]:
        return {}

    @cached_property
    def workers(self) -> dict[int, list[int]]:
        """Slot → its executors."""
        return in_slots(self.problem)

    @cached_property
    def unplaced(self) -> dict[str, int]:
        """Topology (id) → its executors without a slot, of those that have some."""
        lost = np.bincount(
            self.problem.executor_topology[self.problem.current_slot == UNPLACED],
            minlength=len(self.problem.topologies),
        )
        return {self.problem.topologies[index].id: int(lost[index]) for index in np.flatnonzero(lost)}

    @cached_property
    def peculiarities(self) -> dict[str, list[Peculiarity]]:
        """Topology (id) → properties of its components, of those that have some."""
        found = ((each.id, list(peculiarities(self.problem, t))) for t, each in enumerate(self.problem.topologies))
        return {topology: own for topology, own in found if own}

    @property
    def rate_tps(self) -> float:
        """Trees/s of all topologies that were measured."""
        return sum(each.measured_tps for each in self.by_topology.values() if not each.assumed)

    def short(self) -> list[TopologyPrediction]:
        """Return topologies whose measured rate may not be sustained, worst first."""
        found = [each for each in self.by_topology.values() if each.sustained in ("no", "perhaps") and not each.assumed]
        return sorted(found, key=lambda each: each.headroom)


def _same(problem: Problem, last: Problem) -> bool:
    """Whether nothing that a scene shows has changed: each part is made of the same."""
    return all(now is was for now, was in zip(problem.parts or (), last.parts or (), strict=True))


def _predicted(problem: Problem) -> tuple[Prediction | None, str]:
    if not (problem.current_slot != UNPLACED).any():
        return None, "nothing runs yet"
    try:
        return predict(problem), ""
    except StormwrightError as error:
        return None, str(error)
