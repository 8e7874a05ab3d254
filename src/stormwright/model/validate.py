"""Validation of problems."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stormwright.base.escaping import shown
from stormwright.errors import Fault
from stormwright.model.arrays import AMOUNT_WANTED, FRACTION_WANTED, MAX_AMOUNT, BoolArray, FloatArray, IntArray
from stormwright.model.assignment import UNPLACED, TopologyAssignment
from stormwright.model.cluster import Cluster, Supervisor
from stormwright.model.demand import Demand
from stormwright.model.faults import (
    ModelFault,
    amount_wrong,
    integer_wrong,
    items_wrong,
    number_wrong,
    text_wrong,
    twice,
)
from stormwright.model.running import CurrentPlacement
from stormwright.model.topology import PLACEMENT_FOLLOWING, Topology, misfit_wrong
from stormwright.model.topology_config import storm_misfits
from stormwright.model.workload import Workload

if TYPE_CHECKING:
    from stormwright.model.cluster import WorkerSlot
    from stormwright.model.load import TopologyLoad

_LAST_PORT = 65535


class ProblemParts(NamedTuple):
    """The four parts of a problem, which hold its arrays."""

    cluster: Cluster
    workload: Workload
    demand: Demand
    running: CurrentPlacement


def cluster_wrong(supervisors: tuple[Supervisor, ...], before: tuple[Supervisor, ...] = ()) -> Iterator[ModelFault]:
    """Yield the faults of supervisors, each with its path from the problem.

    A large cluster has many nodes, so each is first checked as a whole (`_is_sound`).

    Parameters
    ----------
    supervisors
        Supervisors of the problem.
    before
        Supervisors that were checked already.
    """
    known = set(map(id, before))
    yield from twice([node.id for node in supervisors], "supervisors")
    for index, node in enumerate(supervisors):
        if id(node) not in known and not _is_sound(node):
            yield from (wrong.within("supervisors", index) for wrong in _node_wrong(node))


def _is_sound(node: Supervisor) -> bool:
    """Return whether a node is valid in the common case, which needs no closer look."""
    ports, amounts = node.ports, node.resources.values()
    return (
        bool(node.id and node.host)
        and node.link_bps is None
        and set(map(type, (node.id, node.host, node.rack))) == {str}
        and set(map(type, (node.cpu_hz, *amounts))) == {float}
        and set(map(type, ports)) <= {int}
        and len(set(ports)) == len(ports)
        and (not ports or (min(ports) >= 0 and max(ports) <= _LAST_PORT))
        and all(0 <= amount <= MAX_AMOUNT for amount in amounts)
        and node.cpu_hz >= 0
    )


def _node_wrong(node: Supervisor) -> Iterator[ModelFault]:
    yield from text_wrong(node.id, "id")
    yield from text_wrong(node.host, "host")
    if not isinstance(node.rack, str):
        yield ModelFault(f"should be a text, got {node.rack!r}", ("rack",))
    for position, port in enumerate(node.ports):
        yield from integer_wrong(port, 0, _LAST_PORT, "ports", position)
        if port in node.ports[:position]:
            yield ModelFault(f"port {port} is there twice", ("ports", position))
    # A supervisor without a limit has infinitely much.
    yield from number_wrong(node.cpu_hz, 0, math.inf, "should be a number, at least 0", "cpu_hz")
    for name, amount in node.resources.items():
        yield from amount_wrong(amount, "resources", name)
    if node.link_bps is not None and node.link_bps != 0:
        yield from amount_wrong(node.link_bps, "link_bps")
    elif node.link_bps == 0:
        yield ModelFault("should be a number above 0, got 0", ("link_bps",))


def demand_wrong(demand: Demand) -> Iterator[ModelFault]:
    """Yield the faults of measured loads, each with its path from the problem.

    Loads of invalid topologies are skipped.
    """
    pairs = [
        (topology, load)
        for topology, load in zip(demand.workload.topologies, demand.measured, strict=True)
        if load is not None and not topology.wrong
    ]
    if all(_fits(topology, load) for topology, load in pairs) and _sound([load for _, load in pairs]):
        return
    for topology, load in pairs:
        for wrong in _load_wrong(topology, load):
            yield wrong.within("load", topology.id)


def _fits(topology: Topology, load: TopologyLoad) -> bool:
    """Return whether arrays have the right length, and no index is beyond its end.

    Like `_sound` it checks whole arrays, as loads arrive each second; only if something is wrong, `_load_wrong`
    searches item by item.
    """
    executors, components = topology.num_executors, len(topology.components)
    pairs, flows = len(load.pair_tps), len(load.flow_tps)
    return (
        load.cpu_hz.shape == load.memory_mb.shape == (executors,)
        and load.pair_source.shape == load.pair_target.shape == load.pair_tps.shape == (pairs,)
        and load.flow_source.shape == load.flow_component.shape == load.flow_tps.shape == (flows,)
        and len(load.flow_grouping) == flows
        and (load.flow_limit_tps is None or load.flow_limit_tps.shape == (components,))
        and (load.forecast_cpu_hz is None or load.forecast_cpu_hz.shape == (executors,))
        and (load.live_heap_mb is None or load.live_heap_mb.shape == (executors,))
        and (load.waited is None or load.waited.shape == (executors,))
        and (load.executing is None or load.executing.shape == (executors,))
        and (load.runs_per_s is None or load.runs_per_s.shape == (executors,))
        and (load.pending_trees is None or load.pending_trees.shape == (executors,))
        and (load.pair_bytes_per_s is None or load.pair_bytes_per_s.shape == (pairs,))
        and (load.flow_bytes_per_s is None or load.flow_bytes_per_s.shape == (flows,))
        and (not pairs or max(load.pair_source.max(), load.pair_target.max()) < executors)
        and (not flows or (load.flow_source.max() < executors and load.flow_component.max() < components))
        and PLACEMENT_FOLLOWING.issuperset(load.flow_grouping)
        and not any(amount_wrong(load.bytes_per_tuple) if load.bytes_per_tuple is not None else ())
    )


def _sound(loads: Sequence[TopologyLoad]) -> bool:
    """Return whether all amounts are valid and no index is negative, for all loads at once."""
    amounts = [each for load in loads for each in (load.cpu_hz, load.memory_mb, load.pair_tps, load.flow_tps)]
    optional = (
        *("pair_bytes_per_s", "flow_bytes_per_s"),
        *("forecast_cpu_hz", "live_heap_mb", "runs_per_s", "pending_trees"),
    )
    amounts += [each for load in loads for name in optional if (each := getattr(load, name)) is not None]
    fractions = [each for load in loads for each in (load.waited, load.executing) if each is not None]
    limits = [load.flow_limit_tps for load in loads if load.flow_limit_tps is not None]
    indices = [
        each for load in loads for each in (load.pair_source, load.pair_target, load.flow_source, load.flow_component)
    ]
    return bool(
        _are_amounts(_together(amounts)).all()
        and _are_fractions(_together(fractions)).all()
        and _are_limits(_together(limits)).all()
        and (not indices or np.concatenate(indices).min(initial=0) >= 0)
    )


def _together(arrays: Sequence[FloatArray]) -> FloatArray:
    return np.concatenate([np.empty(0), *arrays])


def _are_amounts(values: FloatArray) -> BoolArray:
    sound: BoolArray = (values >= 0) & (values <= MAX_AMOUNT)
    return sound


def _are_fractions(values: FloatArray) -> BoolArray:
    sound: BoolArray = (values >= 0) & (values <= 1)
    return sound


def _are_limits(values: FloatArray) -> BoolArray:
    sound: BoolArray = _are_amounts(values) | (values == np.inf)
    return sound


def _load_wrong(topology: Topology, load: TopologyLoad) -> Iterator[ModelFault]:
    executors, components = topology.num_executors, topology.components
    yield from _column_wrong("cpu_hz", load.cpu_hz, executors, "executors")
    yield from _column_wrong("memory_mb", load.memory_mb, executors, "executors")
    yield from _column_wrong("forecast_cpu_hz", load.forecast_cpu_hz, executors, "executors")
    yield from _column_wrong("live_heap_mb", load.live_heap_mb, executors, "executors")
    yield from _column_wrong("runs_per_s", load.runs_per_s, executors, "executors")
    yield from _column_wrong("pending_trees", load.pending_trees, executors, "executors")
    for name in ("waited", "executing"):
        fractions = getattr(load, name)
        yield from _column_wrong(name, fractions, executors, "executors", (_are_fractions, FRACTION_WANTED))
    yield from _column_wrong("pair_bytes_per_s", load.pair_bytes_per_s, len(load.pair_tps), "pairs")
    yield from _column_wrong("flow_bytes_per_s", load.flow_bytes_per_s, len(load.flow_tps), "flows")
    if load.bytes_per_tuple is not None:
        yield from amount_wrong(load.bytes_per_tuple, "bytes_per_tuple")
    an_executor = f"should be the index of one of {executors} executors"
    pairs = load.pair_source, load.pair_target, load.pair_tps
    if not (yield from _lengths_wrong("pairs", pairs)):
        for column, source in enumerate(pairs[:2]):
            yield from _indices_wrong(source, executors, an_executor, _in_row("pairs", column))
        yield from items_wrong(_are_amounts(load.pair_tps), load.pair_tps, AMOUNT_WANTED, _in_row("pairs", 2))
    flows = load.flow_source, load.flow_component, load.flow_grouping, load.flow_tps
    if not (yield from _lengths_wrong("flows", flows)):
        yield from _indices_wrong(load.flow_source, executors, an_executor, _in_row("flows", 0))
        a_component = f"should be the index of one of {len(components)} components"
        yield from _indices_wrong(load.flow_component, len(components), a_component, _in_row("flows", 1))
        follow = np.array([grouping in PLACEMENT_FOLLOWING for grouping in load.flow_grouping], dtype=bool)
        wanted = f"should be one of {', '.join(sorted(PLACEMENT_FOLLOWING))}"
        yield from items_wrong(follow, load.flow_grouping, wanted, _in_row("flows", 2))
        yield from items_wrong(_are_amounts(load.flow_tps), load.flow_tps, AMOUNT_WANTED, _in_row("flows", 3))
    if (limits := load.flow_limit_tps) is not None:
        if limits.shape != (len(components),):
            yield ModelFault(f"has {len(limits)} items for {len(components)} components", ("flow_limits",))
        else:
            names = [component.id for component in components]
            yield from items_wrong(_are_limits(limits), limits, AMOUNT_WANTED, lambda c: ("flow_limits", names[c]))


def _column_wrong(
    name: str,
    values: FloatArray | None,
    length: int,
    unit: str,
    rule: tuple[Callable[[FloatArray], BoolArray], str] = (_are_amounts, AMOUNT_WANTED),
) -> Iterator[ModelFault]:
    if values is None:
        return
    if values.shape != (length,):
        yield ModelFault(f"has {values.size} items for {length} {unit}", (name,))
    else:
        sound, wanted = rule
        yield from items_wrong(sound(values), values, wanted, lambda position: (name, position))


def _indices_wrong(
    values: IntArray, count: int, wanted: str, place: Callable[[int], tuple[str | int, ...]]
) -> Iterator[ModelFault]:
    yield from items_wrong((values >= 0) & (values < count), values, wanted, place)


def _lengths_wrong(
    name: str, columns: Sequence[Sequence[object] | IntArray | FloatArray]
) -> Generator[ModelFault, None, bool]:
    """Yield faults of columns with unequal lengths; return whether there are any."""
    lengths = [len(column) for column in columns]
    if len(set(lengths)) == 1:
        return False
    yield ModelFault(f"should have columns of one length, got {shown(lengths)}", (name,))
    return True


def _in_row(name: str, column: int) -> Callable[[int], tuple[str | int, ...]]:
    return lambda position: (name, position, column)


def running_wrong(running: CurrentPlacement, before: CurrentPlacement | None = None) -> Iterator[ModelFault]:
    """Yield the faults of the current assignment, each with its path from the problem.

    Slots of supervisors and topologies that are gone are no faults: their executors are lost.

    Parameters
    ----------
    running
        Current assignment of every topology, on the slots of the cluster.
    before
        One that was checked already: unchanged assignments are only checked for slots with two owners.
    """
    shared = len(running.owner) < sum(len(placement.slots) for placement in running.current.values())
    looked_at = running.new_since(before) if before and not shared else running.current
    owner: dict[WorkerSlot, str] = {}
    for name, placement in looked_at.items():
        index = running.workload.topology_index.get(name)
        topology = None if index is None else running.workload.topologies[index]
        executors = None if topology is None or topology.wrong else topology.num_executors
        for wrong in _placement_wrong(placement, executors):
            yield wrong.within("assignments", name)
        for position, slot in enumerate(placement.slots):
            if owner.setdefault(slot, name) != name:
                message = f"{slot} belongs to {owner[slot]} already"
                yield ModelFault(message, ("assignments", name, "slots", position))


def _placement_wrong(placement: TopologyAssignment, executors: int | None) -> Iterator[ModelFault]:
    slots, of_executor = placement.slots, placement.slot_of_executor
    if len(set(slots)) < len(slots):
        first: dict[WorkerSlot, int] = {}
        for position, slot in enumerate(slots):
            if first.setdefault(slot, position) != position:
                yield ModelFault(f"{slot} is slot {first[slot]} already", ("slots", position))
    if executors is None:
        return
    if len(of_executor) != executors:
        yield ModelFault(f"has {len(of_executor)} items for {executors} executors", ("slot_of_executor",))
    elif executors and not UNPLACED <= min(of_executor) <= max(of_executor) < len(slots):
        positions = np.array(of_executor)
        wanted = f"should be -1 or the index of one of {len(slots)} slots"
        sound = (positions >= UNPLACED) & (positions < len(slots))
        yield from items_wrong(sound, positions, wanted, lambda position: ("slot_of_executor", position))


def faults_of(core_hz: float, parts: ProblemParts, before: ProblemParts | None) -> list[Fault]:
    """Return all faults of a problem, with the path that they would have in a file.

    Parameters
    ----------
    core_hz
        Speed of a core in Hz.
    parts
        Parts of the problem.
    before
        Parts of the valid problem that it is derived from: only changes are checked.
    """
    return [wrong.fault() for wrong in _wrong(core_hz, parts, before)]


def _wrong(core_hz: float, parts: ProblemParts, before: ProblemParts | None) -> Iterator[ModelFault]:
    if before is None or core_hz != before.demand.core_hz:
        wanted = f"should be a number above 0, at most {MAX_AMOUNT:g}"
        yield from number_wrong(core_hz, 5e-324, MAX_AMOUNT, wanted, "core_hz")
    if before is None or parts.cluster.supervisors is not before.cluster.supervisors:
        yield from cluster_wrong(parts.cluster.supervisors, before.cluster.supervisors if before else ())
    if before is None or parts.workload is not before.workload:
        yield from _workload_wrong(parts.workload)
    if before is None or parts.demand is not before.demand:
        yield from demand_wrong(parts.demand)
    if before is None or parts.running is not before.running:
        yield from running_wrong(parts.running, before.running if before else None)


def _workload_wrong(workload: Workload) -> Iterator[ModelFault]:
    yield from map(misfit_wrong, storm_misfits(workload.conf))
    yield from twice([topology.id for topology in workload.topologies], "topologies")
    for position, topology in enumerate(workload.topologies):
        yield from (wrong.within("topologies", position) for wrong in topology.wrong)
