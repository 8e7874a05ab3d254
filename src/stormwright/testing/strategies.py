"""Hypothesis strategies for problems.

Names follow from positions, so they are not part of the search and failures shrink to small numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
from hypothesis import strategies as st

from stormwright.model import (
    UNPLACED,
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    TopologyLoad,
    WorkerSlot,
    default_executor_runs,
)
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.component_limits import (
    INCOMPATIBLE,
    MAX_ON_NODE,
    ONE_COMPONENT,
    ONE_EXECUTOR,
    RAS_CONSTRAINTS,
    SPREAD_COMPONENTS,
)
from stormwright.model.topology_config import MAX_EXECUTORS_PER_WORKER

_PART = st.sampled_from([1, 3])
_FLOWING = ("shuffle", "none", "local_or_shuffle")

#: Maximum amount; two bytes encode one, and the highest codes stand for the smallest amounts, so that these and equal
#: ones occur.
_MAX, _ORDINARY = 3000, 60_000

GROUPINGS = ("shuffle", "fields", "all", "global", "none", "direct", "local_or_shuffle")
GHZ = 1e9

# The contract generates a hundred thousand problems: constant parts are created once.
_GROUPING = st.sampled_from(GROUPINGS)
_WANTED_WORKERS = st.integers(1, 5)
_CONF = st.sampled_from([{}, {MAX_EXECUTORS_PER_WORKER: 2}, {MAX_EXECUTORS_PER_WORKER: 4}])
_REQUESTS = st.sampled_from(
    [{"cpu.pcore.percent": 10.0 * cpu} | generic for generic in ({}, {}, {}, {"gpu.count": 1.0}) for cpu in range(6)]
)


# Strategies for measured loads.
#
# Each draw takes Hypothesis some 0.1 ms, and there are hundreds of numbers: so rows are decoded from the bytes of one.
def numbers(draw: st.DrawFn, count: int, width: int) -> IntArray:
    """Return rows of numbers from 0 to 65,535.

    Parameters
    ----------
    draw
        Draw function of Hypothesis.
    count, width
        Rows, and numbers of each.
    """
    values = draw(st.binary(min_size=2 * count * width, max_size=2 * count * width))
    return np.frombuffer(values, ">u2").astype(np.int32).reshape(count, width)


def _amounts(numbers: IntArray) -> IntArray:
    """Return amounts up to `_MAX`."""
    return np.where(numbers < _ORDINARY, numbers % (_MAX + 1), numbers % 8)


@st.composite
def loads(draw: st.DrawFn, topology: Topology, flows: bool = True, limited: bool = True) -> TopologyLoad:
    """Return a measured load of `topology`: any pairs, and optionally flows with limits.

    Parameters
    ----------
    draw
        Hypothesis's draw function; not passed by callers.
    topology
        Topology of the load.
    flows
        Whether there may be flows.
    limited
        Whether flows may have limits.
    """
    executors, components = topology.num_executors, len(topology.components)
    pairs = numbers(draw, draw(st.integers(0, 2 * executors)), 3)
    pair_tps: FloatArray = _amounts(pairs[:, 2]) / 10
    flowing = numbers(draw, draw(st.integers(0, executors)) if flows else 0, 4)
    flow_tps: FloatArray = _amounts(flowing[:, 3]) / 10
    used = _amounts(numbers(draw, executors, 2))
    part = draw(_PART)  # sums of thirds depend on the order in which they are added up
    cpu_hz = used[:, 0] / part * 1e6
    limit = None
    if len(flowing) and limited and draw(st.booleans()):
        limits = numbers(draw, components, 2)
        limit = np.where(limits[:, 0] % 2 == 0, np.inf, _amounts(limits[:, 1]) / 10)
    in_bytes = draw(st.booleans())
    return TopologyLoad(
        cpu_hz=cpu_hz,
        memory_mb=used[:, 1] % 401 / part,
        pair_source=pairs[:, 0] % executors,
        pair_target=pairs[:, 1] % executors,
        pair_tps=pair_tps,
        flow_source=flowing[:, 0] % executors,
        flow_component=flowing[:, 1] % components,
        flow_grouping=tuple(_FLOWING[kind] for kind in flowing[:, 2] % len(_FLOWING)),
        flow_tps=flow_tps,
        flow_limit_tps=limit if limit is not None and np.isfinite(limit).any() else None,
        pair_bytes_per_s=pair_tps * 80 if in_bytes else None,
        flow_bytes_per_s=flow_tps * 80 if in_bytes else None,
        forecast_cpu_hz=cpu_hz * 2 if draw(st.booleans()) else None,
        live_heap_mb=used[:, 1] / part if draw(st.booleans()) else None,
        waited=used[:, 1] % 5 / 4 if draw(st.booleans()) else None,
        executing=used[:, 0] % 5 / 4 if draw(st.booleans()) else None,
        runs_per_s=used[:, 0] / part if draw(st.booleans()) else None,
        pending_trees=used[:, 1] / part if draw(st.booleans()) else None,
    )


@st.composite
def supervisors(draw: st.DrawFn, max_nodes: int = 5) -> tuple[Supervisor, ...]:
    """Return nodes of up to three racks, some without a slot."""
    values = numbers(draw, draw(st.integers(1, max_nodes)), 5).tolist()
    return tuple(
        Supervisor(
            id=f"sup-{n}",
            host=f"host-{n}",
            ports=tuple(range(6700, 6700 + ports % 5)),
            cpu_hz=(1 + cpu % 12) * GHZ,
            rack=f"rack-{rack % 3}",
            resources={"memory.mb": (2 + memory % 39) * 128.0, "gpu.count": float(gpus % 4)},
        )
        for n, (ports, cpu, rack, memory, gpus) in enumerate(values)
    )


@cache
def _sources(count: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Return up to two of `count` components."""
    return st.sampled_from([chosen for size in range(3) for chosen in permutations(range(count), size)])


@st.composite
def topologies(draw: st.DrawFn, number: int, max_components: int = 4, max_parallelism: int = 4) -> Topology:
    """Return a topology whose components subscribe to earlier ones, the first being a spout.

    Parameters
    ----------
    draw
        Hypothesis's draw function; not passed by callers.
    number
        Number that determines its id and name.
    max_components, max_parallelism
        Maximum components, and executors of one; a bolt may have none.
    """
    components = tuple(
        Component(
            id=f"c{c}",
            type="bolt" if c else "spout",
            parallelism=draw(st.integers(0 if c else 1, max_parallelism)),
            inputs=tuple(Grouping(f"c{s}", kind=draw(_GROUPING)) for s in (draw(_sources(c)) if c else ())),
            resources=draw(_REQUESTS),
        )
        for c in range(draw(st.integers(1, max_components)))
    )
    conf = draw(_CONF)
    if draw(st.booleans()):
        conf = conf | draw(component_limits([component.id for component in components]))
    return Topology(
        id=f"t{number}-{number}-1600000000",
        name=f"t{number}",
        num_workers=draw(_WANTED_WORKERS),
        components=components,
        executor_runs=tuple(run for run in default_executor_runs(components) if run.count),
        conf=conf,
    )


@st.composite
def component_limits(draw: st.DrawFn, components: list[str]) -> dict[str, Any]:
    """Return a configuration that separates executors, in each of Storm's forms."""
    a_component = st.sampled_from(components)
    some = st.lists(a_component, max_size=2)
    form = draw(st.integers(0, 3))
    if form == 0:
        pairs = draw(st.lists(st.tuples(a_component, a_component).map(list), max_size=2))
        return {RAS_CONSTRAINTS: pairs, SPREAD_COMPONENTS: draw(some)}
    if form == 3:
        return draw(st.fixed_dictionaries({ONE_COMPONENT: st.booleans()}, optional={ONE_EXECUTOR: st.just(True)}))
    rules = {MAX_ON_NODE: st.integers(1, 3), INCOMPATIBLE: some if form == 1 else a_component}
    return {RAS_CONSTRAINTS: draw(st.dictionaries(a_component, st.fixed_dictionaries({}, optional=rules), max_size=3))}


@st.composite
def placements(draw: st.DrawFn, problem: Problem) -> dict[str, TopologyAssignment]:
    """Return a possible running placement: one topology per slot, some executors lost, some slots dead."""
    free = draw(st.permutations([*problem.slots, WorkerSlot("sup-dead", 6700), WorkerSlot("sup-0", 9999)]))
    current = {}
    for topology in problem.topologies:
        workers = min(draw(st.integers(0, topology.num_workers)), len(free))
        if workers == 0:
            continue
        slots, free = tuple(free[:workers]), free[workers:]
        positions = st.integers(-1 if draw(st.booleans()) else 0, workers - 1)
        of_executor = draw(st.lists(positions, min_size=topology.num_executors, max_size=topology.num_executors))
        current[topology.id] = TopologyAssignment(slots, tuple(of_executor))
    return current


@st.composite
def problems(
    draw: st.DrawFn,
    *,
    flows: bool = True,
    flow_limits: bool = True,
    running: bool = True,
    max_topologies: int = 3,
    max_nodes: int = 5,
    max_components: int = 4,
    max_parallelism: int = 4,
) -> Problem:
    """Return problems of every kind: too small clusters, blacklisted hosts, no load, running executors.

    Parameters
    ----------
    draw
        Hypothesis's draw function; not passed by callers.
    flows
        Whether loads may have flows, and whether there may be no load; without, all traffic is of measured pairs.
    flow_limits
        Whether flows may have limits.
    running
        Whether anything may run now.
    max_topologies, max_nodes, max_components, max_parallelism
        Maximum of each; components per topology, executors per component.
    """
    nodes = draw(supervisors(max_nodes))
    number = draw(st.integers(0, max_topologies))
    placed = tuple(draw(topologies(k, max_components, max_parallelism)) for k in range(number))
    one_or_none = st.sampled_from([*([()] * len(nodes)), *((node,) for node in nodes)])
    blacklisted, greylisted = draw(one_or_none), draw(one_or_none)
    problem = Problem(
        supervisors=nodes,
        topologies=placed,
        blacklisted_hosts=frozenset(node.host for node in blacklisted),
        greylisted_supervisors=tuple(node.id for node in greylisted),
    )
    if not flows or draw(st.booleans()):
        load = LoadProfile({t.id: draw(loads(t, flows, flow_limits)) for t in placed})
        if draw(st.booleans()):
            known = {node.id: (number + 1) * GHZ for number, node in enumerate(nodes)}
            load = replace(load, node_cpu_hz=known, node_quota_hz=known, node_overhead_hz=known)
        problem = problem.with_load(load)
    if running and draw(st.booleans()):
        problem = problem.with_current(draw(placements(problem)))
    return problem


def roomy(problem: Problem) -> Problem:
    """Return the problem on nodes with several times the resources, so that most of it is placed."""
    nodes = tuple(
        replace(
            node,
            ports=tuple(range(6700, 6712)),
            cpu_hz=4 * node.cpu_hz,
            resources={name: 4 * amount for name, amount in node.resources.items()},
        )
        for node in problem.supervisors
    )
    return replace(problem, supervisors=nodes)


def slots_of(problem: Problem) -> st.SearchStrategy[np.ndarray[Any, np.dtype[np.int32]]]:
    """Return any placement as an array of slot indices, regardless of constraints."""
    slot = st.integers(UNPLACED, len(problem.slots) - 1)
    whole = st.lists(slot, min_size=problem.num_executors, max_size=problem.num_executors)
    return whole.map(lambda values: np.array(values, dtype=np.int32))


def renamed(problem: Problem, *, ids: bool = True) -> Problem:
    """Return the problem with other names in reverse order.

    Parameters
    ----------
    ids
        Topologies and supervisors get other ids, too.
    """

    def other(name: str) -> str:
        return "".join(chr(ord("z") - (ord(char) - ord("0")) % 26) for char in name) + f"-{name[::-1]}"

    def other_id(name: str) -> str:
        return other(name) if ids else name

    def rename_topology(topology: Topology) -> Topology:
        components = tuple(
            replace(
                component,
                id=other(component.id),
                inputs=tuple(replace(grouping, source=other(grouping.source)) for grouping in component.inputs),
            )
            for component in topology.components
        )
        names = {component.id: other(component.id) for component in topology.components}
        conf = {key: _with_names(value, names) for key, value in topology.conf.items()}
        return replace(topology, id=other_id(topology.id), name=other(topology.name), components=components, conf=conf)

    def of_nodes(values: Mapping[str, float]) -> dict[str, float]:
        return {other_id(node): value for node, value in values.items()}

    def rename_load(load: LoadProfile) -> LoadProfile:
        return replace(
            load,
            topologies={other_id(topology): own for topology, own in load.topologies.items()},
            node_cpu_hz=of_nodes(load.node_cpu_hz),
            node_quota_hz=of_nodes(load.node_quota_hz),
            node_overhead_hz=of_nodes(load.node_overhead_hz),
            overload_s=of_nodes(load.overload_s),
        )

    return replace(
        problem,
        supervisors=tuple(
            replace(node, id=other_id(node.id), host=other(node.host), rack=other(node.rack))
            for node in problem.supervisors
        ),
        topologies=tuple(rename_topology(topology) for topology in problem.topologies),
        blacklisted_hosts=frozenset(other(host) for host in problem.blacklisted_hosts),
        greylisted_supervisors=tuple(other_id(node) for node in problem.greylisted_supervisors),
        current={
            other_id(topology): TopologyAssignment(
                tuple(WorkerSlot(other_id(slot.supervisor), slot.port) for slot in placement.slots),
                placement.slot_of_executor,
            )
            for topology, placement in problem.current.items()
        },
        load=problem.load and rename_load(problem.load),
    )


def _with_names(value: Any, names: Mapping[str, str]) -> Any:
    """Return `value` of a configuration with all names replaced by `names`."""
    if isinstance(value, list):
        return [_with_names(item, names) for item in value]
    if isinstance(value, dict):
        return {_with_names(key, names): _with_names(item, names) for key, item in value.items()}
    return names.get(value, value) if isinstance(value, str) else value
