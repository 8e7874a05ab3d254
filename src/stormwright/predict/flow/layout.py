"""Components of all topologies in one sequence, and their configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.model.batches import MAX_SPOUT_PENDING
from stormwright.model.requests import ACKER
from stormwright.model.topology_config import number_of
from stormwright.predict.sums import sums

#: Keys of a topology's configuration, and Storm's defaults (defaults.yaml of 2.8.3).
RECEIVE_BUFFER, _RECEIVE_BUFFER = "topology.executor.receive.buffer.size", 32_768
SPILL_BOUND, _SPILL_BOUND = "topology.localityaware.higher.bound", 0.8


@dataclass(frozen=True, eq=False)
class FlowLayout:
    """Layout of executors and components; components of all topologies (C) are numbered in one sequence.

    Parameters
    ----------
    component_offset
        First component of each topology, shape (T + 1,).
    topology, size, is_spout, is_acker
        Topology, number of executors and kind of every component, shape (C,).
    executor_component, executor_topology
        Component and topology of every executor, shape (E,).
    members, first
        Executors component by component, shape (E,), and the first of each component, shape (C + 1,).
    pending
        Tuple trees that a topology's spouts may have pending together, inf for no limit, shape (T,). A topology without
        ackers has no trees that are pending.
    spill_tuples
        Tuples in one receive queue from which a shuffle looks further away, shape (T,).
    """

    component_offset: IndexArray
    topology: IndexArray
    size: IndexArray
    is_spout: BoolArray
    is_acker: BoolArray
    executor_component: IndexArray
    executor_topology: IntArray
    members: IndexArray
    first: IndexArray
    pending: FloatArray
    spill_tuples: FloatArray

    @classmethod
    def of(cls, problem: Problem) -> FlowLayout:
        """Return the layout of a problem."""
        topologies = problem.topologies
        offset = np.cumsum([0, *(len(topology.components) for topology in topologies)])
        components = [component for topology in topologies for component in topology.components]
        of_executor = [t.executor_component + at for t, at in zip(topologies, offset[:-1], strict=True)]
        executor_component = np.concatenate([np.empty(0, np.int64), *of_executor])
        size = np.bincount(executor_component, minlength=len(components))
        topology = np.repeat(np.arange(len(topologies)), np.diff(offset))
        is_spout = np.array([component.type == "spout" for component in components], dtype=bool)
        is_acker = np.array([component.id == ACKER for component in components], dtype=bool)
        confs = [{**problem.conf, **each.conf} for each in topologies]
        tasks = _spout_tasks(problem, executor_component, is_spout)
        acked = sums(topology, is_acker * size, len(topologies)) > 0
        pending = np.array([number_of(conf, MAX_SPOUT_PENDING, np.inf) for conf in confs]) * np.maximum(tasks, 1)
        return cls(
            component_offset=offset,
            topology=topology,
            size=size,
            is_spout=is_spout,
            is_acker=is_acker,
            executor_component=executor_component,
            executor_topology=problem.executor_topology,
            members=np.argsort(executor_component, kind="stable"),
            first=np.cumsum([0, *size]),
            pending=np.where(acked, pending, np.inf),
            spill_tuples=np.array(
                [
                    number_of(conf, RECEIVE_BUFFER, _RECEIVE_BUFFER) * number_of(conf, SPILL_BOUND, _SPILL_BOUND)
                    for conf in confs
                ]
            ),
        )


def _spout_tasks(problem: Problem, executor_component: IndexArray, is_spout: BoolArray) -> FloatArray:
    """Return the tasks of all spouts of each topology, shape (T,)."""
    parts = [t.executor_end_task - t.executor_start_task + 1 for t in problem.topologies]
    tasks = np.concatenate([np.empty(0, np.int32), *parts])
    of_spouts = np.where(is_spout[executor_component], tasks, 0)
    return sums(problem.executor_topology, of_spouts, len(problem.topologies))


class StreamRates(NamedTuple):
    """Traffic by source: tuples for each tuple that it handles, and bytes of one.

    `target` is an executor, or a component for flows; `local` marks flows whose grouping knows only the worker and all.
    """

    source: IndexArray
    target: IndexArray
    tuples: FloatArray
    size: FloatArray
    local: BoolArray

    def at(self, chosen: IndexArray | slice) -> StreamRates:
        """Return the selected rows."""
        source, target, tuples, size, local = self
        return StreamRates(source[chosen], target[chosen], tuples[chosen], size[chosen], local[chosen])
