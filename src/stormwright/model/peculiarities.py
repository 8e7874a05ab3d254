"""Properties of measured components that no placement changes, and that are often taken for something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.model.humanize import counted
from stormwright.model.load import TopologyLoad
from stormwright.model.problem import Problem
from stormwright.model.requests import ACKER
from stormwright.model.topology import Topology

#: Minimum part of the time in which executors execute tuples that they wait for something else than CPU, and of all
#: time: what is sampled in whole ms errs by some hundredths.
MIN_WAITING_OF_EXECUTING, MIN_WAITING = 0.5, 0.1

#: Minimum tuples/s of which shares are no chance.
MIN_RECEIVED_TPS = 10.0

#: Minimum bytes per tuple: of those, 100 Mbit/s carry 1,250 a second.
LARGE_BYTES = 10_000.0

#: Part of a core from which a thread, which has no more than one, is full.
FULL_THREAD = 0.85

#: Storm's bolt and spout that run a process of another language each.
_SHELLS: Final = frozenset({"org.apache.storm.task.ShellBolt", "org.apache.storm.spout.ShellSpout"})


class Peculiarity(NamedTuple):
    """A property of a component: its kind (``waits``, ``skewed``, ``full``, ``large``, ``process``), and a sentence."""

    kind: str
    component: str
    text: str


def peculiarities(problem: Problem, topology: int) -> Iterator[Peculiarity]:
    """Yield the properties of the components of a topology; none unless its load was measured.

    Parameters
    ----------
    problem
        The problem with the load.
    topology
        Index of the topology.
    """
    load, one = problem.demand.measured[topology], problem.topologies[topology]
    if load is None:
        return
    executors = np.maximum(np.bincount(one.executor_component, minlength=len(one.components)), 1)
    waiting = waiting_threads(problem, topology) / executors
    sent_tps, sent_bytes = _sent(one, load)
    received_tps, shares = _received_by_fields(one, load)
    cores = _cores(problem, topology)
    for index, component in enumerate(one.components):
        name, own = component.id, int(executors[index])
        if cores[index] >= FULL_THREAD and (component.type == "spout" or name == ACKER):
            yield Peculiarity("full", name, _full(name, own, cores[index]))
        if component.type == "system":
            continue
        if waiting[index] >= MIN_WAITING:
            text = f"{name} waits for something else than CPU in {waiting[index]:.0%} of the time of "
            yield Peculiarity("waits", name, f"{text}{counted(own, 'executor')}: more of them may raise its rate")
        # Midway between an even share and all.
        if own > 1 and received_tps[index] >= MIN_RECEIVED_TPS and shares[index] >= (1 + 1 / own) / 2:
            text = (
                f"1 of {own} executors of {name} receives {shares[index]:.0%} of the tuples that fields group: one or "
            )
            yield Peculiarity("skewed", name, text + "few values are frequent, and more executors do not help")
        if sent_tps[index] and sent_bytes[index] / sent_tps[index] >= LARGE_BYTES:
            size = sent_bytes[index] / sent_tps[index]
            text = f"tuples of {name} have {size / 1000:,.0f} kB: 100 Mbit/s carry {1.25e7 / size:,.0f} a second"
            yield Peculiarity("large", name, text)
        if component.code and not _SHELLS.isdisjoint(component.code.classes):
            text = f"each executor of {name} runs a process of its own, whose CPU counts as that of the executor"
            yield Peculiarity("process", name, text)


def _full(name: str, executors: int, cores: float) -> str:
    each = "its only executor uses" if executors == 1 else f"each of its {executors} executors uses"
    more = "more of them help" if name == ACKER else "more of them help if its source can be divided"
    return f"{name} is full: {each} {cores:.0%} of a core, and a thread has no more; {more}"


def waiting_threads(problem: Problem, topology: int) -> FloatArray:
    """Return how many threads of each component wait for something else than CPU while they execute, shape (C,).

    0 where that is less than half of the time in which they execute, or was not measured. A pause of the garbage
    collector counts as well.

    Parameters
    ----------
    problem
        The problem with the load.
    topology
        Index of the topology.
    """
    load, one = problem.demand.measured[topology], problem.topologies[topology]
    count, of = len(one.components), one.executor_component
    # Without the time for which a thread had no core, a quota would look like a database.
    if load is None or load.executing is None or load.waited is None:
        return np.zeros(count)
    off_cpu = np.maximum(load.executing - load.cpu_hz / _speeds(problem, topology) - load.waited, 0.0)
    executing, waiting = (np.bincount(of, each, count) for each in (load.executing, off_cpu))
    threads: FloatArray = np.where(waiting >= MIN_WAITING_OF_EXECUTING * executing, waiting, 0.0)
    return threads


def _speeds(problem: Problem, topology: int) -> FloatArray:
    """Return the speed of a core where each executor was measured, in Hz."""
    slots = problem.measured_slot[problem.executors_of(topology)]
    speeds: FloatArray = np.append(problem.node_core_hz[problem.slot_node], problem.core_hz)[slots]
    return speeds


def _cores(problem: Problem, topology: int) -> FloatArray:
    """Return the mean CPU of an executor of each component in cores, shape (C,)."""
    load, one = problem.demand.measured[topology], problem.topologies[topology]
    if load is None:
        return np.zeros(len(one.components))
    count = len(one.components)
    used = np.bincount(one.executor_component, load.cpu_hz / _speeds(problem, topology), count)
    cores: FloatArray = used / np.maximum(np.bincount(one.executor_component, minlength=count), 1)
    return cores


def _sent(topology: Topology, load: TopologyLoad) -> tuple[FloatArray, FloatArray]:
    """Return tuples/s and bytes/s that components send to bolts, of which the sizes are known; shape (C,) each."""
    count, of = len(topology.components), topology.executor_component
    to_bolts = np.array([component.type != "system" for component in topology.components], dtype=bool)
    tps, size = np.zeros(count), np.zeros(count)
    for source, target, amount, in_bytes in (
        (load.pair_source, of[load.pair_target], load.pair_tps, load.pair_bytes_per_s),
        (load.flow_source, load.flow_component, load.flow_tps, load.flow_bytes_per_s),
    ):
        if in_bytes is not None:
            counts = to_bolts[target]
            tps += np.bincount(of[source[counts]], amount[counts], count)
            size += np.bincount(of[source[counts]], in_bytes[counts], count)
    return tps, size


def _received_by_fields(topology: Topology, load: TopologyLoad) -> tuple[FloatArray, FloatArray]:
    """Return tuples/s that components receive by fields groupings, and the busiest executor's part; shape (C,) each.

    Only of sources from which nothing comes by another grouping, as a load has no streams.
    """
    count, of = len(topology.components), topology.executor_component
    by_fields = np.zeros((count, count), dtype=bool)
    for target, component in enumerate(topology.components):
        for grouping in sorted(component.inputs, key=lambda each: each.kind != "fields"):
            if (source := topology.component_index.get(grouping.source)) is not None:
                by_fields[source, target] = grouping.kind == "fields"
    grouped = by_fields[of[load.pair_source], of[load.pair_target]]
    received = np.bincount(load.pair_target[grouped], load.pair_tps[grouped], topology.num_executors).astype(float)
    most, total = np.zeros(count), np.bincount(of, received, count).astype(np.float64)
    np.maximum.at(most, of, received)
    shares: FloatArray = most / np.where(total > 0, total, 1.0)
    return total, shares
