"""A snapshot of Nimbus: a problem document in which some faults are those of one topology alone.

1. A configuration: whoever submits a topology writes it.
2. A slot that another topology has already: Nimbus stores assignments one by one, and may end between two that change
   places with each other. Storm 2.8.3 shows a scheduler one of the two in it, and the other without.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from stormwright.formats.document.faults import join_path, shown
from stormwright.formats.document.problem import problem_from_dict
from stormwright.model import UNPLACED, Problem
from stormwright.model.config.keys import conf_misfits

log = logging.getLogger(__name__)


def snapshot_from_dict(document: object, source: str = "snapshot") -> tuple[Problem, dict[str, tuple[str, ...]]]:
    """The problem that `document` (parsed JSON) describes, and topology id → faults of its configuration.

    What is wrong with one topology must not stop the others. In the problem it is without the keys of its configuration
    that have faults, and without slots that one before it in `document` has, which is logged: so it is placed anew.

    Raises
    ------
    InputError
        It is not a problem for any other reason; all its faults.
    """
    raw = document.get("topologies") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(raw, list):
        return problem_from_dict(document, source), {}
    unfit: dict[str, tuple[str, ...]] = {}
    topologies = [without_misfits(topology, unfit) for topology in raw]
    assignments = document.get("assignments")
    alone = {"assignments": _without_guests(assignments)} if isinstance(assignments, Mapping) else {}
    return problem_from_dict({**document, "topologies": topologies, **alone}, source), unfit


def _without_guests(assignments: Mapping[object, object]) -> dict[object, object]:
    """Assignments in which a slot has one topology; what is none is left to be told as a fault."""
    owner: dict[tuple[str, int], object] = {}
    return {name: _without_slots_of_others(name, placed, owner) for name, placed in assignments.items()}


def _without_slots_of_others(name: object, placed: object, owner: dict[tuple[str, int], object]) -> object:
    """What is placed without slots that others have in `owner`, and its executors there without a slot."""
    if not isinstance(placed, Mapping):
        return placed
    slots, of_executor = placed.get("slots"), placed.get("slot_of_executor")
    if not isinstance(slots, list) or not isinstance(of_executor, list):
        return placed
    number: dict[int, int] = {}
    kept: list[object] = []
    for position, slot in enumerate(slots):
        host = owner.setdefault((slot[0], slot[1]), name) if _is_slot(slot) else name
        number[position] = len(kept) if host == name else UNPLACED
        if host == name:
            kept.append(slot)
        else:
            log.warning("%s and %s are both in slot %s:%d: %s is placed anew", host, name, *slot, name)
    if len(kept) == len(slots):
        return placed
    moved = [number.get(each, each) if type(each) is int else each for each in of_executor]
    return {**placed, "slots": kept, "slot_of_executor": moved}


def _is_slot(slot: object) -> bool:
    return isinstance(slot, list) and len(slot) == 2 and isinstance(slot[0], str) and type(slot[1]) is int


def without_misfits(topology: object, unfit: dict[str, tuple[str, ...]]) -> object:
    """`topology` without keys that have faults, which are noted in `unfit`."""
    conf = topology.get("conf") if isinstance(topology, Mapping) else None
    misfits = conf_misfits(conf) if isinstance(conf, Mapping) else ()
    if not isinstance(topology, Mapping) or not isinstance(conf, Mapping) or not misfits:
        return topology
    unfit[str(topology.get("id"))] = tuple(
        f"{join_path('conf', *misfit.steps)}: {misfit.message}, got {shown(misfit.value)}" for misfit in misfits
    )
    faulty = {misfit.steps[0] for misfit in misfits}
    return {**topology, "conf": {key: value for key, value in conf.items() if key not in faulty}}
