"""Measured traffic of all topologies in one sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem, TopologyLoad
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray
from stormwright.model.flows import is_local
from stormwright.predict.flow.layout import FlowLayout
from stormwright.predict.sums import sums

#: Traffic below a tuple in some ten years counts as none: it cannot be divided by.
MIN_TPS = 3e-9

#: Assumed size of a tuple without a measurement, in bytes.
BYTES_PER_TUPLE = 100.0


@dataclass(frozen=True, eq=False)
class MeasuredTraffic:
    """Pairs (P of them) and flows (F) of all topologies.

    Parameters
    ----------
    pair_source, pair_target, flow_source
        Executors at the ends of pairs and flows.
    flow_target
        Component, numbered over the problem.
    flow_local
        Whether the grouping knows only the worker and all.
    pair_tps, flow_tps
        Tuples/s of pairs and flows.
    pair_size, flow_size
        Bytes of a tuple.
    """

    pair_source: IndexArray
    pair_target: IndexArray
    pair_tps: FloatArray
    pair_size: FloatArray
    flow_source: IndexArray
    flow_target: IndexArray
    flow_tps: FloatArray
    flow_size: FloatArray
    flow_local: BoolArray

    @classmethod
    def of(cls, problem: Problem, layout: FlowLayout) -> MeasuredTraffic:
        """Return the traffic of the problem's loads, measured or assumed."""
        loads, executor = problem.loads, problem.executor_offset[:-1].tolist()
        component = layout.component_offset[:-1].tolist()
        return cls(
            pair_source=_joined([load.pair_source + at for load, at in zip(loads, executor, strict=True)], np.int64),
            pair_target=_joined([load.pair_target + at for load, at in zip(loads, executor, strict=True)], np.int64),
            pair_tps=_without_noise(_joined([load.pair_tps for load in loads], np.float64)),
            pair_size=_joined([_sizes(load, load.pair_tps, load.pair_bytes_per_s) for load in loads], np.float64),
            flow_source=_joined([load.flow_source + at for load, at in zip(loads, executor, strict=True)], np.int64),
            flow_target=_joined(
                [load.flow_component + at for load, at in zip(loads, component, strict=True)], np.int64
            ),
            flow_tps=_without_noise(_joined([load.flow_tps for load in loads], np.float64)),
            flow_size=_joined([_sizes(load, load.flow_tps, load.flow_bytes_per_s) for load in loads], np.float64),
            flow_local=_joined([is_local(load) for load in loads], np.bool_),
        )

    def trees_tps(self, problem: Problem, layout: FlowLayout) -> FloatArray:
        """Return the trees/s that every executor of a spout begins, shape (E,).

        It is counted at ackers, which get a message for each tree. Of a topology without ackers it is the rate of the
        component that gets most, where copies to several executors (grouping ``all``) count once.
        """
        source = np.concatenate([self.pair_source, self.flow_source])
        target = np.concatenate([layout.executor_component[self.pair_target], self.flow_target])
        tps = np.concatenate([self.pair_tps, self.flow_tps])
        of_spout = layout.is_spout[layout.executor_component[source]]
        source, target, tps = source[of_spout], target[of_spout], tps[of_spout]
        keys, inverse = np.unique(source * len(layout.size) + target, return_inverse=True)
        sender, receiver = np.divmod(keys, max(len(layout.size), 1))
        sent = sums(inverse, tps, len(keys))
        sent /= _copies(problem, layout, layout.executor_component[sender], receiver)
        most, announced = np.zeros(problem.num_executors), np.zeros(problem.num_executors)
        np.maximum.at(most, sender, sent)
        to_acker = layout.is_acker[receiver]
        np.maximum.at(announced, sender[to_acker], sent[to_acker])
        return np.where(announced > 0, announced, most)


def _without_noise(tps: FloatArray) -> FloatArray:
    """Return the rates with negligible ones set to 0."""
    return np.where(tps < MIN_TPS, 0.0, tps)


def _joined(parts: Sequence[NDArray[Any]], kind: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.empty(0, kind), *parts])


def _sizes(load: TopologyLoad, tps: FloatArray, bytes_per_s: FloatArray | None) -> FloatArray:
    mean = BYTES_PER_TUPLE if load.bytes_per_tuple is None else load.bytes_per_tuple
    sizes = np.full(len(tps), mean)
    return sizes if bytes_per_s is None else np.divide(bytes_per_s, tps, out=sizes, where=tps > 0)


def _copies(problem: Problem, layout: FlowLayout, source: IndexArray, target: IndexArray) -> FloatArray:
    """Return how many executors of `target` get each tuple of `source` (components, numbered over the problem)."""
    every = {
        (int(offset) + topology.component_index[grouping.source], int(offset) + number)
        for topology, offset in zip(problem.topologies, layout.component_offset[:-1], strict=True)
        for number, component in enumerate(topology.components)
        for grouping in component.inputs
        if grouping.kind == "all" and grouping.source in topology.component_index
    }
    if not every:
        return np.ones(len(source))
    width = len(layout.size)
    to_all = np.isin(source * width + target, [s * width + t for s, t in every])
    return np.where(to_all, np.maximum(layout.size[target], 1), 1.0)
