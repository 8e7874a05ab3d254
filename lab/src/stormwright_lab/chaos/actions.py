"""Actions of chaos runs: the moves, their start over the API, and the end of their plans."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from stormwright.errors import ClusterError, ConflictError, StormwrightError
from stormwright.formats import problem_from_dict
from stormwright.model import UNPLACED, Problem
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.plans.plan import STOPPED, Plan
from stormwright.plans.states import ACTIVE_STATES, HALTED_STATES, IN_PROGRESS_STATES
from stormwright_lab.chaos.faults import MoveParts
from stormwright_lab.chaos.invariants import WorkerPlace
from stormwright_lab.chaos.lab import ChaosLab, until
from stormwright_lab.chaos.scenarios import Action
from stormwright_lab.chaos.service_process import write_targets

log = logging.getLogger(__name__)

#: Seconds until a plan has to have moves, and until it has to have ended, in the preparation of a run.
_PLANNED_S, _ENDED_S = 90.0, 150.0

#: Reasons of requests, which the history shows.
_REASON = "chaos"


class NoFreeSlotError(ClusterError):
    """The selected worker cannot move; another one may."""


@dataclass(frozen=True)
class ForcedPlacement:
    """Placement of the topologies of a run.

    Parameters
    ----------
    problem
        Cluster and its current placements, as Nimbus returned them.
    node_of
        Host → name of its node.
    """

    problem: Problem
    node_of: Mapping[str, str]

    @classmethod
    def current(cls, lab: ChaosLab) -> ForcedPlacement:
        """Return the current placement; raises NimbusError."""
        nodes = {node.address: node.name for node in lab.cluster.plan.nodes}
        return cls(problem_from_dict(lab.nimbus.problem(), "Nimbus"), nodes)

    def workers(self, topology: int) -> list[WorkerPlace]:
        """Return the workers of a topology (number), in the order of slots."""
        return [self.place(topology, slot) for slot in self._used(topology)]

    def _used(self, topology: int) -> list[int]:
        own = self.problem.current_slot[self.problem.executors_of(topology)]
        return [int(slot) for slot in np.unique(own[own != UNPLACED])]

    def place(self, topology: int, slot: int) -> WorkerPlace:
        """Return the worker of a topology in a slot (numbers)."""
        at = self.problem.slots[slot]
        host = self.problem.supervisors[self.problem.node_index[at.supervisor]].host
        return WorkerPlace(self.problem.topologies[topology].id, self.node_of[host], at.port)

    def unplaced(self) -> dict[str, int]:
        """Return the number of executors without a slot of each topology (name)."""
        return {
            topology.name: int((self.problem.current_slot[self.problem.executors_of(index)] == UNPLACED).sum())
            for index, topology in enumerate(self.problem.topologies)
        }

    def targets(self, moved: Mapping[int, Mapping[int, int]]) -> dict[str, list[tuple[str, int]]]:
        """Return the placement as the service's scheduler reads it, after topologies have moved from slots to slots."""
        found = {}
        for topology, slots in moved.items():
            own = self.problem.current_slot[self.problem.executors_of(topology)].tolist()
            places = [self.problem.slots[slots.get(slot, slot)] for slot in own]
            hosts = {node.id: node.host for node in self.problem.supervisors}
            found[self.problem.topologies[topology].name] = [(hosts[slot.supervisor], slot.port) for slot in places]
        return found

    def one_worker(self, rng: random.Random) -> tuple[int, int]:
        """Return a used slot of the first topology, and a free slot beside another of its workers."""
        used = self._used(0)
        if not used:  # of a Nimbus that has just started
            raise ClusterError("Nimbus has not placed the ledger yet")
        node = self.problem.slot_node
        source = rng.choice(used)
        beside = [slot for slot in used if node[slot] != node[source]]
        if not beside:
            raise ClusterError("all workers of the ledger are on one node: there is no move with a gain")
        taken = {slot for index in range(len(self.problem.topologies)) for slot in self._used(index)}
        target = node[rng.choice(beside)]
        free = [slot for slot in range(len(self.problem.slots)) if slot not in taken and node[slot] == target]
        if not free:
            raise NoFreeSlotError("there is no free slot beside another worker of the ledger")
        return source, rng.choice(free)

    def two_workers(self, rng: random.Random) -> tuple[int, int]:
        """Return the slots of two workers of the first topology."""
        used = self._used(0)
        if len(used) < 2:
            raise ClusterError("Nimbus has not placed two workers of the ledger yet")
        one, other = rng.sample(used, 2)
        return one, other

    def exchange(self) -> tuple[int, int]:
        """Return a slot of the first topology and one of the second whose exchange saves most traffic between nodes."""
        node = self.problem.slot_node

        def spread(slots: Sequence[int]) -> int:
            return len({int(node[slot]) for slot in slots})

        first, second = self._used(0), self._used(1)
        pairs = [(one, other) for one in first for other in second if node[one] != node[other]]
        if not pairs:
            raise ClusterError("both ledgers run on one node: there is nothing to exchange")
        return min(
            pairs,
            key=lambda pair: (
                spread([pair[1] if slot == pair[0] else slot for slot in first])
                + spread([pair[0] if slot == pair[1] else slot for slot in second])
            ),
        )


class RunAction:
    """The action of one run.

    Parameters
    ----------
    lab
        Lab with the cluster, and with the service that makes the move.
    action
        Kind of the move.
    rng
        Selects the worker that moves.
    """

    def __init__(self, lab: ChaosLab, action: Action, rng: random.Random) -> None:
        self._lab, self._action, self._rng = lab, action, rng
        self._planned = ""
        self._entry: int | None = None
        self._host = ""
        self._known: set[str] = set()
        self._resumed: set[str] = set()
        #: Plan of the action; empty until it is started.
        self.plan = ""
        #: State of every plan of the run: ``moved`` if all its steps are complete, whatever came after.
        self.states: dict[str, str] = {}
        self.parts: MoveParts

    def prepare(self) -> None:
        """Make everything that comes before the action; raises ClusterError."""
        self._known = {each.id for each in self._lab.client.plans(limit=1000).plans}
        if self._action is Action.DRAIN:
            placement = self._select_move()
            self._host = next(host for host, node in placement.node_of.items() if node == self.parts.source)
            return
        self._planned = self._made_plan()
        if self._action is Action.REVERT:
            self._lab.client.apply(self._planned, _REASON)
            self._end(self._planned)
            self._entry = self._lab.client.show(self._planned).decision
            self._known.add(self._planned)
            self.parts = _reversed(self.parts)

    def _select_move(self) -> ForcedPlacement:
        """Select the move, and return the current placement."""
        placement = ForcedPlacement.current(self._lab)
        if self._action is Action.SWAP:
            one, other = placement.exchange()
            write_targets(self._lab.service.state, placement.targets({0: {one: other}, 1: {other: one}}))
        elif self._action is Action.RECONFIGURE:  # all workers restart where they are
            one, other = placement.two_workers(self._rng)
        else:
            one, other = placement.one_worker(self._rng)
            write_targets(self._lab.service.state, placement.targets({0: {one: other}}))
        self.parts = _parts(placement, one, other)
        return placement

    def _made_plan(self) -> str:
        """Return a plan with moves; it takes some time until topologies are measured."""
        found: list[str] = []
        why = ""

        def made() -> bool:
            nonlocal why
            client = self._lab.client
            placement = self._select_move()  # again, as Nimbus may have placed it elsewhere since
            if self._action is Action.RECONFIGURE:
                conf = {placement.problem.topologies[0].id: {MAX_SPOUT_PENDING: self._rng.randint(100, 10_000)}}
                plan = client.plan(_REASON, conf=conf)
            else:
                plan = client.plan(_REASON, goals=["traffic"], least_gain_percent=0)
            plan = client.wait_until_planned(plan.id, 20.0)
            why = plan.why
            if plan.step_count:
                found.append(plan.id)
            else:
                client.discard(plan.id, "moves nothing")
            return bool(found)

        if not until(made, _PLANNED_S, 2.0):
            raise ClusterError(f"no plan has moves: {why or 'no answer'}")
        return found[0]

    def start(self) -> bool:
        """Start the action; return whether it was, or could not be without an answer (then call it again)."""
        client = self._lab.client
        try:
            if begun := self._begun():
                self.plan = begun
            elif self._action is Action.DRAIN:
                begun_plan = client.drain(self._host, _REASON).plan
                self.plan = begun_plan.id if begun_plan else ""
            elif self._action is Action.REVERT:
                self.plan = client.revert(self._entry or 0, _REASON).id
            else:
                self.plan = client.apply(self._planned, _REASON).id
        except ConflictError as error:
            log.info("%s", error)
            self._renew_plan()
            return False
        except StormwrightError as error:
            log.info("not started: %s", error)
            return False
        return bool(self.plan)

    def _renew_plan(self) -> None:
        """Make the plan again if the cluster has changed since."""
        if not self._planned or self._action is Action.REVERT:
            return
        with suppress(StormwrightError):
            if self._lab.client.show(self._planned).state in ("planned", "proposed"):
                self._lab.client.discard(self._planned, "the cluster has changed")
                self._planned = self._made_plan()

    def _begun(self) -> str:
        """Return the plan of the action if the service has it although its answer was lost."""
        for plan in self._lab.client.plans(limit=20).plans:
            if plan.id in self._known:
                continue
            if plan.id == self._planned:
                if plan.state != "planned":
                    return plan.id
            elif plan.origin in ("drain", "rollback") and self._action in (Action.DRAIN, Action.REVERT):
                return plan.id
        return ""

    def show(self) -> Plan | None:
        """Return the plan; None while there is no answer."""
        if not self.plan:
            return None
        try:
            found = self._lab.client.show(self.plan)
        except StormwrightError:
            return None
        if found.step_count and found.steps_completed == found.step_count:
            self.states[found.id] = "moved"
        elif found.state != "discarded" or self.states.get(found.id) != "moved":
            self.states[found.id] = found.state
        return found

    def continue_plan(self) -> None:
        """Act as the operator once no fault is in force: end evaluations, which take minutes; resume once if halted."""
        plan = self.show()
        if plan is None:
            return
        client = self._lab.client
        with suppress(StormwrightError):
            if plan.state == "evaluating":
                client.stop(plan.id, "the run need not wait for the evaluation")
            elif plan.state in HALTED_STATES:
                moved = self.states[plan.id] == "moved"
                if moved or plan.id in self._resumed or plan.why.startswith("the cluster has changed"):
                    client.discard(plan.id, "the run ends")
                else:
                    if not plan.why.startswith(STOPPED):  # by the end of an evaluation, above
                        self._resumed.add(plan.id)
                    client.resume(plan.id, _REASON)

    def has_ended(self) -> bool:
        """Return whether no plan of the run is in progress or waits."""
        plan = self.show()
        return plan is not None and plan.state not in (*IN_PROGRESS_STATES, *HALTED_STATES)

    def _end(self, plan: str) -> None:
        """Bring a plan of the preparation to its end."""
        self.plan = plan

        def ended() -> bool:
            self.continue_plan()
            return self.has_ended()

        if not until(ended, _ENDED_S, 0.5):
            raise ClusterError(f"plan {plan} has not ended: {self.states.get(plan)}")
        self.plan = ""
        self.states.clear()

    def clean_up(self) -> dict[str, str]:
        """End everything that the run has begun, and return the state of each of its plans before that."""
        client = self._lab.client
        plans = {each.id: each for each in client.plans(limit=50).plans if each.id not in self._known}
        found: dict[str, str] = {
            plan: each.state for plan, each in plans.items() if each.state not in ("planned", "proposed")
        }
        for plan, each in plans.items():
            with suppress(StormwrightError):
                if each.state in ACTIVE_STATES:
                    client.stop(plan, "the run has ended")
                elif each.state in (*HALTED_STATES, "planned", "proposed"):
                    client.discard(plan, "the run has ended")
        for drained in client.drains().drained:
            client.uncordon(drained.host, _REASON)
        return found


def _parts(placement: ForcedPlacement, one: int, other: int) -> MoveParts:
    moving, arriving = placement.place(0, one), placement.place(0, other)
    others = [node for node in placement.node_of.values() if node not in (moving.node, arriving.node)]
    unchanged = [place for place in placement.workers(0) if place != moving]
    return MoveParts(
        moving.node,
        arriving.node,
        others[0] if others else arriving.node,
        moving,
        arriving,
        unchanged[0] if unchanged else None,
    )


def _reversed(parts: MoveParts) -> MoveParts:
    return MoveParts(parts.target, parts.source, parts.other, parts.arriving, parts.moving, parts.unchanged)
