"""Model-free control: an agent trained by reinforcement learning proposes assignments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stormwright.errors import InputError
from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import IntArray
from stormwright.model.constraints.violations import broken_limits
from stormwright.predict.flow.profile import Profile
from stormwright.schedulers.online import OnlineParams, OnlineScheduler
from stormwright.schedulers.portfolio.agent import NEIGHBOURS, read_agent
from stormwright.schedulers.toolkit.params import Params, param
from stormwright.schedulers.toolkit.triggers import ONLINE


@dataclass(frozen=True, kw_only=True)
class ModelFreeParams(Params):
    """Parameters of the scheduler."""

    agent: str = param("", "file of `stormwright learn --control`; empty: places like `online`")
    neighbours: int = param(NEIGHBOURS, "assignments near the proposal that are rated", low=1, high=10_000)


class ModelFreeScheduler:
    """Takes the assignment that an agent, trained for the topology in a virtual cluster, rates highest.

    T. Li, Z. Xu, J. Tang, Y. Wang, "Model-Free Control for Distributed Stream Data Processing using Deep Reinforcement
    Learning", PVLDB 11(6), 2018, pages 705 to 718, https://doi.org/10.14778/3199517.3199521.

    1. The state is the present assignment of executors to nodes and the rate of the data source; an action is the next
       assignment; the reward is the negative mean time of a tuple tree.
    2. An actor network proposes an assignment of real numbers. The `neighbours` assignments nearest to it are found,
       and the one with the highest value by a critic network is taken.
    3. Both are trained as in deep deterministic policy gradient, first with random actions and then with their own, by
       ``stormwright learn --control``.

    Differences:

    1. The agent is trained in a virtual cluster made from a problem, before it is used, and does not learn afterwards;
       the paper's agents learn on the running cluster.
    2. Rewards are relative to the time under Storm's EvenScheduler, so that topologies are alike.
    3. An executor of a topology on a node shares one worker with the others there, as in the paper.
    4. Of the assignments near the proposal, those that violate a constraint come last.
    5. It needs a topology of exactly those executors, and as many nodes, as the agent was trained for. Without an agent
       it places executors without a slot like `online`.

    When to use
    -----------
    To compare with reinforcement learning. On problems that it was not trained for it is worse than rules.

    Ignores
    -------
    With an agent everything that is not in the state: loads of executors, traffic, sizes of tuples, speeds of nodes and
    links; they are learned for one topology. If all assignments near the proposal violate a constraint, the first is
    taken.

    Honours
    -------
    CPU, memory, executors per worker, traffic, racks

    Raises
    ------
    InputError
        The file of the agent cannot be read, or it was trained for another topology.
    """

    params_type = ModelFreeParams
    moves_running = True
    asks_others = True
    adapts = ONLINE

    def __init__(self, params: ModelFreeParams | None = None) -> None:
        self.params = params or ModelFreeParams()
        self._agent = read_agent(Path(self.params.agent)) if self.params.agent else None

    def schedule(self, problem: Problem) -> Assignment:
        """Place all executors, or, without an agent, those without a slot."""
        if self._agent is None:
            return OnlineScheduler(OnlineParams(keep_running=True)).schedule(problem)
        if faults := self._agent.faults(problem):
            raise InputError("model_free", faults)
        slots = problem.current_slot
        current = np.where(slots == UNPLACED, UNPLACED, problem.slot_node[slots]).astype(np.int32)
        rate_tps = float(Profile.of(problem).rate_tps[0]) if problem.load else 0.0
        chosen = self._agent.choose(current, rate_tps, self.params.neighbours)
        answers = [slots_on(problem, nodes) for nodes in chosen]
        valid = (each for each in answers if not broken_limits(problem, each))
        return Assignment(next(valid, answers[0]))


def slots_on(problem: Problem, nodes: IntArray) -> IntArray:
    """Return a slot of each executor's node, one worker per node: the one of a running worker, else the first."""
    slot_of_node = np.searchsorted(problem.slot_node, np.arange(len(problem.supervisors)))
    running = problem.current_slot[problem.current_slot != UNPLACED]
    slot_of_node[problem.slot_node[running]] = running
    found: IntArray = slot_of_node[nodes].astype(np.int32)
    return found
