"""What runs now, with all that pages show of it worked out: made beside the pages, never for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stormwright.clock import WALL, Clock
from stormwright.errors import StormwrightError
from stormwright.model import UNPLACED, Problem
from stormwright.predict.answer import predict
from stormwright.predict.prediction import Prediction, TopologyPrediction
from stormwright.service.pages.seen.flows import Heat
from stormwright.service.pages.seen.nodes import AskedFor, NodeFigures, in_slots


@dataclass(frozen=True, eq=False)
class Scene:
    """A moment of what runs.

    Parameters
    ----------
    number
        Grows with each scene.
    at_ms
        When it was taken.
    problem
        What it is of.
    predicted, unpredicted
        The state that it comes to; None where that cannot be said, with the reason.
    asked, nodes, heat
        What executors ask for, how full nodes are, and what these send each other.
    """

    number: int
    at_ms: int
    problem: Problem
    predicted: Prediction | None
    unpredicted: str
    asked: AskedFor
    nodes: NodeFigures
    heat: Heat

    @classmethod
    def of(cls, problem: Problem, last: Scene | None = None, clock: Clock = WALL) -> Scene:
        """Of a problem; what has not changed since the last scene is taken from it."""
        at_ms, number = round(clock.time() * 1000), last.number if last else 0
        if last and _same(problem, last.problem):
            return cls(number, at_ms, problem, last.predicted, last.unpredicted, last.asked, last.nodes, last.heat)
        predicted, why = _predicted(problem)
        asked = last.asked if last and last.problem.workload is problem.workload else AskedFor.of(problem)
        nodes = NodeFigures.of(problem, asked, predicted)
        return cls(number + 1, at_ms, problem, predicted, why, asked, nodes, Heat.of(problem))

    @cached_property
    def by_topology(self) -> dict[str, TopologyPrediction]:
        """Topology (id) → what is predicted of it."""
        return {each.topology: each for each in self.predicted.topologies} if self.predicted else {}

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

    @property
    def rate_tps(self) -> float:
        """Trees/s of all topologies that were measured."""
        return sum(each.measured_tps for each in self.by_topology.values() if not each.assumed)

    def short(self) -> list[TopologyPrediction]:
        """Topologies whose measured rate is not sustained for sure, the worst first."""
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
