"""CPU that a topology's idle threads take to poll, and the rate that it would have without.

On a full node polls take CPU from work. As many trees are handled as CPU is left for: of a topology with the CPU C, of
which P is spent on polls, the rate changes by (C - P') / (C - P) where P becomes P' (`stormwright.predict.polling`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stormwright.controller.reconfigure import reconfigured
from stormwright.controller.tuning.knobs import PARKS_KEY, ConfigChange
from stormwright.model import UNPLACED, Problem
from stormwright.predict.answer import Assumptions
from stormwright.predict.flow.profile import Profile
from stormwright.predict.polling import polls_per_s

#: CPU of a poll in µs until it was fitted, and the largest part of the CPU that counts as spent on them.
_POLL_US, _MOST = 11.0, 0.8


class PollingCost:
    """Polls of one topology as measured.

    Parameters
    ----------
    problem
        Current problem with the measured load.
    index
        Index of the topology.
    """

    def __init__(self, problem: Problem, index: int) -> None:
        self._problem, self._index = problem, index
        costs = Assumptions.of(problem).costs
        self._costs = costs if costs.poll_us else replace(costs, poll_us=_POLL_US)
        profile, own = Profile.of(problem), problem.executors_of(index)
        counted = problem.loads[index].runs_per_s is not None
        self._cores = float(profile.polling_hz(self._costs)[own].sum()) / problem.core_hz if counted else 0.0
        self._polls_per_s, self._all_cores = _polls_of(problem, profile, index), self._cpu_cores()
        self._cores = min(self._cores, _MOST * self._all_cores)

    def gain(self, change: ConfigChange) -> float:
        """Return the multiple of the rate on full nodes by the polls of a changed topology."""
        polls_alike = not change.executors and PARKS_KEY not in change.conf
        if polls_alike or not self._cores or not self._polls_per_s:
            return 1.0
        topology = self._problem.topologies[self._index].id
        then = reconfigured(self._problem, {topology: change.executors}, {topology: change.conf})
        polls_per_s = _polls_of(then, Profile.of(then), self._index)
        cores = min(self._cores * polls_per_s / self._polls_per_s, _MOST * self._all_cores)
        return (self._all_cores - cores) / (self._all_cores - self._cores)

    def _cpu_cores(self) -> float:
        """Return the CPU of the topology's workers, without their base CPU, in cores."""
        problem = self._problem
        own, slots = problem.executors_of(self._index), problem.current_slot
        on, nodes = slots != UNPLACED, len(problem.supervisors)
        node = problem.slot_node[slots[on]]
        mine = np.zeros(problem.num_executors, dtype=bool)
        mine[own] = True
        by_all = np.bincount(node, problem.executor_cpu_hz[on], nodes)
        by_own = np.bincount(node, (problem.executor_cpu_hz * mine)[on], nodes)
        used_hz = problem.load.node_cpu_hz if problem.load else {}
        whole = np.array([used_hz.get(each.id, 0.0) for each in problem.supervisors])
        share = np.divide(by_own, by_all, out=np.zeros(nodes), where=by_all > 0)
        workers = len(np.unique(slots[own][slots[own] != UNPLACED]))
        cores = float((np.maximum(whole, by_all) * share).sum()) / problem.core_hz - workers * self._costs.worker_cores
        return max(cores, float(by_own.sum()) / problem.core_hz)


def _polls_of(problem: Problem, profile: Profile, index: int) -> float:
    """Return how often a second the executors of a topology poll, where nodes have cores for them."""
    busy = np.clip(problem.executor_cpu_hz / problem.core_hz, 0.0, 1.0)
    return float(polls_per_s(profile, profile.handled_tps, busy)[problem.executors_of(index)].sum())
