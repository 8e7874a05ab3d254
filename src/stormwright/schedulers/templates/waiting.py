"""The frame of schedulers that place what waits: topologies in a queue, each as a whole, around what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TypeVar

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem, Unplaced
from stormwright.model.arrays import BoolArray, FloatArray, IntArray
from stormwright.schedulers.placement.admission import admit, find_wanted
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.schedulers.placement.placing import NodeRoom, Placing
from stormwright.schedulers.placement.repair import make_room
from stormwright.schedulers.placement.staying import choose_slots
from stormwright.schedulers.toolkit.params import Params


@dataclass(frozen=True)
class Finished:
    """A finished placement: slot of every executor, and topology index → why it is left out."""

    slots: IntArray
    reasons: dict[int, tuple[str, ...]]


P = TypeVar("P", bound=Finished | PartialPlacement)

#: Puts the executors of one topology on nodes.
Rule = Callable[[Placing], None]


def place_waiting(
    problem: Problem, name: str, params: Params, make_rule: Callable[[NodeRoom], Rule], *, soft_cpu: bool = False
) -> Assignment:
    """Place every topology that has executors without a slot, as a whole or not at all.

    What runs stays; lost executors that no new worker takes join live ones. Executors that the rule finds no node for
    are put where there is room, if need be by rearranging what was placed now; else the topology is left out.

    Parameters
    ----------
    problem
        What to place, and what runs.
    name
        Of the scheduler, for the answer and its reasons.
    params
        Of the scheduler, which go into the answer.
    make_rule
        Given what the nodes have left, the rule; called anew for each attempt.
    soft_cpu
        Let the rule load nodes beyond their CPU capacity.
    """

    def plan_on(usable: BoolArray) -> Finished:
        draft = PartialPlacement.empty(problem, usable)
        admitted = admit(draft, find_wanted(draft, keep_running=True), soft_cpu=soft_cpu)
        room = NodeRoom(draft)
        rule = make_rule(room)
        for group in admitted:
            placing = Placing(draft, room, group, soft_cpu=soft_cpu)
            rule(placing)
            placing.finish()
        make_room(draft, soft_cpu=soft_cpu)
        return Finished(choose_slots(draft), draft.reasons)

    return answer(problem, name, params, plan_with_last_resort(problem, plan_on))


def by_score(score: Callable[[Placing, int], FloatArray], turn: FloatArray | None = None) -> Callable[[NodeRoom], Rule]:
    """Makes the rule that puts every executor, in order, on the node with the lowest score that can take it.

    Parameters
    ----------
    score
        Given how far the topology is, and an executor, a number for every node, shape (N,). Ties go to the lower node.
    turn
        Of every executor of the problem, shape (E,): those with the lowest number come first, equal ones in order.
    """

    def place(placing: Placing) -> None:
        executors = placing.wanted.executors
        if turn is not None:
            executors = executors[np.argsort(turn[executors], kind="stable")]
        for executor in executors.tolist():
            placing.put(executor, placing.best(executor, score(placing, executor)))

    return lambda _: place


def plan_with_last_resort(problem: Problem, plan_on: Callable[[BoolArray], P]) -> P:
    """The plan on usable nodes, or one that also uses greylisted nodes if that leaves fewer topologies out.

    Storm greylists a node when it needs it back from the blacklist: a last resort, but one.
    """
    plan = plan_on(problem.node_usable)
    if plan.reasons and problem.greylisted_supervisors:
        listed = np.array([node.host in problem.blacklisted_hosts for node in problem.supervisors], dtype=bool)
        resort = plan_on(~listed)
        plan = resort if len(resort.reasons) < len(plan.reasons) else plan
    return plan


def answer(problem: Problem, name: str, params: Params, plan: Finished) -> Assignment:
    """`plan` as a scheduler's answer.

    Parameters
    ----------
    problem
        The one that was planned.
    name, params
        Of the scheduler.
    plan
        Every executor of a topology with reasons that has no slot is told to be unplaced for these.
    """
    return Assignment(
        slot_of_executor=plan.slots,
        unplaced=tuple(_unplaced(problem, plan)),
        status={problem.topologies[t].id: f"{name}: {'; '.join(why)}" for t, why in sorted(plan.reasons.items())},
        scheduler=name,
        parameters=asdict(params),
    )


def _unplaced(problem: Problem, plan: Finished) -> Iterator[Unplaced]:
    for index, reasons in sorted(plan.reasons.items()):
        topology = problem.topologies[index]
        for executor in np.flatnonzero(plan.slots[problem.executors_of(index)] == UNPLACED).tolist():
            component = topology.components[topology.executor_component[executor]]
            yield Unplaced(topology.id, executor, component.id, reasons)
