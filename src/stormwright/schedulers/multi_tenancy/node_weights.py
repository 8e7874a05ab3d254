"""Gives nodes more or less of what there is, by weights that an operator sets, for every scheduler in one place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Scheduler
from stormwright.model.topology_config import WEIGHT
from stormwright.schedulers.toolkit.params import Params, nodes_tell
from stormwright.schedulers.toolkit.traits import Traits, passed_on


class NodeWeightScheduler:
    """What a scheduler answers where every node has as much of its CPU as its weight is of the largest weight.

    A node's weight is ``stormwright.weight`` in its `supervisor.scheduler.meta`, a number of at least 0; 1 where it
    says nothing. Weights are wishes: where something finds no room so, the scheduler is asked with all of the CPU.

    Raises
    ------
    InputError
        When it schedules: weights that are no numbers or below 0; all faults at once.
    """

    def __init__(self, scheduler: Scheduler, params: Params, traits: Traits) -> None:
        self.scheduler, self.params = scheduler, params
        vars(self).update(passed_on(scheduler, traits))

    def schedule(self, problem: Problem) -> Assignment:
        """Place everything."""
        weighted = _weighted(problem)
        if weighted is problem:
            return self.scheduler.schedule(problem)
        answer = self.scheduler.schedule(weighted)
        if np.all(answer.slot_of_executor != UNPLACED):
            return answer
        whole = self.scheduler.schedule(problem)
        return replace(whole, seconds=answer.seconds + whole.seconds)


def _weighted(problem: Problem) -> Problem:
    """The problem in which nodes have CPU by their weights; itself where these are all the same."""
    weights = [told.get(WEIGHT, 1.0) for told in nodes_tell(problem, [WEIGHT])]
    most = max(weights, default=0.0)
    if most <= 0 or min(weights) == most:
        return problem
    parts = [weight / most for weight in weights]
    # Of infinite CPU no part is no number.
    cpu_hz = [node.cpu_hz * part if part else 0.0 for node, part in zip(problem.supervisors, parts, strict=True)]
    nodes = zip(problem.supervisors, cpu_hz, strict=True)
    return replace(problem, supervisors=tuple(replace(node, cpu_hz=left) for node, left in nodes))
