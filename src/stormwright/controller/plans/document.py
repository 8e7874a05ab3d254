"""JSON form of the steps of a plan, from which a restarted service continues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stormwright.controller.planning.plan import Hop, Step, TopologyMove
from stormwright.formats import placement_to_dict
from stormwright.model import Problem, TopologyAssignment, WorkerSlot


def step_to_dict(step: Step, problem: Problem) -> dict[str, Any]:
    """Return a step as JSON, with the names of nodes, which may be gone when it is read."""
    moves = [
        _move_to_dict(move) | {"names": {str(slot): problem.cluster.slot_name(slot) for slot in _changing(move)}}
        for move in step.moves
    ]
    return {"moves": moves, "after": sorted(step.after), "starts_per_core": list(step.starts_per_core)}


def step_of_dict(raw: Mapping[str, Any], problem: Problem) -> Step:
    """Return a step from `step_to_dict`, with the current topologies and nodes of `problem`.

    Raises
    ------
    KeyError
        A topology or node is gone.
    """
    moves = tuple(_move(move, problem) for move in raw["moves"])
    return Step(moves, frozenset(raw["after"]), tuple(raw.get("starts_per_core", ())))  # older plans have none


def placement_of(raw: Mapping[str, Any]) -> TopologyAssignment:
    """Return a placement from `placement_to_dict`."""
    return TopologyAssignment(tuple(WorkerSlot(*slot) for slot in raw["slots"]), tuple(raw["slot_of_executor"]))


def where(placement: TopologyAssignment | None) -> list[WorkerSlot | None]:
    """Return the slot of every executor; empty if nothing runs."""
    if placement is None:
        return []
    return [None if slot < 0 else placement.slots[slot] for slot in placement.slot_of_executor]


def _move_to_dict(move: TopologyMove) -> dict[str, Any]:
    return {
        "topology": move.topology.id,
        "name": move.topology.name,
        "before": placement_to_dict(move.before),
        "after": placement_to_dict(move.after),
        "moved": move.moved_executors,
        "arrives": move.arrives,
        "num_workers": move.num_workers,
        "legs": [
            {
                "after": placement_to_dict(leg.after),
                **{kind: [list(slot) for slot in getattr(leg, f"{kind}_workers")] for kind in _KINDS},
                "vacated": [node.id for node in leg.vacated],
            }
            for leg in move.legs
        ],
        **{kind: [list(slot) for slot in getattr(move, f"{kind}_workers")] for kind in _KINDS},
    }


def _move(raw: Mapping[str, Any], problem: Problem) -> TopologyMove:
    legs = tuple(
        Hop(placement_of(leg["after"]), *_workers(leg), tuple(_node(problem, node) for node in leg["vacated"]))
        for leg in raw["legs"]
    )
    topology = problem.topologies[problem.topology_index[raw["topology"]]]
    before, after = placement_of(raw["before"]), placement_of(raw["after"])
    moved, workers = raw["moved"], _workers(raw)
    return TopologyMove(topology, before, after, moved, *workers, legs, raw["arrives"], raw["num_workers"])


_KINDS = ("stopped", "started", "unchanged")

_Slots = tuple[WorkerSlot, ...]


def _changing(move: TopologyMove) -> tuple[WorkerSlot, ...]:
    return (*move.stopped_workers, *move.started_workers)


def _workers(raw: Mapping[str, Any]) -> tuple[_Slots, _Slots, _Slots]:
    stopped, started, unchanged = (tuple(WorkerSlot(*slot) for slot in raw[kind]) for kind in _KINDS)
    return stopped, started, unchanged


def _node(problem: Problem, node: str) -> Any:
    return problem.supervisors[problem.node_index[node]]
