"""`stormwright-assignment/1`, read for a given problem, and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from stormwright.formats.document.bulk import list_column
from stormwright.formats.document.documents import (
    ASSIGNMENT_SCHEMA,
    AssignmentDocument,
    PlacementDocument,
    UnplacedDocument,
)
from stormwright.formats.document.faults import FaultList, join_path, require_schema, shown
from stormwright.formats.files.json_files import read_json, write_json
from stormwright.model import UNPLACED, Assignment, Cost, Problem, Topology, TopologyAssignment, Unplaced, WorkerSlot
from stormwright.model.arrays import frozen


def parse_placement(raw: object, topology: Topology | None, path: str, faults: FaultList) -> TopologyAssignment | None:
    """Return the placement of `raw`, or None if that added faults or `topology` itself is faulty.

    Parameters
    ----------
    raw
        Value from JSON; of any type.
    topology
        The placed topology; None if it is faulty, and then executors are not checked.
    path
        JSON path of `raw`.
    faults
        List to which faults of `raw` are added.
    """
    found_before = len(faults)
    header = faults.parse(PlacementDocument, raw, path)
    if header is None or not isinstance(raw, dict):
        return None
    slots = tuple(WorkerSlot(*slot) for slot in header.slots)
    first: dict[WorkerSlot, int] = {}
    for position, slot in enumerate(slots):
        if first.setdefault(slot, position) != position:
            faults.add(f"{slot} is slot {first[slot]} already", join_path(path, "slots", position))
    if topology is None:
        return None
    column = list_column(raw, "slot_of_executor", path, faults, length=topology.num_executors)
    indices = column.indices(-1, len(slots), f"-1 or the index of one of {len(slots)} slots")
    return TopologyAssignment(slots, tuple(indices.tolist())) if len(faults) == found_before else None


def placement_to_dict(placement: TopologyAssignment) -> dict[str, Any]:
    """Return `placement` for JSON."""
    return {
        "slots": [list(slot) for slot in placement.slots],
        "slot_of_executor": list(placement.slot_of_executor),
    }


def read_assignment(path: Path, problem: Problem) -> Assignment:
    """Read the assignment of `problem` in the file at `path`, gzipped or not.

    Raises
    ------
    InputError
        The file cannot be read, is not an assignment, or is one of another problem; all its faults.
    """
    return assignment_from_dict(read_json(path), problem, str(path))


def write_assignment(path: Path, problem: Problem, assignment: Assignment, cost: Cost | None = None) -> None:
    """Write an assignment to a file.

    Parameters
    ----------
    path
        The file; gzipped if its name ends in ``.gz``.
    problem
        Problem that was assigned, for names of slots and executors.
    assignment
        The assignment, with the reasons for unplaced executors.
    cost
        Its cost, which is added; None to leave that out.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    write_json(path, assignment_to_dict(problem, assignment, cost))


def assignment_from_dict(document: object, problem: Problem, source: str = "assignment") -> Assignment:
    """Return the assignment of `problem` in `document` (parsed JSON); `source` names it in errors.

    A topology that is left out has no executor placed. Validity of the placement is not checked: use
    `stormwright.model.violations`.

    Raises
    ------
    InputError
        It is not an assignment of this problem; all its faults.
    """
    require_schema(document, source, ASSIGNMENT_SCHEMA)
    faults = FaultList()
    header = faults.parse(AssignmentDocument, document, "$")
    slot_of_executor = np.full(problem.num_executors, UNPLACED, dtype=np.int32)
    for name, raw, at in faults.entries(document, "assignments", "$"):
        index = problem.topology_index.get(name)
        if index is None:
            faults.add("unknown topology", at)
        placement = parse_placement(raw, None if index is None else problem.topologies[index], at, faults)
        if index is None or placement is None:
            continue
        slots = _slot_indices(problem, placement, at, faults)
        slot_of_executor[problem.executors_of(index)] = np.array([*slots, UNPLACED])[list(placement.slot_of_executor)]
    unplaced = [_unplaced(item, problem, at, faults) for item, at in faults.items(document, "unplaced", "$")]
    if header is None or faults.faults:
        raise faults.error(source)
    return Assignment(
        slot_of_executor=frozen(slot_of_executor, np.int32, own=True),
        unplaced=tuple(executor for executor in unplaced if executor is not None),
        status=header.status,
        scheduler=header.scheduler,
        parameters=header.parameters,
        seconds=header.seconds,
        num_workers=header.num_workers,
    )


def _slot_indices(problem: Problem, placement: TopologyAssignment, path: str, faults: FaultList) -> list[int]:
    for position, slot in enumerate(placement.slots):
        if slot not in problem.slot_index:
            faults.add(f"the problem has no slot {slot}", join_path(path, "slots", position))
    return [problem.slot_index.get(slot, UNPLACED) for slot in placement.slots]


def _unplaced(raw: object, problem: Problem, path: str, faults: FaultList) -> Unplaced | None:
    header = faults.parse(UnplacedDocument, raw, path)
    if header is None:
        return None
    index = problem.topology_index.get(header.topology)
    if index is None:
        faults.add(f"unknown topology {shown(header.topology)}", join_path(path, "topology"))
    elif header.executor >= problem.topologies[index].num_executors:
        faults.add(f"{header.topology} has no executor {header.executor}", join_path(path, "executor"))
    return Unplaced(header.topology, header.executor, header.component, tuple(header.reasons))


def assignment_to_dict(problem: Problem, assignment: Assignment, cost: Cost | None = None) -> dict[str, Any]:
    """Return `assignment` as a `stormwright-assignment/1` document of plain Python values."""
    placements: Mapping[str, TopologyAssignment] = assignment.by_topology(problem)
    document: dict[str, Any] = {
        "schema": ASSIGNMENT_SCHEMA,
        "assignments": {name: placement_to_dict(placement) for name, placement in placements.items()},
        "unplaced": [{**asdict(executor), "reasons": list(executor.reasons)} for executor in assignment.unplaced],
        "status": dict(assignment.status),
        "scheduler": assignment.scheduler,
        "parameters": dict(assignment.parameters),
        "seconds": assignment.seconds,
    }
    if assignment.num_workers:
        document["num_workers"] = dict(assignment.num_workers)
    if cost is not None:
        document["cost"] = asdict(cost)
    return document
