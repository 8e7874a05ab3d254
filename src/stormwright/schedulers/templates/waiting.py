"""Template of schedulers that place waiting topologies one by one around running ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TypeVar

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Unplaced
from stormwright.model.arrays import BoolArray, FloatArray, IntArray
from stormwright.schedulers.placement.admission import admit, find_wanted_workers
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.placement.repair import make_room
from stormwright.schedulers.placement.staying import choose_slots
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True)
class CompletePlan:
    """A complete plan: slot of every executor, and topology index → reasons why it is left out."""

    slots: IntArray
    reasons: dict[int, tuple[str, ...]]


P = TypeVar("P", bound=CompletePlan | PartialPlacement)

#: Rule that puts the executors of one topology on nodes.
Rule = Callable[[Placing], None]


def place_waiting(
    problem: Problem, name: str, params: Params, make_rule: Callable[[FreeResources], Rule], *, soft_cpu: bool = False
) -> Assignment:
    """Place every topology that has executors without a slot, as a whole or not at all.

    Running executors stay; lost executors without a new worker join live ones. Executors for which the rule finds no
    node go wherever they fit, if necessary after rearranging new placements; else the topology is left out.

    Parameters
    ----------
    problem
        Problem with the running placement.
    name
        Name of the scheduler, for the answer and its reasons.
    params
        Parameters of the scheduler, for the answer.
    make_rule
        Returns the rule for the free resources of nodes; called for each attempt.
    soft_cpu
        Whether the rule may load nodes beyond their CPU capacity.
    """

    def plan_on(usable: BoolArray) -> CompletePlan:
        placement = PartialPlacement.empty(problem, usable)
        admitted = admit(placement, find_wanted_workers(placement, keep_running=True), soft_cpu=soft_cpu)
        room = FreeResources(placement)
        rule = make_rule(room)
        for group in admitted:
            placing = Placing(placement, room, group, soft_cpu=soft_cpu)
            rule(placing)
            placing.finish()
        make_room(placement, soft_cpu=soft_cpu)
        return CompletePlan(choose_slots(placement), placement.reasons)

    return answer(problem, name, params, plan_with_last_resort(problem, plan_on))


def by_score(
    score: Callable[[Placing, int], FloatArray], turn: FloatArray | None = None
) -> Callable[[FreeResources], Rule]:
    """Return a factory of rules that put every executor, in order, on the possible node with the lowest score.

    Parameters
    ----------
    score
        Given the state of the topology, and an executor, a score of every node, shape (N,). Ties go to the lower node.
    turn
        Order of every executor of the problem, shape (E,): lowest first, equal ones by index.
    """

    def place(placing: Placing) -> None:
        executors = placing.wanted.executors
        if turn is not None:
            executors = executors[np.argsort(turn[executors], kind="stable")]
        for executor in executors.tolist():
            placing.put(executor, placing.best(executor, score(placing, executor)))

    return lambda _: place


def plan_with_last_resort(problem: Problem, plan_on: Callable[[BoolArray], P]) -> P:
    """Return the plan on usable nodes, or one with greylisted nodes if that leaves fewer topologies out.

    Storm greylists a node that it takes back from the blacklist: a last resort.
    """
    plan = plan_on(problem.node_usable)
    if plan.reasons and problem.greylisted_supervisors:
        listed = np.array([node.host in problem.blacklisted_hosts for node in problem.supervisors], dtype=bool)
        resort = plan_on(~listed)
        plan = resort if len(resort.reasons) < len(plan.reasons) else plan
    return plan


def answer(problem: Problem, name: str, params: Params, plan: CompletePlan) -> Assignment:
    """Return `plan` as an assignment.

    Parameters
    ----------
    problem
        Problem of the plan.
    name, params
        Name and parameters of the scheduler.
    plan
        Plan; unplaced executors of a topology get its reasons.
    """
    return Assignment(
        slot_of_executor=plan.slots,
        unplaced=tuple(_unplaced(problem, plan)),
        status={problem.topologies[t].id: f"{name}: {'; '.join(why)}" for t, why in sorted(plan.reasons.items())},
        scheduler=name,
        parameters=asdict(params),
    )


def _unplaced(problem: Problem, plan: CompletePlan) -> Iterator[Unplaced]:
    for index, reasons in sorted(plan.reasons.items()):
        topology = problem.topologies[index]
        for executor in np.flatnonzero(plan.slots[problem.executors_of(index)] == UNPLACED).tolist():
            component = topology.components[topology.executor_component[executor]]
            yield Unplaced(topology.id, executor, component.id, reasons)
