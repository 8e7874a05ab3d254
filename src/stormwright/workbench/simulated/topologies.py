"""Benchmark topologies of a virtual cluster: time per tuple and output of each component."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model import Component, Grouping, Topology, TopologyLoad, default_executor_runs
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.model.requests import ACKER
from stormwright.model.topology import PLACEMENT_FOLLOWING
from stormwright.predict.flow.layout import MAX_SPOUT_PENDING
from stormwright.workbench.demo.settings import TOPOLOGIES, Submission

#: Trees/s of the load; nothing depends on it.
RATE_TPS = 1_000.0

#: µs of a core for a tuple in an acker, as measured of the word count on a core of 3 GHz; MB of an executor's heap.
_ACKER_US, _MEMORY_MB = 0.4, 128.0

#: Size of a tuple in bytes, as measured of the word count.
_BYTES = 16.0


@dataclass(frozen=True)
class _Part:
    """A component.

    Parameters
    ----------
    id, argument, executors
        Id, argument for the number of executors, and its default.
    tuple_us
        µs of a core of 3 GHz that it takes for a tuple.
    source, grouping, each
        Source of its tuples and their grouping, and tuples handled for each of the source's; empty for a spout.
    """

    id: str
    argument: str
    executors: int
    tuple_us: float
    source: str = ""
    grouping: str = "shuffle"
    each: float = 1.0


#: Kinds as `stormwright.workbench.demo.settings.TOPOLOGIES` has them. The word count's times are as measured of it
#: (Storm 2.8.3); those of the exclamation are assumed.
PARTS: Mapping[str, tuple[_Part, ...]] = {
    "stormwright.topologies.WordCount": (
        _Part("spout", "spouts", 2, 6.0),
        _Part("split", "split", 4, 8.0, "spout"),
        _Part("count", "count", 4, 1.2, "split", "fields", 8.0),
    ),
    "stormwright.topologies.Exclamation": (
        _Part("word", "spouts", 10, 3.0),
        _Part("exclaim1", "exclaim1", 3, 2.0, "word"),
        _Part("exclaim2", "exclaim2", 2, 2.0, "exclaim1"),
    ),
}

#: Arguments that all take, and what holds where they are not given; a rate of 0 is as much as can be.
_DEFAULTS = {"workers": 3, "ackers": 2, "pending": 200, "rate": 0}


@dataclass(frozen=True)
class SimulatedTopology:
    """A topology with its load, and the trees/s that its spouts would begin."""

    topology: Topology
    load: TopologyLoad
    offered_tps: float


def simulated(submissions: list[Submission]) -> list[SimulatedTopology]:
    """Return the topologies of submissions.

    Raises
    ------
    InputError
        One cannot be simulated, or has an argument that is none; all faults at once.
    """
    faults: list[Fault] = []
    found = [_simulated(number, submission, faults) for number, submission in enumerate(submissions)]
    if faults:
        raise InputError("--topology", faults)
    return [each for each in found if each is not None]


def _simulated(number: int, submission: Submission, faults: list[Fault]) -> SimulatedTopology | None:
    path, parts = f"--topology[{number}]", PARTS.get(submission.main_class)
    if parts is None:
        kinds = ", ".join(kind for kind, main_class in TOPOLOGIES.items() if main_class in PARTS)
        faults.append(Fault(f"{submission.name} cannot be simulated; there are {kinds}", path))
        return None
    known = _DEFAULTS | {part.argument: part.executors for part in parts}
    numbers = {name: _number(name, submission.args, default, path, faults) for name, default in known.items()}
    unknown = sorted(submission.args.keys() - known.keys())
    faults += [Fault(f"{name!r} has no effect on a simulated {submission.name}", path) for name in unknown]
    if any(fault.path == path for fault in faults):
        return None
    topology = _topology(submission.name, parts, numbers)
    return SimulatedTopology(topology, _load(topology, parts), float(numbers["rate"]) or inf)


def _number(name: str, args: Mapping[str, str], default: int, path: str, faults: list[Fault]) -> int:
    """Return a whole number, at least 1; rate and ackers may be 0."""
    text = args.get(name, str(default))
    least = 0 if name in ("rate", "ackers") else 1
    if text.isdecimal() and least <= int(text) <= 1_000_000:
        return int(text)
    faults.append(Fault(f"{name} should be a whole number from {least} to 1000000, is {text!r}", path))
    return default


def _topology(name: str, parts: tuple[_Part, ...], numbers: Mapping[str, int]) -> Topology:
    components = [
        Component(
            part.id,
            "bolt" if part.source else "spout",
            numbers[part.argument],
            (Grouping(part.source, kind=part.grouping),) if part.source else (),
        )
        for part in parts
    ]
    if numbers["ackers"]:
        heard = tuple(Grouping(part.id, kind="fields") for part in parts)
        components.append(Component(ACKER, "system", numbers["ackers"], heard))
    listed = tuple(sorted(components, key=lambda component: component.id))
    conf = {MAX_SPOUT_PENDING: numbers["pending"]}
    return Topology(f"{name}-1-0", name, numbers["workers"], listed, default_executor_runs(listed), conf=conf)


def _load(topology: Topology, parts: tuple[_Part, ...]) -> TopologyLoad:
    """Return the load measured in a single worker, without messages."""
    executor_component = topology.executor_component
    executors = {
        component.id: np.flatnonzero(executor_component == index) for index, component in enumerate(topology.components)
    }
    handled: dict[str, float] = {}
    pairs, flows = list[tuple[str, str, float]](), list[tuple[str, str, float]]()
    for part in parts:
        handled[part.id] = handled[part.source] * part.each if part.source else RATE_TPS
        if part.source:
            follows = part.grouping in PLACEMENT_FOLLOWING
            (flows if follows else pairs).append((part.source, part.id, handled[part.id]))
    cpu_us = {part.id: part.tuple_us * handled[part.id] for part in parts}
    if ACKER in executors:
        spouts = [part.id for part in parts if not part.source]
        pairs += [(part.id, ACKER, handled[part.id]) for part in parts]
        pairs += [(ACKER, spout, handled[spout]) for spout in spouts]
        cpu_us[ACKER] = _ACKER_US * sum(handled.values())
    ends = [
        (s, t, tps) for source, target, tps in pairs for s, t, tps in _spread_evenly(executors, source, target, tps)
    ]
    source, target, tps = (np.array(column) for column in zip(*ends, strict=True)) if ends else (np.empty(0),) * 3
    cpu_hz = np.zeros(len(executor_component))
    for component, own in executors.items():
        cpu_hz[own] = cpu_us[component] * 1e-6 * DEFAULT_CORE_HZ / len(own)
    index = topology.component_index
    flow = [(s, index[t], tps / len(executors[c])) for c, t, tps in flows for s in executors[c].tolist()]
    flow_source, flow_component, flow_tps = zip(*flow, strict=True) if flow else ((), (), ())
    return TopologyLoad(
        cpu_hz=cpu_hz,
        memory_mb=np.full(len(executor_component), _MEMORY_MB),
        pair_source=source.astype(np.int32),
        pair_target=target.astype(np.int32),
        pair_tps=tps,
        flow_source=np.array(flow_source, np.int32),
        flow_component=np.array(flow_component, np.int32),
        flow_tps=np.array(flow_tps, float),
        flow_grouping=("shuffle",) * len(flow),
        bytes_per_tuple=_BYTES,
    )


def _spread_evenly(
    executors: Mapping[str, np.ndarray], source: str, target: str, tps: float
) -> list[tuple[int, int, float]]:
    """Return traffic spread evenly over all pairs of executors of two components."""
    each = tps / len(executors[source]) / len(executors[target])
    return [(s, t, each) for s in executors[source].tolist() for t in executors[target].tolist()]
