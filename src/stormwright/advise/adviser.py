"""Input and output of advisers: observations of a window, and wanted sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stormwright.model import Assignment, Problem


@dataclass(frozen=True, slots=True)
class ComponentObservation:
    """Behaviour of a component in a window.

    Parameters
    ----------
    component
        Name of the component.
    is_spout
        Whether it begins trees.
    executors, tasks
        Their numbers; a rebalance gives it at most as many executors as tasks.
    true_tps
        Tuples/s that one executor handles while it has work (DS2's true processing rate), on average over the
        executors; inf if it took no time.
    input_tps, output_tps
        Handled tuples/s, of a spout begun trees/s; and sent tuples/s.
    busy, busiest
        Utilisation of its executors: mean and maximum.
    held_back
        Fraction of the time during which its full queues throttled the spouts.
    inputs
        Source component → tuples/s.
    """

    component: str
    is_spout: bool
    executors: int
    tasks: int
    true_tps: float
    input_tps: float
    output_tps: float
    busy: float
    busiest: float
    held_back: float = 0.0
    inputs: Mapping[str, float] = field(default_factory=dict)

    @property
    def selectivity(self) -> float:
        """Tuples sent per handled tuple."""
        return self.output_tps / self.input_tps if self.input_tps > 0 else 0.0


@dataclass(frozen=True)
class Observation:
    """One topology in one window.

    Parameters
    ----------
    topology
        Id of the topology.
    components
        Its components, in the topology's order.
    wanted_tps, reached_tps
        Offered trees/s, and those that it began.
    workers
        Number of its workers.
    p95_ms
        95th percentile of complete latency; None if unknown.
    problem
        Cluster, placement and measured load, if known from probes or metrics.
    """

    topology: str
    components: tuple[ComponentObservation, ...]
    wanted_tps: float
    reached_tps: float
    workers: int
    p95_ms: float | None = None
    problem: Problem | None = None

    @property
    def executors(self) -> dict[str, int]:
        """Component → number of its executors."""
        return {observation.component: observation.executors for observation in self.components}

    @property
    def total(self) -> int:
        """Number of executors of all components."""
        return sum(observation.executors for observation in self.components)


@dataclass(frozen=True)
class TargetSize:
    """Size of a topology that an adviser recommends.

    Parameters
    ----------
    executors
        Component → executors, from 1 to its number of tasks.
    workers
        Number of workers; None for no change.
    why
        Reason for this size, as a sentence.
    problem, assignment
        The topology with these executors on the recommended nodes, and its placement; None if the adviser does not
        determine them.
    """

    executors: Mapping[str, int]
    workers: int | None = None
    why: str = ""
    problem: Problem | None = None
    assignment: Assignment | None = None

    def changes(self, observation: Observation) -> bool:
        """Return whether applying it would rebalance the topology."""
        other = dict(self.executors) != observation.executors or self.workers not in (None, observation.workers)
        return other or self.assignment is not None


class Adviser(Protocol):
    """Recommends a size after every window; it may have state."""

    def advise(self, observation: Observation) -> TargetSize:
        """Return the wanted size after a window."""
        ...


def target_rates(observation: Observation, capacity_tps: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return tuples/s of each component if spouts begin all offered trees, with measured selectivities.

    Parameters
    ----------
    observation
        Measured window with offered trees/s and components.
    capacity_tps
        Component → maximum tuples/s that it passes on; unlimited by default.
    """
    begun = sum(each.input_tps for each in observation.components if each.is_spout)
    first = {
        each.component: observation.wanted_tps * each.input_tps / begun if each.is_spout and begun > 0 else 0.0
        for each in observation.components
    }
    handled = {each.component: each.input_tps for each in observation.components}
    rates = dict(first)
    for _ in observation.components:  # a way without a cycle has fewer steps than there are components
        on = {name: min(rate, (capacity_tps or {}).get(name, rate)) for name, rate in rates.items()}
        rates = {
            each.component: first[each.component]
            + sum(
                on[source] * tps / handled[source]
                for source, tps in each.inputs.items()
                if not each.is_spout and handled.get(source, 0.0) > 0
            )
            for each in observation.components
        }
    return rates


def within_tasks(executors: Mapping[str, float], observation: Observation) -> dict[str, int]:
    """Return integers from 1 to each component's tasks; unnamed components are unchanged."""
    return {
        each.component: int(min(max(executors.get(each.component, each.executors), 1), max(each.tasks, 1)))
        for each in observation.components
    }
