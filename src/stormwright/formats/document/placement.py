"""Where one topology's executors run, to and from its JSON form; problems and assignments share it."""

from __future__ import annotations

from typing import Any

from stormwright.formats.document.bulk import list_column
from stormwright.formats.document.documents import PlacementDocument
from stormwright.formats.document.faults import FaultList, join_path
from stormwright.model import Topology, TopologyAssignment, WorkerSlot


def parse_placement(raw: object, topology: Topology | None, path: str, faults: FaultList) -> TopologyAssignment | None:
    """The placement that `raw` describes, or None if that added faults or `topology` itself is faulty.

    Parameters
    ----------
    raw
        What came out of JSON; of any type.
    topology
        What is placed; None where that is faulty, and then executors are not checked.
    path
        JSON path of `raw`.
    faults
        Takes what is wrong.
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
    """`placement` as JSON has it."""
    return {
        "slots": [list(slot) for slot in placement.slots],
        "slot_of_executor": list(placement.slot_of_executor),
    }
