"""A problem as one NumPy archive (``.npz``, not compressed): its long lists as arrays, everything else as JSON.

Such an archive is a zip of plain arrays with a checksum of each; `numpy.load` reads it anywhere, without pickles.
`ARRAYS` lists the arrays. Lists of several topologies are concatenated, in the order of ``load``
or of the assignments; ``*_count`` are the numbers of items of each.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import IO, Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray
from pydantic import Field

from stormwright.errors import Fault, InputError
from stormwright.formats.document.documents import EMPTY_LIST, Amount, FormatDocument
from stormwright.formats.document.faults import FaultList, join_path
from stormwright.formats.document.load import FLOW_GROUPINGS
from stormwright.formats.document.problem import nodes_and_costs_to_dict, problem_from_dict, problem_to_dict
from stormwright.formats.files.json_files import parse_json
from stormwright.model import LoadProfile, Problem, TopologyLoad
from stormwright.model.arrays import AMOUNT_WANTED, FRACTION_WANTED, MAX_AMOUNT, BoolArray, IndexArray, frozen
from stormwright.model.problem import CHECKED

BINARY_SCHEMA = "stormwright-problem-arrays/1"

#: Name → type of every array; all have one dimension.
ARRAYS: Mapping[str, np.dtype[Any]] = {
    "document": np.dtype("u1"),  # JSON text, see `ArraysDocument`
    "slot_count": np.dtype("<i8"),
    "slot_of_executor": np.dtype("<i4"),
    "executor_count": np.dtype("<i8"),
    "cpu_hz": np.dtype("<f8"),
    "memory_mb": np.dtype("<f8"),
    "pair_count": np.dtype("<i8"),
    "pair_source": np.dtype("<i4"),
    "pair_target": np.dtype("<i4"),
    "pair_tps": np.dtype("<f8"),
    "flow_count": np.dtype("<i8"),
    "flow_source": np.dtype("<i4"),
    "flow_component": np.dtype("<i4"),  # position among the topology's components
    "flow_grouping": np.dtype("u1"),  # position in `flow_groupings`
    "flow_tps": np.dtype("<f8"),
    "pair_bytes_per_s": np.dtype("<f8"),
    "flow_bytes_per_s": np.dtype("<f8"),
    "forecast_cpu_hz": np.dtype("<f8"),
    "live_heap_mb": np.dtype("<f8"),
    "waited": np.dtype("<f8"),
    "executing": np.dtype("<f8"),
    "runs_per_s": np.dtype("<f8"),
    "pending_trees": np.dtype("<f8"),
    "flow_limit_tps": np.dtype("<f8"),  # a component each, infinite where nothing limits it
}

#: Array of counts → the arrays whose items it counts.
_COUNTED: Mapping[str, tuple[str, ...]] = {
    "slot_count": ("slot_of_executor",),
    "executor_count": ("cpu_hz", "memory_mb"),
    "pair_count": ("pair_source", "pair_target", "pair_tps"),
    "flow_count": ("flow_source", "flow_component", "flow_grouping", "flow_tps"),
}

#: Arrays that not every topology has, and the one that has an item wherever they have one; None: a component each.
_OPTIONAL: Mapping[str, str | None] = {
    "pair_bytes_per_s": "pair_tps",
    "flow_bytes_per_s": "flow_tps",
    "forecast_cpu_hz": "cpu_hz",
    "live_heap_mb": "cpu_hz",
    "waited": "cpu_hz",
    "executing": "cpu_hz",
    "runs_per_s": "cpu_hz",
    "pending_trees": "cpu_hz",
    "flow_limit_tps": None,
}

#: Arrays that archives of older versions do not have.
_ADDED = ("live_heap_mb", "waited", "executing", "runs_per_s", "pending_trees")

Arrays = dict[str, NDArray[Any]]


class LoadHeader(FormatDocument):
    """Part of a topology's load outside of the arrays: bytes per tuple, and the optional arrays that it is in."""

    bytes_per_tuple: Amount | None = None
    arrays: list[
        Literal[
            "pair_bytes_per_s",
            "flow_bytes_per_s",
            "forecast_cpu_hz",
            "live_heap_mb",
            "waited",
            "executing",
            "runs_per_s",
            "pending_trees",
            "flow_limit_tps",
        ]
    ] = EMPTY_LIST


class ArraysDocument(FormatDocument):
    """Part of a problem file as JSON text in the array `document` of its NumPy archive, beside its other arrays.

    `problem` is a stormwright-problem/1 without `load` and without `slot_of_executor` in its assignments. `load` lists
    the topologies with a load, with the bytes per tuple if measured and which of the last nine arrays include
    it. The arrays, little-endian, of one dimension: `slot_count` (int64, a number for each of the assignments),
    `slot_of_executor` (int32); for each of `load` `executor_count`, `pair_count`, `flow_count` (int64), then `cpu_hz`,
    `memory_mb` (float64, an executor each), `pair_source`, `pair_target` (int32), `pair_tps` (float64), `flow_source`,
    `flow_component` (int32, a position among the topology's components), `flow_grouping` (uint8, a position in
    `flow_groupings`), `flow_tps` (float64); and of those that have them `pair_bytes_per_s`, `flow_bytes_per_s`,
    `forecast_cpu_hz`, `live_heap_mb`, `waited`, `executing`, `runs_per_s`, `pending_trees` (float64, an executor each)
    and `flow_limit_tps` (float64, a component each). All between `forecast_cpu_hz` and that may be missing in archives
    of older versions.
    """

    schema_name: Literal["stormwright-problem-arrays/1"] = Field(alias="schema")
    problem: dict[str, Any]
    load: dict[str, LoadHeader] | None = None
    flow_groupings: tuple[Literal["local_or_shuffle", "none", "shuffle"], ...] = Field((), strict=False)


def problem_from_archive(file: IO[bytes], source: str) -> Problem:
    """Read the problem in the archive `file`, which is seekable; `source` names it in errors.

    Raises
    ------
    InputError
        It is damaged, something else, or not a valid problem; all its faults.
    """
    arrays = _arrays(file, source)
    faults = FaultList()
    header = faults.parse(ArraysDocument, parse_json(arrays["document"].tobytes(), f"{source}: document"), "$")
    if header is None:
        raise faults.error(source)
    _check_counts(header, arrays, faults)
    if faults.faults:
        raise faults.error(source)
    problem = problem_from_dict(_with_slots(header.problem, arrays), source)
    if header.load is None:
        return problem
    loads = _loads(problem, header, arrays, faults)
    if faults.faults:
        raise faults.error(source)
    return replace(problem, load=replace(problem.load or LoadProfile({}), topologies=loads), parts=CHECKED)


def problem_to_bytes(problem: Problem) -> bytes:
    """Return `problem` as an archive."""
    document = problem_to_dict(replace(problem, load=None)) | nodes_and_costs_to_dict(problem)
    slots = [placement.pop("slot_of_executor") for placement in document["assignments"].values()]
    measured = problem.load.topologies if problem.load else {}
    loads = {topology.id: measured[topology.id] for topology in problem.topologies if topology.id in measured}
    headers = {
        name: {
            "bytes_per_tuple": load.bytes_per_tuple,
            "arrays": [array for array in _OPTIONAL if getattr(load, array) is not None],
        }
        for name, load in loads.items()
    }
    header = {
        "schema": BINARY_SCHEMA,
        "problem": document,
        "load": None if problem.load is None else headers,
        "flow_groupings": FLOW_GROUPINGS,
    }
    position = {kind: number for number, kind in enumerate(FLOW_GROUPINGS)}
    parts: dict[str, Sequence[Any]] = {
        name: [getattr(load, name) for load in loads.values() if getattr(load, name) is not None]
        for name in ARRAYS
        if name in TopologyLoad.__dataclass_fields__
    }
    parts["flow_grouping"] = [[position[kind] for kind in load.flow_grouping] for load in loads.values()]
    parts["slot_of_executor"] = slots
    parts |= {count: [[len(part)] for part in parts[counted[0]]] for count, counted in _COUNTED.items()}
    parts["document"] = [np.frombuffer(orjson.dumps(header), np.uint8)]
    archive = io.BytesIO()
    np.savez(
        archive,
        allow_pickle=False,
        **{
            name: np.concatenate([np.empty(0, dtype), *(np.asarray(part, dtype) for part in parts[name])])
            for name, dtype in ARRAYS.items()
        },
    )
    return archive.getvalue()


def _arrays(file: IO[bytes], source: str) -> Arrays:
    """Return the arrays in the archive, each of its type."""
    faults = FaultList()
    found: Arrays = {}
    try:
        with np.load(file, allow_pickle=False) as archive:
            for name in sorted(set(archive.files) - ARRAYS.keys()):
                faults.add("unknown array", name)
            for name, dtype in ARRAYS.items():
                if name in _ADDED and name not in archive.files:
                    found[name] = np.empty(0, dtype)
                    continue
                if name not in archive.files:
                    faults.add("array missing", name)
                    continue
                array = archive[name]
                if array.dtype != dtype or array.ndim != 1:
                    faults.add(f"should be a list of {dtype}, is of {array.dtype} with shape {array.shape}", name)
                    continue
                found[name] = frozen(array, dtype, own=True)
    except (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, NotImplementedError) as error:
        raise InputError(source, [Fault(f"is damaged, or no archive of plain NumPy arrays: {error}", "$")]) from error
    if faults.faults:
        raise faults.error(source)
    return found


def _check_counts(header: ArraysDocument, arrays: Arrays, faults: FaultList) -> None:
    """Check that counts match the items of the document, and arrays match the counts."""
    placed = header.problem.get("assignments")
    for count, counted in _COUNTED.items():
        section = placed if count == "slot_count" else header.load
        wanted = len(section) if isinstance(section, Mapping) else 0
        counts = arrays[count]
        if len(counts) != wanted:
            faults.add(f"has {len(counts)} items for {wanted} topologies", count)
        elif np.any(counts < 0):
            faults.add(f"should be at least 0, got {counts.min()}", count)
        else:
            faults_of = [name for name in counted if len(arrays[name]) != int(counts.sum())]
            for name in faults_of:
                faults.add(f"has {len(arrays[name])} items where {count} says {counts.sum()}", name)


def _with_slots(document: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    """Return the document of the problem with its assignments as `problem_from_dict` reads them."""
    placed = document.get("assignments")
    if not isinstance(placed, Mapping):
        return document
    slots = np.split(arrays["slot_of_executor"], np.cumsum(arrays["slot_count"])[:-1]) if placed else []
    whole = {
        name: {**raw, "slot_of_executor": own.tolist()} if isinstance(raw, Mapping) else raw
        for (name, raw), own in zip(placed.items(), slots, strict=True)
    }
    return {**document, "assignments": whole}


def _loads(problem: Problem, header: ArraysDocument, arrays: Arrays, faults: FaultList) -> dict[str, TopologyLoad]:
    """Return the load of every topology; arrays are checked as a whole."""
    measured = header.load or {}
    unknown = [name for name in measured if name not in problem.topology_index]
    for name in unknown:
        faults.add("unknown topology", join_path("$", "load", name))
    if unknown:
        return {}
    topologies = [problem.topologies[problem.topology_index[name]] for name in measured]
    executors = np.array([topology.num_executors for topology in topologies], np.int64)
    components = np.array([len(topology.components) for topology in topologies], np.int64)
    wrong = arrays["executor_count"] != executors
    _check(~wrong, arrays["executor_count"], "executor_count", "should be the executors of its topology", faults)
    of_pairs, of_flows = arrays["pair_count"], arrays["flow_count"]
    for name in ("cpu_hz", "memory_mb", "pair_tps", "flow_tps", *_OPTIONAL):
        sound = (arrays[name] >= 0) & ((arrays[name] <= MAX_AMOUNT) | (name == "flow_limit_tps"))
        _check(sound, arrays[name], name, AMOUNT_WANTED, faults)
    _check(arrays["waited"] <= 1, arrays["waited"], "waited", FRACTION_WANTED, faults)
    an_executor, a_component = "should be an executor of its topology", "should be a component of its topology"
    for name, most, counts, wanted in (
        ("pair_source", executors, of_pairs, an_executor),
        ("pair_target", executors, of_pairs, an_executor),
        ("flow_source", executors, of_flows, an_executor),
        ("flow_component", components, of_flows, a_component),
    ):
        array = arrays[name]
        _check((array >= 0) & (array < np.repeat(most, counts)), array, name, wanted, faults)
    grouping = arrays["flow_grouping"]
    kinds = f"should be the position of one of {', '.join(header.flow_groupings)}"
    _check(grouping < len(header.flow_groupings), grouping, "flow_grouping", kinds, faults)
    optional = _optional(measured, components, arrays, faults)
    if faults.faults:
        return {}
    starts = {count: np.concatenate([[0], np.cumsum(arrays[count])]).tolist() for count in _COUNTED}
    loads = {}
    for number, (name, load_header) in enumerate(measured.items()):
        own: dict[str, Any] = {
            array: arrays[array][starts[count][number] : starts[count][number + 1]]
            for count, counted in _COUNTED.items()
            if count != "slot_count"
            for array in counted
        }
        own["flow_grouping"] = tuple(header.flow_groupings[kind] for kind in own["flow_grouping"].tolist())
        own |= optional[name]
        loads[name] = TopologyLoad(**own, bytes_per_tuple=load_header.bytes_per_tuple)
    return loads


def _optional(
    measured: Mapping[str, LoadHeader], components: IndexArray, arrays: Arrays, faults: FaultList
) -> dict[str, Arrays]:
    """Return the optional arrays of every topology."""
    counts = {counted: count for count, names in _COUNTED.items() for counted in names}
    found: dict[str, Arrays] = {name: {} for name in measured}
    for array, beside in _OPTIONAL.items():
        lengths = components if beside is None else arrays[counts[beside]]
        start = 0
        for (name, load_header), length in zip(measured.items(), lengths.tolist(), strict=True):
            if array in load_header.arrays:
                found[name][array] = arrays[array][start : start + length]
                start += length
        if len(arrays[array]) != start:
            faults.add(f"has {len(arrays[array])} items where the load says {start}", array)
    return found


def _check(sound: BoolArray, values: NDArray[Any], name: str, wanted: str, faults: FaultList) -> None:
    """Add a fault for the first invalid item, with the number of them."""
    wrong: IndexArray = np.flatnonzero(~sound)
    if len(wrong):
        more = f" ({len(wrong) - 1} more like this)" if len(wrong) > 1 else ""
        faults.add(f"{wanted}, got {values[wrong[0]]}{more}", f"{name}[{wrong[0]}]")
