"""Benchmark topologies of a virtual cluster: time per tuple and output of each component."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model import (
    Component,
    Grouping,
    LoadProfile,
    Problem,
    Supervisor,
    Topology,
    TopologyAssignment,
    TopologyLoad,
    default_executor_runs,
)
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.model.cluster import DEFAULT_CORE_HZ
from stormwright.model.link_speed import link_bits_per_s
from stormwright.model.requests import ACKER
from stormwright.model.topology import PLACEMENT_FOLLOWING
from stormwright.model.topology_config import UNAWARE_SHUFFLE
from stormwright.storm.local_cluster.plan import FIRST_WORKER_PORT
from stormwright.workbench.demo.submissions import TOPOLOGIES, Submission

#: Trees/s of the load; nothing depends on it.
RATE_TPS = 1_000.0

#: µs of a core for a tuple in an acker, as measured of the word count on a core of 3 GHz; MB of an executor's heap.
_ACKER_US, _MEMORY_MB = 0.4, 128.0

#: Size of a tuple of words in bytes, as measured of the word count; of others in addition to their payload.
_BYTES = 16.0

#: µs of a core of 3 GHz for a tuple of a spout and of a bolt that does nothing but pass it on, and more for a bolt that
#: works, as measured of `stormwright.topologies.Shaped` in one worker (docs/results/prediction-cells).
_SPOUT_US, _BOLT_US, _WORKS_US = 4.0, 4.0, 5.0


@dataclass(frozen=True)
class _Part:
    """A component.

    Parameters
    ----------
    id, argument, executors
        Id, argument for the number of executors, and its default.
    tuple_us
        µs of a core of 3 GHz that it takes for a tuple.
    sources, grouping, each
        Sources of its tuples and their grouping, and tuples handled for each of the sources'; empty for a spout.
    """

    id: str
    argument: str
    executors: int
    tuple_us: float
    sources: tuple[str, ...] = ()
    grouping: str = "shuffle"
    each: float = 1.0


@dataclass(frozen=True)
class _Kind:
    """A kind of topology: its components, which may depend on arguments, and these with their defaults."""

    parts: Callable[[Mapping[str, int]], tuple[_Part, ...]]
    defaults: Mapping[str, int] = field(default_factory=dict)
    payload: str = ""


def _word_count(_: Mapping[str, int]) -> tuple[_Part, ...]:
    """Return a word count; times are as measured of it (Storm 2.8.3)."""
    return (
        _Part("spout", "spouts", 2, 6.0),
        _Part("split", "split", 4, 8.0, ("spout",)),
        _Part("count", "count", 4, 1.2, ("split",), "fields", 8.0),
    )


def _exclamation(_: Mapping[str, int]) -> tuple[_Part, ...]:
    """Return an exclamation; times are assumed."""
    return (
        _Part("word", "spouts", 10, 3.0),
        _Part("exclaim1", "exclaim1", 3, 2.0, ("word",)),
        _Part("exclaim2", "exclaim2", 2, 2.0, ("exclaim1",)),
    )


def _rolling_top_words(_: Mapping[str, int]) -> tuple[_Part, ...]:
    """Return rolling top words; a count goes on for one word in twenty, as bolts emit every few seconds."""
    return (
        _Part("word", "spouts", 5, 3.0),
        _Part("count", "count", 4, 1.5, ("word",), "fields"),
        _Part("rank", "rank", 4, 1.5, ("count",), "fields", 0.05),
        _Part("total", "total", 1, 1.5, ("rank",), "global", 0.05),
    )


def _reference(numbers: Mapping[str, int]) -> tuple[_Part, ...]:
    """Return the reference topology of Aniello, Baldoni and Querzoni: simple and stateful bolts in turn."""
    parts = [_Part("spout", "replication", 2, _SPOUT_US)]
    for stage in range(1, numbers["stages"] + 1):
        kind, grouping = ("stateful", "fields") if stage % 2 == 0 else ("simple", "shuffle")
        parts.append(_Part(f"{kind}-{stage}", "replication", 2, _BOLT_US, (parts[-1].id,), grouping))
    return (*parts, _Part("ack", "replication", 2, _BOLT_US, (parts[-1].id,)))


#: Component, its sources, and tuples for each of theirs; as `stormwright.topologies.Shape` has them.
_SHAPES: Mapping[str, tuple[tuple[str, tuple[str, ...], float], ...]] = {
    "linear": (("spout", (), 1), ("bolt-1", ("spout",), 1), ("bolt-2", ("bolt-1",), 1), ("bolt-3", ("bolt-2",), 1)),
    "diamond": (
        ("spout", (), 1),
        *((f"bolt-{number}", ("spout",), 1) for number in (1, 2, 3)),
        ("sink", ("bolt-1", "bolt-2", "bolt-3"), 1),
    ),
    "star": (
        ("spout-1", (), 1),
        ("spout-2", (), 1),
        ("center", ("spout-1", "spout-2"), 1),
        ("sink-1", ("center",), 1),
        ("sink-2", ("center",), 1),
    ),
    "page-load": (
        ("spout", (), 1),
        ("transform", ("spout",), 1),
        ("filter-1", ("transform",), 1),
        ("join", ("filter-1",), 0.5),
        ("filter-2", ("join",), 1),
        ("aggregate", ("filter-2",), 0.5),
        ("sink", ("aggregate",), 1),
    ),
    "processing": (
        ("spout", (), 1),
        ("transform", ("spout",), 1),
        ("filter", ("transform",), 1),
        ("join-1", ("filter",), 0.5),
        ("sink-1", ("join-1",), 1),
        ("join-2", ("transform",), 1),
        ("normalize", ("join-2",), 1),
        ("sink-2", ("normalize",), 1),
    ),
    "advertising": (
        ("spout", (), 1),
        ("deserialize", ("spout",), 1),
        ("filter", ("deserialize",), 1),
        ("project", ("filter",), 1 / 3),
        ("join", ("project",), 1),
        ("count", ("join",), 1),
    ),
    "sol": (("spout", (), 1), ("bolt-1", ("spout",), 1), ("bolt-2", ("bolt-1",), 1)),
}


def _shaped(shape: str, numbers: Mapping[str, int]) -> tuple[_Part, ...]:
    work_us = numbers["work_us"]
    bolt_us = _BOLT_US + (work_us + _WORKS_US if work_us else 0.0)
    return tuple(
        _Part(
            name,
            name,
            3 if sources else 2,
            bolt_us if sources else _SPOUT_US,
            sources,
            "fields" if (shape, name) == ("advertising", "count") else "shuffle",
            each,
        )
        for name, sources, each in _SHAPES[shape]
    )


#: Kinds by name as `stormwright.workbench.demo.submissions.TOPOLOGIES` has them.
_KINDS: Mapping[str, _Kind] = {
    "word-count": _Kind(_word_count),
    "exclamation": _Kind(_exclamation),
    "rolling-top-words": _Kind(_rolling_top_words),
    "reference": _Kind(_reference, {"stages": 6, "payload": 100}, "payload"),
    **{shape: _Kind(partial(_shaped, shape), {"bytes": 100, "work_us": 0}, "bytes") for shape in _SHAPES},
}

#: Worker slots of a node, and its memory.
_SLOTS, _NODE_MB = 6, 8192.0

#: Arguments that all take, and what holds where they are not given; a rate of 0 is as much as can be.
_DEFAULTS = {"workers": 3, "ackers": 2, "pending": 200, "rate": 0}

#: Arguments that may be 0.
_MAY_BE_ZERO = frozenset({"rate", "ackers", "bytes", "payload", "work_us"})


@dataclass(frozen=True)
class TopologyModel:
    """A topology with its load, and the trees/s that its spouts would begin."""

    topology: Topology
    load: TopologyLoad
    offered_tps: float


def simulated_topologies(
    submissions: Sequence[Submission], conf: Mapping[str, Any] | None = None
) -> list[TopologyModel]:
    """Return the topologies of submissions.

    Parameters
    ----------
    submissions
        Kind and arguments of each topology, in order.
    conf
        Further configuration of all topologies.

    Raises
    ------
    InputError
        One cannot be simulated, or has an argument that is none; all faults at once.
    """
    faults: list[Fault] = []
    found = [_simulated(number, submission, conf or {}, faults) for number, submission in enumerate(submissions)]
    if faults:
        raise InputError("--topology", faults)
    return [each for each in found if each is not None]


def _simulated(
    number: int, submission: Submission, conf: Mapping[str, Any], faults: list[Fault]
) -> TopologyModel | None:
    path, args = f"--topology[{number}]", dict(submission.args)
    shape = args.pop("shape", "")
    name = next(name for name, main in TOPOLOGIES.items() if main == submission.main_class and shape in ("", name))
    kind = _KINDS[name]
    known = {**_DEFAULTS, **kind.defaults}
    known |= {part.argument: part.executors for part in kind.parts(known)}
    numbers = {name: _number(name, args, default, path, faults) for name, default in known.items()}
    unknown = sorted(args.keys() - known.keys())
    faults += [Fault(f"{name!r} has no effect on a simulated {submission.name}", path) for name in unknown]
    if any(fault.path == path for fault in faults):
        return None
    parts = kind.parts(numbers)
    topology = _topology(submission.name, parts, numbers, conf)
    load = _load(topology, parts, _BYTES + numbers.get(kind.payload, 0))
    return TopologyModel(topology, load, float(numbers["rate"]) or inf)


def _number(name: str, args: Mapping[str, str], default: int, path: str, faults: list[Fault]) -> int:
    """Return a whole number, at least 1, or 0 where that makes sense."""
    text = args.get(name, str(default))
    least = 0 if name in _MAY_BE_ZERO else 1
    if text.isdecimal() and text.isascii() and least <= int(text) <= 1_000_000:
        return int(text)
    faults.append(Fault(f"{name} should be a whole number from {least} to 1000000, is {text!r}", path))
    return default


def _topology(name: str, parts: tuple[_Part, ...], numbers: Mapping[str, int], conf: Mapping[str, Any]) -> Topology:
    components = [
        Component(
            part.id,
            "bolt" if part.sources else "spout",
            numbers[part.argument],
            tuple(Grouping(source, kind=part.grouping) for source in part.sources),
        )
        for part in parts
    ]
    if numbers["ackers"]:
        heard = tuple(Grouping(part.id, kind="fields") for part in parts)
        components.append(Component(ACKER, "system", numbers["ackers"], heard))
    listed = tuple(sorted(components, key=lambda component: component.id))
    conf = {MAX_SPOUT_PENDING: numbers["pending"], **conf}
    return Topology(f"{name}-1-0", name, numbers["workers"], listed, default_executor_runs(listed), conf=conf)


def _load(topology: Topology, parts: tuple[_Part, ...], tuple_bytes: float) -> TopologyLoad:
    """Return the load measured in a single worker, without messages."""
    executor_component = topology.executor_component
    executors = {
        component.id: np.flatnonzero(executor_component == index) for index, component in enumerate(topology.components)
    }
    handled: dict[str, float] = {}
    pairs, flows = list[tuple[str, str, float]](), list[tuple[str, str, float]]()
    spouts = [part.id for part in parts if not part.sources]
    for part in parts:
        each_tps = {source: handled[source] * part.each for source in part.sources}
        handled[part.id] = sum(each_tps.values()) if part.sources else RATE_TPS / len(spouts)
        follows = part.grouping in PLACEMENT_FOLLOWING and not topology.conf.get(UNAWARE_SHUFFLE)
        (flows if follows else pairs).extend((source, part.id, tps) for source, tps in each_tps.items())
    cpu_us = {part.id: part.tuple_us * handled[part.id] for part in parts}
    if ACKER in executors:
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
        bytes_per_tuple=tuple_bytes,
    )


def _spread_evenly(
    executors: Mapping[str, np.ndarray], source: str, target: str, tps: float
) -> list[tuple[int, int, float]]:
    """Return traffic spread evenly over all pairs of executors of two components."""
    each = tps / len(executors[source]) / len(executors[target])
    return [(s, t, each) for s in executors[source].tolist() for t in executors[target].tolist()]


def simulated_problem(
    found: Sequence[TopologyModel],
    cores: Sequence[float],
    links: Sequence[str | None],
    slots: int = _SLOTS,
    memory_mb: float = _NODE_MB,
) -> Problem:
    """Return topologies on nodes, with the load that they have in one worker; nothing runs.

    Parameters
    ----------
    found
        Topologies with their loads, from `simulated_topologies`.
    cores, links
        Cores of each node, which are named ``node1`` upwards, and speed of its link in ``tc`` syntax; None for no
        limit.
    slots, memory_mb
        Worker slots and memory of every node.
    """
    supervisors = tuple(
        Supervisor(
            f"node{number}",
            f"node{number}",
            tuple(range(FIRST_WORKER_PORT, FIRST_WORKER_PORT + slots)),
            own * DEFAULT_CORE_HZ,
            resources={"cpu.pcore.percent": 100 * own, "memory.mb": memory_mb},
            link_bps=link_bits_per_s(link) if link else None,
        )
        for number, (own, link) in enumerate(zip(cores, links, strict=True), 1)
    )
    load = LoadProfile({each.topology.id: each.load for each in found})
    problem = Problem(supervisors, tuple(each.topology for each in found), name="simulated", load=load)
    alone = {t.id: TopologyAssignment(problem.slots[:1], (0,) * t.num_executors) for t in problem.topologies}
    return replace(problem, measured=alone)
