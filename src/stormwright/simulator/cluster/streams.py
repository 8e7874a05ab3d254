"""Streams between components, as records have them, and which of them a pair of executors is on."""

from __future__ import annotations

import numpy as np

from stormwright.model import Problem, Topology
from stormwright.model.arrays import IndexArray
from stormwright.model.config.requests import ACKER

#: A stream as records have it: component that sends, name, component that receives, grouping.
Stream = tuple[str, str, str, str]

#: Streams of Storm's ackers.
_BEGUN, _ACKED = "__ack_init", "__ack_ack"

#: Where a load has traffic that the topology does not declare.
_UNDECLARED = "default", "fields"


class Streams:
    """The streams of all topologies of a problem.

    Parameters
    ----------
    problem
        Its loads may have traffic besides what topologies declare.

    Attributes
    ----------
    of_topology
        Streams of every topology; of several between the same components the first.
    """

    def __init__(self, problem: Problem) -> None:
        self._topology, components = problem.executor_topology, [len(t.components) for t in problem.topologies]
        own = [topology.executor_component for topology in problem.topologies]
        self._component = np.concatenate(own).astype(np.int64) if own else np.empty(0, np.int64)
        self._size = np.array(components, np.int64)
        self._first = np.cumsum(self._size**2) - self._size**2
        self._number = np.full(int(np.sum(self._size**2)), -1)
        self.of_topology: list[list[Stream]] = []
        for number, topology in enumerate(problem.topologies):
            ends, streams = _streams(problem, number), list[Stream]()
            for (source, target), stream in ends.items():
                cell = topology.component_index[source], topology.component_index[target]
                self._number[self._first[number] + cell[0] * len(topology.components) + cell[1]] = len(streams)
                streams.append(stream)
            self.of_topology.append(streams)

    def between(self, source: IndexArray, target: IndexArray) -> IndexArray:
        """Which of its topology's streams each pair of executors is on, shape (P,)."""
        of = self._topology[source]
        cell = self._component[source] * self._size[of] + self._component[target]
        found: IndexArray = self._number[self._first[of] + cell]
        return found


def _streams(problem: Problem, number: int) -> dict[tuple[str, str], Stream]:
    """Component that sends and component that receives → their stream."""
    topology, load = problem.topologies[number], problem.loads[number]
    found = _declared(topology)
    of, names = topology.executor_component, [component.id for component in topology.components]
    pairs = np.stack([of[load.pair_source], of[load.pair_target]])
    flows = np.stack([of[load.flow_source], load.flow_component])
    for source, target in np.unique(np.concatenate([pairs, flows], axis=1), axis=1).T.tolist():
        ends = names[source], names[target]
        stream, grouping = _UNDECLARED
        found.setdefault(ends, (ends[0], stream, ends[1], grouping))
    return found


def _declared(topology: Topology) -> dict[tuple[str, str], Stream]:
    found: dict[tuple[str, str], Stream] = {}
    spouts = [component.id for component in topology.components if component.type == "spout"]
    if ACKER in topology.component_index:
        for component in topology.components:
            if component.id != ACKER:
                stream = _BEGUN if component.id in spouts else _ACKED
                found[component.id, ACKER] = component.id, stream, ACKER, "fields"
        found |= {(ACKER, spout): (ACKER, _ACKED, spout, "direct") for spout in spouts}
    for component in topology.components:
        for grouping in component.inputs:
            if grouping.source in topology.component_index:
                ends = grouping.source, component.id
                found.setdefault(ends, (grouping.source, grouping.stream, component.id, grouping.kind))
    return found
