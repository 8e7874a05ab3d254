"""Properties of measured components that no placement changes, and that are often taken for something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from stormwright.model.arrays import FloatArray
from stormwright.model.humanize import counted
from stormwright.model.load import TopologyLoad
from stormwright.model.topology import Topology

#: Least part of the time in which the executors of a component execute tuples that they wait for something else than
#: CPU, and of all time to be named: what is sampled in whole ms errs by some hundredths.
OF_EXECUTING, OF_ALL = 0.5, 0.1

#: Least bytes per tuple: with those, 100 Mbit/s carry 1,250 tuples/s.
LARGE_BYTES = 10_000.0

#: Storm's bolt and spout that run a process of another language each.
_SHELLS: Final = frozenset({"org.apache.storm.task.ShellBolt", "org.apache.storm.spout.ShellSpout"})


class Peculiarity(NamedTuple):
    """A property of a component: its kind (``waits``, ``skewed``, ``large`` or ``process``), and a sentence."""

    kind: str
    component: str
    text: str


def peculiarities(topology: Topology, load: TopologyLoad, core_hz: float) -> Iterator[Peculiarity]:
    """Yield the properties of the components of a topology.

    Parameters
    ----------
    topology, load
        The topology with a measured load.
    core_hz
        Speed of a core in Hz.
    """
    count, of = len(topology.components), topology.executor_component
    executors = np.bincount(of, minlength=count)
    waiting = waiting_threads(topology, load, core_hz) / np.maximum(executors, 1)
    sent_tps, sent_bytes = _sent(topology, load)
    shares = _busiest_shares(topology, load)
    for index, component in enumerate(topology.components):
        name, own = component.id, int(executors[index])
        if component.type == "system":
            continue
        if waiting[index] >= OF_ALL:
            text = f"{name} waits for something else than CPU in {waiting[index]:.0%} of the time of "
            text += f"{counted(own, 'executor')}: more executors may raise its rate, other nodes do not"
            yield Peculiarity("waits", name, text)
        # Midway between an even share and all.
        if own > 1 and shares[index] >= (1 + 1 / own) / 2:
            text = f"1 of {own} executors of {name} receives {shares[index]:.0%} of its tuples: a value of the fields "
            yield Peculiarity("skewed", name, text + "that group them is frequent, and more executors do not help")
        if sent_tps[index] and sent_bytes[index] / sent_tps[index] >= LARGE_BYTES:
            size = sent_bytes[index] / sent_tps[index]
            text = f"tuples of {name} have {size / 1000:,.0f} kB: links limit them before CPU does"
            yield Peculiarity("large", name, text)
        if component.code and not _SHELLS.isdisjoint(component.code.classes):
            text = f"each executor of {name} runs a process of its own, whose CPU counts as that of the executor"
            yield Peculiarity("process", name, text)


def waiting_threads(topology: Topology, load: TopologyLoad, core_hz: float) -> FloatArray:
    """Return how many threads of each component wait for something else than CPU while they execute, shape (C,).

    0 where that is less than half of the time in which they execute, or was not measured.

    Parameters
    ----------
    topology, load
        The topology with a measured load.
    core_hz
        Speed of a core in Hz.
    """
    count, of = len(topology.components), topology.executor_component
    if load.executing is None:
        return np.zeros(count)
    without_core = 0.0 if load.waited is None else load.waited
    beyond = np.maximum(load.executing - load.cpu_hz / core_hz - without_core, 0.0)
    executing, waiting = (np.bincount(of, each, count) for each in (load.executing, beyond))
    threads: FloatArray = np.where(waiting >= OF_EXECUTING * executing, waiting, 0.0)
    return threads


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


def _busiest_shares(topology: Topology, load: TopologyLoad) -> FloatArray:
    """Return the part of a component's tuples by fields groupings that its busiest executor receives; shape (C,)."""
    count, of = len(topology.components), topology.executor_component
    by_fields = np.zeros((count, count), dtype=bool)
    for target, component in enumerate(topology.components):
        for grouping in component.inputs:
            source = topology.component_index.get(grouping.source)
            if source is not None and grouping.kind == "fields":
                by_fields[source, target] = True
    counts = by_fields[of[load.pair_source], of[load.pair_target]]
    received = np.bincount(load.pair_target[counts], load.pair_tps[counts], topology.num_executors)
    most, total = np.zeros(count), np.bincount(of, received, count)
    np.maximum.at(most, of, received)
    shares: FloatArray = most / np.where(total > 0, total, 1.0)
    return shares
