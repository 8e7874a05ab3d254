"""What topologies really do: today by `predict`; an event simulator or a cluster can take its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from stormwright.advise.adviser import Observation, WantedSize
from stormwright.advise.observed import seen_in
from stormwright.defaults import STORMS_OWN
from stormwright.model import Assignment, LoadProfile, Problem, TopologyLoad
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.predict.changes import rebalanced, with_rates
from stormwright.predict.costs import Costs
from stormwright.predict.evaluate import steady_states
from stormwright.predict.flow.profile import Profile
from stormwright.predict.steady import Placed, Steady, steady_state
from stormwright.schedulers import make_scheduler

#: Of the highest rate, what is begun where more is wanted: a queue that is all full has no figures.
_JUST_BELOW = 1 - 1e-3


class World(Protocol):
    """Runs a topology for a window."""

    def run(self, wanted: WantedSize, wanted_tps: float) -> Observation:
        """What is seen if executors, workers and placement are as wanted, and the sources have so many trees/s."""
        ...


@dataclass
class Predicted:
    """A world in which what `predict` says with the true costs is what happens, seen through noise.

    It has one topology. Where an adviser says nothing of placement, Storm's EvenScheduler places it on all nodes.

    Parameters
    ----------
    base
        The topology at some rate, with the true work of its executors and no CPU for messages in it, and all nodes.
    costs
        What messages and workers truly cost.
    told_costs
        What advisers are told of that: a ``stormwright-calibration/1`` document.
    noise
        Deviation of the logarithm of each executor's measured CPU and traffic.
    seed
        Of the noise.
    """

    base: Problem
    costs: Costs
    told_costs: Mapping[str, Any]
    noise: float
    seed: int
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def run(self, wanted: WantedSize, wanted_tps: float) -> Observation:
        """See `World`."""
        problem, slots = self._placed(wanted)
        placed, state = self._state(problem, slots, wanted_tps)
        if state.given_use[0] >= 1:
            # What is too much for those near goes to executors further away.
            spilling = steady_states(placed, placed.profile.rate_tps, placed.profile.rate_tps, [(self.costs, {})])
            highest_tps = float(spilling[1][0].highest_tps[0])
            placed, state = self._state(problem, slots, min(wanted_tps, highest_tps) * _JUST_BELOW)
        return seen_in(placed, state, 0, wanted_tps, self._measured(placed, state, slots))

    def _placed(self, wanted: WantedSize) -> tuple[Problem, IntArray]:
        index = self.base.topologies[0].component_index
        counts = {0: {index[name]: count for name, count in wanted.executors.items()}}
        problem = rebalanced(self.base, Profile.of(self.base), self.costs, counts)
        if wanted.problem is not None and wanted.assignment is not None:
            return replace(problem, supervisors=wanted.problem.supervisors), wanted.assignment.slot_of_executor
        one = replace(problem.topologies[0], num_workers=wanted.workers or len(problem.supervisors))
        problem = replace(problem, topologies=(one,))
        return problem, make_scheduler(STORMS_OWN).schedule(problem).slot_of_executor

    def _state(self, problem: Problem, slots: IntArray, rate_tps: float) -> tuple[Placed, Steady]:
        now_tps = float(Profile.of(problem).rate_tps[0])
        scaled = with_rates(problem, np.array([rate_tps / now_tps]))
        profile = Profile.of(scaled)
        placed = Placed.under(profile, scaled, slots)
        return placed, steady_state(placed, profile.rate_tps, profile.rate_tps, self.costs)

    def _measured(self, placed: Placed, state: Steady, slots: IntArray) -> Problem:
        """What a probe and the pipeline would tell: CPU with that of messages in it, and traffic, both with noise."""
        problem, demand = placed.problem, state.demand
        rate_tps = float(state.given.rate_tps[0])
        core_hz = demand.nodes.core_hz[problem.slot_node[slots]]
        cpu_hz = demand.thread_s[: problem.num_executors] * rate_tps * core_hz
        load = problem.loads[0]
        seen: TopologyLoad = replace(
            load,
            cpu_hz=self._blurred(cpu_hz),
            pair_tps=self._blurred(load.pair_tps),
            flow_tps=self._blurred(load.flow_tps),
        )
        topology = problem.topologies[0]
        measured = problem.with_load(LoadProfile({topology.id: seen}, costs=dict(self.told_costs)))
        return replace(measured, current=Assignment(slots).by_topology(measured), measured=None)

    def _blurred(self, amounts: FloatArray) -> FloatArray:
        blurred: FloatArray = amounts * np.exp(self.noise * self._random.standard_normal(len(amounts)))
        return blurred
