"""What an adviser is told of a window of time, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stormwright.model import Assignment, Problem


@dataclass(frozen=True, slots=True)
class ComponentObservation:
    """What a component did in a window.

    Parameters
    ----------
    component
        Its name.
    is_spout
        Whether it begins trees.
    executors, tasks
        How many it has; a rebalance gives it at most as many executors as it has tasks.
    true_tps
        Tuples/s that one executor handles while it has work (DS2's true processing rate), on average over the
        executors; inf where it took no time.
    input_tps, output_tps
        Tuples/s that it handled, of a spout trees that it began; and tuples/s that it sent.
    busy, busiest
        Part of the time for which its executors had work: on average, and that of the busiest one.
    held_back
        Part of the time for which its full queues held the spouts back; 0 where they did not.
    inputs
        Component that it gets tuples from → tuples/s.
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
        """Tuples that it sends for each that it handles."""
        return self.output_tps / self.input_tps if self.input_tps > 0 else 0.0


@dataclass(frozen=True)
class Observation:
    """One topology in one window.

    Parameters
    ----------
    topology
        Its id.
    components
        In the topology's order.
    wanted_tps, reached_tps
        Trees/s that its sources have for it, and those that it began.
    workers
        How many it has.
    p95_ms
        95th percentile of complete latency; None where it is not known.
    problem
        Cluster, what ran and the measured load, where a probe tells or metrics were turned into one.
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
        """Component → how many executors it has."""
        return {seen.component: seen.executors for seen in self.components}

    @property
    def total(self) -> int:
        """Executors of all components."""
        return sum(seen.executors for seen in self.components)


@dataclass(frozen=True)
class WantedSize:
    """What an adviser wants of a topology.

    Parameters
    ----------
    executors
        Component → executors, each with from 1 to as many as it has tasks.
    workers
        How many; None to leave it as it is.
    why
        In words.
    problem, assignment
        Where they are to run: the topology with these executors on the nodes that are wanted, and its placement. None
        where an adviser says nothing of that.
    """

    executors: Mapping[str, int]
    workers: int | None = None
    why: str = ""
    problem: Problem | None = None
    assignment: Assignment | None = None

    def changes(self, seen: Observation) -> bool:
        """Whether carrying it out would rebalance the topology."""
        other = dict(self.executors) != seen.executors or self.workers not in (None, seen.workers)
        return other or self.assignment is not None


class Adviser(Protocol):
    """Says window by window what it wants; it may remember what it saw."""

    def advise(self, seen: Observation) -> WantedSize:
        """What it wants after a window."""
        ...


def target_rates(seen: Observation, capacity_tps: Mapping[str, float] | None = None) -> dict[str, float]:
    """Tuples/s that reach each component if spouts begin all that is wanted, with the selectivities that were seen.

    Parameters
    ----------
    seen
        The window.
    capacity_tps
        Component → tuples/s that it handles at most, so that no more goes on from there; by default all goes on.
    """
    begun = sum(each.input_tps for each in seen.components if each.is_spout)
    first = {
        each.component: seen.wanted_tps * each.input_tps / begun if each.is_spout and begun > 0 else 0.0
        for each in seen.components
    }
    handled = {each.component: each.input_tps for each in seen.components}
    rates = dict(first)
    for _ in seen.components:  # a way without a cycle has fewer steps than there are components
        on = {name: min(rate, (capacity_tps or {}).get(name, rate)) for name, rate in rates.items()}
        rates = {
            each.component: first[each.component]
            + sum(
                on[source] * tps / handled[source]
                for source, tps in each.inputs.items()
                if not each.is_spout and handled.get(source, 0.0) > 0
            )
            for each in seen.components
        }
    return rates


def within_tasks(executors: Mapping[str, float], seen: Observation) -> dict[str, int]:
    """Whole numbers from 1 to each component's tasks, those not named as they are."""
    return {
        each.component: int(min(max(executors.get(each.component, each.executors), 1), max(each.tasks, 1)))
        for each in seen.components
    }
