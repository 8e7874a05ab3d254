"""Nimbus requests from bytes to a problem; unchanged parts of the previous request are not read again."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby, repeat
from operator import is_, itemgetter
from typing import Any, NamedTuple
from uuid import uuid4

import orjson

from stormwright.errors import Fault, InputError
from stormwright.formats.document.assignment import parse_placement
from stormwright.formats.document.documents import ProblemDocument, SupervisorDocument, TopologyDocument
from stormwright.formats.document.faults import FaultList, join_path, shown
from stormwright.formats.document.load import LOAD_FIELDS
from stormwright.formats.document.problem import parse_supervisor, problem_from_dict
from stormwright.formats.document.topology import parse_topology
from stormwright.model import UNPLACED, Problem, Supervisor, Topology, TopologyAssignment
from stormwright.model.problem import CHECKED
from stormwright.model.topology_config import conf_misfits, storm_misfits

log = logging.getLogger(__name__)

SOURCE = "snapshot of Nimbus"

#: Placeholder for lines in the rest of a document; it occurs nowhere else.
_MARK = uuid4().hex


# A snapshot of Nimbus: a problem document in which some faults are those of one topology alone.
#
# 1. A configuration: it is written by the user who submits a topology.
# 2. A slot that another topology has already: Nimbus stores assignments one by one, and may end between two that change
#    places with each other. Storm 2.8.3 shows a scheduler one of the two in it, and the other without.
def snapshot_from_dict(document: object, source: str = "snapshot") -> tuple[Problem, dict[str, tuple[str, ...]]]:
    """Return the problem of `document` (parsed JSON), and topology id → faults of its configuration.

    A faulty topology must not stop the others. In the problem it is without the keys of its configuration
    that have faults, and without slots that another one before it in `document` has, which is logged: so it is placed
    again.

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
    """Return assignments in which a slot has one topology; invalid ones are left for the fault report."""
    owner: dict[tuple[str, int], object] = {}
    return {name: _without_foreign_slots(name, placed, owner) for name, placed in assignments.items()}


def _without_foreign_slots(name: object, placed: object, owner: dict[tuple[str, int], object]) -> object:
    """Return the placement without slots of others in `owner`; its executors there have no slot."""
    if not isinstance(placed, Mapping):
        return placed
    slots, of_executor = placed.get("slots"), placed.get("slot_of_executor")
    if not isinstance(slots, list) or not isinstance(of_executor, list):
        return placed
    number: dict[int, int] = {}
    remaining: list[object] = []
    for position, slot in enumerate(slots):
        host = owner.setdefault((slot[0], slot[1]), name) if _is_slot(slot) else name
        number[position] = len(remaining) if host == name else UNPLACED
        if host == name:
            remaining.append(slot)
        else:
            log.warning("%s and %s are both in slot %s:%d: %s is placed again", host, name, *slot, name)
    if len(remaining) == len(slots):
        return placed
    moved = [number.get(each, each) if type(each) is int else each for each in of_executor]
    return {**placed, "slots": remaining, "slot_of_executor": moved}


def _is_slot(slot: object) -> bool:
    return isinstance(slot, list) and len(slot) == 2 and isinstance(slot[0], str) and type(slot[1]) is int


def without_misfits(topology: object, unfit: dict[str, tuple[str, ...]]) -> object:
    """Return `topology` without keys that have faults, which are added to `unfit`."""
    conf = topology.get("conf") if isinstance(topology, Mapping) else None
    misfits = conf_misfits(conf) if isinstance(conf, Mapping) else ()
    if not isinstance(topology, Mapping) or not isinstance(conf, Mapping) or not misfits:
        return topology
    unfit[str(topology.get("id"))] = tuple(
        f"{join_path('conf', *misfit.steps)}: {misfit.message}, got {shown(misfit.value)}" for misfit in misfits
    )
    faulty = {misfit.steps[0] for misfit in misfits}
    return {**topology, "conf": {key: value for key, value in conf.items() if key not in faulty}}


_first_byte = itemgetter(slice(1))


class Snapshot(NamedTuple):
    """The cluster as reported by Nimbus, and topology id → faults of its configuration."""

    problem: Problem
    unfit: Mapping[str, tuple[str, ...]]


class _Layout(NamedTuple):
    """A problem document without its lists, also as bytes, and these line by line, each with a comma."""

    header: dict[str, Any]
    content: bytes
    supervisors: Sequence[bytes]
    topologies: Sequence[bytes]
    assignments: Sequence[bytes]


#: State before the first request, and after one that had to be read as a whole.
_NO_LAYOUT = _Layout({}, b"", (), (), ())


class SnapshotReader:
    """Reader of successive requests of Nimbus; not thread-safe.

    ``PlacementScheduler`` writes every supervisor, topology and assignment on a line of its own. A line that was in the
    previous request is not parsed again, and the same request gives the same problem; another one shares unchanged
    parts with the previous problem, which are not checked again. A request with another layout, or with faults, is read
    as a whole: the layout only saves time.
    """

    def __init__(self) -> None:
        self._body = b""
        #: Layout of the request that the snapshot was read from by its lines.
        self._layout = _NO_LAYOUT
        self._snapshot: Snapshot | None = None
        self._supervisors: dict[bytes, Supervisor | None] = {}
        self._topologies: dict[bytes, tuple[Topology, tuple[str, ...]] | None] = {}
        self._placements: dict[bytes, tuple[str, TopologyAssignment] | None] = {}

    def read(self, body: bytes) -> Snapshot:
        """Read the snapshot in `body`.

        Raises
        ------
        InputError
            It is not a snapshot; all its faults.
        """
        if self._snapshot is None or body != self._body:
            before, self._layout = self._layout, _NO_LAYOUT
            self._snapshot = self._by_lines(body, before) or _whole(body)
            self._body = body
        return self._snapshot

    def _by_lines(self, body: bytes, before: _Layout) -> Snapshot | None:
        """Return the snapshot, or None if it has to be read as a whole."""
        layout = _lay_out(body)
        faults = FaultList()
        header = faults.parse(ProblemDocument, layout.header, "$") if layout else None
        if layout is None or header is None or storm_misfits(header.conf):
            return None
        if not header.model_fields_set.isdisjoint(LOAD_FIELDS):
            return None
        same_header = layout.content == before.content
        if not same_header:
            self._supervisors = {}
        if not same_header or layout.supervisors != before.supervisors:
            self._supervisors = {
                line: self._supervisors.get(line) or _supervisor(line, header.core_hz) for line in layout.supervisors
            }
        if layout.topologies != before.topologies:
            self._topologies = {line: self._topologies.get(line) or _topology(line) for line in layout.topologies}
        topologies = {parsed[0].id: parsed for parsed in self._topologies.values() if parsed}
        self._placements = {
            line: self._placements.get(line) or _placement(line, topologies) for line in layout.assignments
        }
        supervisors = [each for each in self._supervisors.values() if each]
        current = dict(each for each in self._placements.values() if each)
        if not _sound(layout, supervisors, topologies, current):
            return None
        held = self._snapshot.problem if self._snapshot and before is not _NO_LAYOUT else None
        try:
            problem = _problem(
                header, supervisors, [parsed[0] for parsed in topologies.values()], current, held, same_header
            )
        except InputError:
            return None
        self._layout = layout
        return Snapshot(problem, {name: faults for name, (_, faults) in topologies.items() if faults})


def _problem(
    header: ProblemDocument,
    supervisors: Sequence[Supervisor],
    topologies: Sequence[Topology],
    current: Mapping[str, TopologyAssignment],
    held: Problem | None,
    same_header: bool,
) -> Problem:
    """Return the problem of the parsed parts, derived from the previous one, if any, to share unchanged parts."""
    fields: dict[str, Any] = {
        "supervisors": tuple(supervisors),
        "topologies": tuple(topologies),
        "current": current,
        "name": header.name,
        "conf": header.conf,
        "blacklisted_hosts": frozenset(header.blacklisted_hosts),
        "greylisted_supervisors": tuple(header.greylisted_supervisors),
        "core_hz": header.core_hz,
    }
    if held is None:  # each line is valid: only placements as a whole remain to be checked
        return Problem(**fields | {"current": {}}, parts=CHECKED).with_current(current)
    if same_header:
        fields["conf"] = held.conf
    for name in ("blacklisted_hosts", "greylisted_supervisors"):
        if fields[name] == getattr(held, name):
            fields[name] = getattr(held, name)
    # Equal is not enough: 1 equals true, which a configuration may hold.
    for name in ("supervisors", "topologies"):
        if len(fields[name]) == len(getattr(held, name)) and all(map(is_, fields[name], getattr(held, name))):
            fields[name] = getattr(held, name)
    return replace(held, **fields)


def _lay_out(body: bytes) -> _Layout | None:
    """Return the lines of a request, None if it has another layout."""
    first, *lines = body.split(b"\n")
    rest, runs = [first], list[list[bytes]]()
    for start, group in groupby(lines, key=_first_byte):
        if start in (b"{", b'"'):
            run = list(group)
            # Without its comma each is an object, or a key with its value.
            if run[-1].endswith(b",") or not all(map(bytes.endswith, run[:-1], repeat(b","))):
                return None
            rest.append(b'"%s%d"' % (_MARK.encode(), len(runs)) + (b":0" if start == b'"' else b""))
            runs.append([*run[:-1], run[-1] + b","])
        else:
            rest += group
    try:
        document = orjson.loads(b"\n".join(rest))
    except orjson.JSONDecodeError:
        return None
    header = document.get("problem") if isinstance(document, dict) else None
    if not isinstance(header, dict):
        return None
    found = {f"{_MARK}{number}": run for number, run in enumerate(runs)}
    lists = []
    for key, kind in (("supervisors", list), ("topologies", list), ("assignments", dict)):
        held = header.pop(key, {} if kind is dict else None)
        marks = [str(mark) for mark in held] if isinstance(held, kind) else [""]
        if len(marks) > 1 or not found.keys() >= set(marks):
            return None
        lists.append([line for mark in marks for line in found.pop(mark)])
    # Lines elsewhere would be lost.
    return None if found else _Layout({**header, "supervisors": [], "topologies": []}, orjson.dumps(header), *lists)


def _supervisor(line: bytes, core_hz: float) -> Supervisor | None:
    faults = FaultList()
    header = faults.parse(SupervisorDocument, _object(line), "$")
    supervisor = parse_supervisor(header, core_hz, "$", faults) if header else None
    return None if faults.faults else supervisor


def _topology(line: bytes) -> tuple[Topology, tuple[str, ...]] | None:
    faults, unfit = FaultList(), dict[str, tuple[str, ...]]()
    raw = without_misfits(_object(line), unfit)
    header = faults.parse(TopologyDocument, raw, "$")
    topology = parse_topology(raw, header, "$", faults, conf_is_sound=True)
    return (topology, unfit.get(topology.id, ())) if topology and not faults.faults else None


def _placement(
    line: bytes, topologies: Mapping[str, tuple[Topology, tuple[str, ...]]]
) -> tuple[str, TopologyAssignment] | None:
    held = _object(b"{%s}," % line[:-1])
    if len(held) != 1:
        return None
    ((name, raw),) = held.items()
    placement = parse_placement(raw, topologies[name][0], "$", FaultList()) if name in topologies else None
    return (name, placement) if placement else None


def _object(line: bytes) -> dict[str, Any]:
    """Return the object of a line, without its comma; if it is not one, an empty object, which is a fault here."""
    try:
        held = orjson.loads(line[:-1])
    except orjson.JSONDecodeError:
        return {}
    return held if isinstance(held, dict) else {}


def _sound(
    layout: _Layout,
    supervisors: Sequence[Supervisor],
    topologies: Mapping[str, tuple[Topology, tuple[str, ...]]],
    current: Mapping[str, TopologyAssignment],
) -> bool:
    """Return whether every line is valid and no two lines are about the same thing.

    If not, and if the problem of them all is invalid, reading them as a whole reports why.
    """
    return (
        len({supervisor.id for supervisor in supervisors}) == len(layout.supervisors)
        and len(topologies) == len(layout.topologies)
        and len(current) == len(layout.assignments)
        and all(
            name in topologies and len(placement.slot_of_executor) == topologies[name][0].num_executors
            for name, placement in current.items()
        )
    )


def _whole(body: bytes) -> Snapshot:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InputError(SOURCE, [Fault(f"not JSON: {error}", "$")]) from error
    if not isinstance(document, dict):
        raise InputError(SOURCE, [Fault(f"should be an object, got {shown(document)}", "$")])
    if "problem" not in document:
        raise InputError(SOURCE, [Fault("required field missing", "$.problem")])
    return Snapshot(*snapshot_from_dict(document["problem"], source=SOURCE))
