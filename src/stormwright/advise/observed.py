"""Conversion of a problem with a measured load to observations by component."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import numpy as np

from stormwright.advise.adviser import ComponentObservation, Observation
from stormwright.model import Problem
from stormwright.predict.answer import Assumptions
from stormwright.predict.changes import tasks_of
from stormwright.predict.evaluate import steady_states
from stormwright.predict.flow.profile import Profile
from stormwright.predict.steady import PlacedLoad, SteadyState
from stormwright.predict.sums import sums

#: Of all trees, the part that is done within the time that objectives are about.
P95 = 0.95


def observed(problem: Problem, topology: int, wanted_tps: float | None = None) -> Observation:
    """Return the observation of a topology in the window of its measured load.

    Utilisation of executors is predicted by `stormwright.predict` at the measured rates, as a probe counts the CPU of a
    thread, but not its waiting time for a core.

    Parameters
    ----------
    problem
        Problem with a load, measured under its current placement.
    topology
        Index of the topology.
    wanted_tps
        Offered trees/s; by default those that it began.
    """
    profile, assumptions = Profile.of(problem), Assumptions.of(problem)
    placed = PlacedLoad.under(profile, problem, problem.current_slot)
    costs = assumptions.costs, assumptions.corrections
    placed, (state,) = steady_states(placed, profile.rate_tps, profile.rate_tps, [costs])
    return observation_of(placed, state, topology, wanted_tps)


def observation_of(
    placed: PlacedLoad,
    state: SteadyState,
    topology: int,
    wanted_tps: float | None = None,
    problem: Problem | None = None,
) -> Observation:
    """Return the observation of a topology in a steady state at given rates.

    Offered trees that are not begun are attributed to its busiest component.

    Parameters
    ----------
    placed, state
        The placement, and its steady state.
    topology
        Index of the topology.
    wanted_tps
        Offered trees/s; by default those of the state.
    problem
        Measured problem; by default that of the placement.
    """
    rate_tps = float(state.given.rate_tps[topology])
    wanted_tps = rate_tps if wanted_tps is None else wanted_tps
    held_back = max(1 - rate_tps / wanted_tps, 0.0) if wanted_tps > 0 else 0.0
    components = [*_components(placed, state, topology)]
    if held_back > 0:
        worst = max(range(len(components)), key=lambda number: components[number].busiest)
        components[worst] = replace(components[worst], held_back=held_back)
    late_s = state.given.ways.latency.quantile(P95)[topology]
    return Observation(
        topology=placed.problem.topologies[topology].id,
        components=tuple(components),
        wanted_tps=wanted_tps,
        reached_tps=rate_tps,
        workers=int(np.count_nonzero(state.demand.worker_topology == topology)),
        p95_ms=float(late_s * 1e3) if held_back == 0 else None,
        problem=problem or placed.problem,
    )


def _components(placed: PlacedLoad, state: SteadyState, topology: int) -> Iterator[ComponentObservation]:
    layout, graph = placed.profile.layout, placed.profile.graph
    one = placed.problem.topologies[topology]
    rate_tps, first = float(state.given.rate_tps[topology]), int(layout.component_offset[topology])
    executor_component, count = layout.executor_component, len(layout.size)
    busy = state.given.busy[: len(executor_component)]
    handled, worked = (sums(executor_component, each, count) for each in (placed.routes.handled * rate_tps, busy))
    busiest = np.zeros(count)
    np.maximum.at(busiest, executor_component, busy)
    tps, tasks = placed.routes.edge_tuples * rate_tps, tasks_of(one)
    for number, component in enumerate(one.components, first):
        into = np.flatnonzero((graph.target == number) & (tps > 0)).tolist()
        yield ComponentObservation(
            component=component.id,
            is_spout=bool(layout.is_spout[number]),
            executors=int(layout.size[number]),
            tasks=int(tasks[number - first]),
            true_tps=float(handled[number] / worked[number]) if worked[number] > 0 else inf,
            input_tps=float(handled[number]),
            output_tps=float(tps[graph.source == number].sum()),
            busy=float(worked[number] / max(layout.size[number], 1)),
            busiest=float(busiest[number]),
            inputs={one.components[graph.source[edge] - first].id: float(tps[edge]) for edge in into},
        )
