"""A plan as people see it: the same of a service and of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from stormwright.client.shapes import PlannedMove, PlannedStep, PlannedTopology, Range, StepState
from stormwright.controller.aims.placements import Placements
from stormwright.controller.planning.plan import Kept, MovePlan, TopologyMove
from stormwright.controller.plans.draft import PlanDraft
from stormwright.controller.plans.proven import proven
from stormwright.controller.plans.sides import side_of, topology_side
from stormwright.history.judged.evaluation import AFTER_S, SETTLE_S
from stormwright.model import WorkerSlot
from stormwright.predict.prediction import Prediction

#: How long spouts are silent where no move was measured yet, in seconds: of two small topologies on a machine of 2
#: cores (docs/results/storm-swap.md).
ASSUMED_PAUSE_S = Range(value=15.0, low=5.0, high=30.0)

#: Topologies of which those that stay are told by name.
_TOLD = 100


@dataclass(frozen=True)
class Pause:
    """How long spouts will be silent, and what that is known from."""

    seconds: Range
    known_from: str


#: Name of a topology → its pause.
PauseOf = Callable[[str], Pause]


def expected_pause(own: Sequence[float], all_of_them: Sequence[float]) -> Pause:
    """How long a topology pauses, by its own past moves, else by those of others, else by a stated assumption.

    Parameters
    ----------
    own, all_of_them
        Seconds of past pauses, of it and of any topology; the newest first.
    """
    for known, whose in ((own, "its own"), (all_of_them, "others'")):
        if known:
            seconds = Range(value=median(known), low=min(known), high=max(known))
            return Pause(seconds, f"{whose} last {len(known)} moves" if len(known) > 1 else f"{whose} last move")
    return Pause(ASSUMED_PAUSE_S, "assumed, as no move was measured yet")


def plan_document(draft: PlanDraft, pause_of: PauseOf, stages: Sequence[int] | None) -> dict[str, Any]:
    """What `stormwright.client.shapes.Plan` has of a plan besides where it stands.

    Parameters
    ----------
    draft, pause_of
        The plan, and how long topologies pause.
    stages
        The stage of every step, each of which is judged; None where all of it is made at one go, and not judged.
    """
    problem, plan = draft.problem, draft.plan
    names = {topology.id: topology.name for topology in problem.topologies}
    judged = max(stages or [], default=-1) + 1
    stays = [(names.get(topology, topology), str(why)) for topology, why in plan.left.items() if not _meant(why)]
    document: dict[str, Any] = {
        "gain": draft.gain,
        "left": dict(stays[:_TOLD]),
        "topologies": len({move.topology.id for move in plan.moves}),
        "steps": len(plan.steps),
        "stages": min(len(plan.steps), 1) if stages is None else judged,
    }
    if not (problem.current_slot >= 0).any():
        return document
    placements = draft.placements or Placements(problem)
    both = problem.current_slot, draft.slots if plan.steps else problem.current_slot
    before, after = (side_of(placements, slots) for slots in both)
    now, then = (placements.predicted(slots) for slots in both)
    moved = _moved(plan, now, then, pause_of)
    pauses = [each.pause_s.value or 0.0 for each in moved]
    proof = proven(placements, draft.goal, both[1])
    return document | {
        "gap_percent": proof.gap_percent,
        "proof": proof.text,
        "before": before.model_dump(),
        "after": after.model_dump(),
        "score_before": before.score,
        "score_after": after.score,
        "moved": [each.model_dump() for each in moved],
        "lasts_s": sum(pauses) + judged * (SETTLE_S + AFTER_S),
    }


def planned_step(told: Mapping[str, Any], number: int, stage: int, state: StepState = "planned") -> PlannedStep:
    """A step as people see it.

    Parameters
    ----------
    told
        As `stormwright.controller.plans.saved.step_to_dict` gave it.
    number, stage, state
        As `PlannedStep` has them.
    """
    return PlannedStep(number=number, stage=stage, state=state, moves=planned_moves(told))


def planned_moves(told: Mapping[str, Any]) -> tuple[PlannedMove, ...]:
    """The moves of a step, as `planned_step` is told it."""
    return tuple(
        PlannedMove(
            topology=move["name"],
            executors=move["moved"],
            stops=_named(move, "stopped"),
            starts=_named(move, "started"),
            arrives=move["arrives"],
        )
        for move in told["moves"]
    )


def _named(move: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    """Worker slots by their names; of a plan that an older version has made, by the ids of supervisors."""
    names = move.get("names", {})
    return tuple(names.get(slot, slot) for slot in (str(WorkerSlot(*each)) for each in move[kind]))


def _meant(why: object) -> bool:
    """Whether a topology stays as nobody wants it to move."""
    return isinstance(why, Kept)


def _moved(plan: MovePlan, now: Prediction, then: Prediction, pause_of: PauseOf) -> list[PlannedTopology]:
    of: dict[str, list[TopologyMove]] = {}
    for move in plan.moves:
        of.setdefault(move.topology.id, []).append(move)
    sides = [{each.topology: each for each in predicted.topologies} for predicted in (now, then)]
    found = []
    for topology, moves in of.items():
        one, other = (side[topology] for side in sides)
        measured = one.measured_tps > 0
        pause = pause_of(moves[0].topology.name)
        trips = len(moves)
        seconds = {name: (value or 0.0) * trips for name, value in pause.seconds.model_dump().items()}
        found.append(
            PlannedTopology(
                topology=topology,
                name=moves[0].topology.name,
                executors=sum(move.moved_executors for move in moves),
                workers_started=sum(len(move.started_workers) for move in moves),
                workers_stopped=sum(len(move.stopped_workers) for move in moves),
                workers_kept=len(moves[-1].kept_workers),
                pause_s=Range(**seconds),
                pause_from=pause.known_from,
                before=topology_side(one) if measured else None,
                after=topology_side(other) if measured else None,
            )
        )
    return found
