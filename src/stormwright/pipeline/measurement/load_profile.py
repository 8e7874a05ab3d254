"""Load of a topology from its structure and the facts of one window."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stormwright.model import Topology, TopologyLoad
from stormwright.model.arrays import BoolArray, FloatArray, IntArray
from stormwright.model.flows import is_local
from stormwright.model.load import cpu_hz_of, memory_mb_of, requested
from stormwright.model.topology import PLACEMENT_FOLLOWING
from stormwright.pipeline.measurement.windows import kind_of, numbers
from stormwright.pipeline.settings import StreamSettings

UNKNOWN = -1

_GROUPINGS = sorted(PLACEMENT_FOLLOWING)


def topology_load(topology: Topology, facts: pa.Table, settings: StreamSettings, core_hz: float) -> TopologyLoad:
    """Return the load of one topology.

    Rates are per second of the time that an executor's records cover, so a lost record does not lower them.
    An executor without a record gets the mean CPU of its component, or else its request, and no pending trees. Memory
    is that requested by the executors, as it is not measured per executor.

    Parameters
    ----------
    topology
        The topology with its executors and requests.
    facts
        Facts of this topology in the window, as `stormwright.pipeline.measurement.panes` describes them.
    settings
        Settings, possibly with the speed of a supervisor's cores.
    core_hz
        Default speed of a core in Hz; requests of executors always count at this speed.
    """
    executors, pairs, flows = (kind_of(facts, kind) for kind in ("executor", "pair", "flow"))
    index = _executor_of_run(topology, executors)
    covered_s = _covered_s(topology, executors, index)
    core_speeds = np.array([settings.core_hz_at(s, core_hz) for s in executors["supervisor"].to_pylist()])
    cycles = _sum_by(index, numbers(executors, "cpu_ns") / 1e9 * core_speeds, topology.num_executors)

    pair_keys, flow_keys = _pair_keys(topology, pairs), _flow_keys(topology, flows)
    bytes_per_tuple = _bytes_per_tuple(pa.concat_tables([pairs, flows]))
    (pair_source, pair_target), paired = _rates(pair_keys, pairs, covered_s, bytes_per_tuple)
    (flow_source, flow_component, grouping), flowing = _rates(flow_keys, flows, covered_s, bytes_per_tuple)
    requests = requested(topology)
    received = _sum_by(index, numbers(executors, "received"), topology.num_executors)

    def total(name: str) -> FloatArray:
        return _sum_by(index, np.nan_to_num(numbers(executors, name)), topology.num_executors)

    waited_s, waited_known_s, pending_s, pending_known_s, runs_known_s = (
        total(name) / 1e9
        for name in ("waited_ns", "waited_known_ns", "pending_ns", "pending_known_ns", "runs_known_ns")
    )
    load = TopologyLoad(
        cpu_hz=executor_cpu_hz(topology, cycles, covered_s, cpu_hz_of(topology, requests, core_hz)),
        memory_mb=memory_mb_of(topology, requests),
        pair_source=pair_source,
        pair_target=pair_target,
        pair_tps=paired.tps,
        flow_source=flow_source,
        flow_component=flow_component,
        flow_tps=flowing.tps,
        flow_grouping=tuple(_GROUPINGS[g] for g in grouping),
        bytes_per_tuple=bytes_per_tuple,
        pair_bytes_per_s=paired.bytes_per_s,
        flow_bytes_per_s=flowing.bytes_per_s,
        waited=executor_rate(topology, np.minimum(waited_s, waited_known_s), waited_known_s),
        executing=executor_rate(topology, np.minimum(total("execute_ns") / 1e9, covered_s), covered_s),
        runs_per_s=executor_rate(topology, total("runs"), runs_known_s),
        pending_trees=executor_pending(topology, pending_s, pending_known_s),
    )
    return replace(load, flow_limit_tps=flow_limit_tps(topology, load, cycles, received, covered_s, core_hz))


def unknown_tuples(topology: Topology, facts: pa.Table) -> int:
    """Return the number of tuples left out of the load, as their source or target is no known executor."""
    executors, pairs, flows = (kind_of(facts, kind) for kind in ("executor", "pair", "flow"))
    covered_s = _covered_s(topology, executors, _executor_of_run(topology, executors))
    both = ((pairs, _pair_keys(topology, pairs)), (flows, _flow_keys(topology, flows)))
    return sum(int(numbers(traffic, "tuples")[~_known(keys, covered_s)].sum()) for traffic, keys in both)


def _covered_s(topology: Topology, executors: pa.Table, index: IntArray) -> FloatArray:
    return _sum_by(index, numbers(executors, "length_ns") / 1e9, topology.num_executors)


def _pair_keys(topology: Topology, pairs: pa.Table) -> tuple[IntArray, ...]:
    return _executor_of_task(topology, pairs["first"]), _executor_of_task(topology, pairs["second"])


def _flow_keys(topology: Topology, flows: pa.Table) -> tuple[IntArray, ...]:
    return (
        _executor_of_task(topology, flows["first"]),
        np.array([topology.component_index.get(c, UNKNOWN) for c in flows["component"].to_pylist()], np.int32),
        np.array([_GROUPINGS.index(g) for g in flows["grouping"].to_pylist()], np.int32),
    )


def _known(keys: tuple[IntArray, ...], covered_s: FloatArray) -> BoolArray:
    """Return which traffic has known executors and a measured source."""
    known: BoolArray = np.all(np.stack(keys) != UNKNOWN, axis=0) & (covered_s[keys[0]] > 0)
    return known


def _executor_of_task(topology: Topology, tasks: pa.ChunkedArray) -> IntArray:
    """Return the index of the executor that runs each task; `UNKNOWN` if the topology has no such task."""
    wanted = tasks.to_numpy()
    order = np.argsort(topology.executor_start_task)
    place = np.searchsorted(topology.executor_start_task[order], wanted, side="right") - 1
    executor = order[np.maximum(place, 0)]
    return np.where((place >= 0) & (wanted <= topology.executor_end_task[executor]), executor, UNKNOWN).astype(np.int32)


def _executor_of_run(topology: Topology, executors: pa.Table) -> IntArray:
    """Return the index of each measured executor; `UNKNOWN` if no executor has exactly its tasks."""
    index = _executor_of_task(topology, executors["first"])
    first, last = executors["first"].to_numpy(), executors["second"].to_numpy()
    same = (topology.executor_start_task[index] == first) & (topology.executor_end_task[index] == last)
    return np.where(same, index, UNKNOWN).astype(np.int32)


def _sum_by(index: IntArray, values: FloatArray, length: int) -> FloatArray:
    known = index != UNKNOWN
    return np.bincount(index[known], weights=values[known], minlength=length).astype(np.float64)


class _Rates(NamedTuple):
    """Traffic by some combinations of keys in tuples/s and, where a size is known, bytes/s."""

    tps: FloatArray
    bytes_per_s: FloatArray | None


def _rates(
    keys: tuple[IntArray, ...], facts: pa.Table, covered_s: FloatArray, bytes_per_tuple: float | None
) -> tuple[tuple[IntArray, ...], _Rates]:
    """Return the combinations of keys, the source executor first, and their traffic.

    Tuples without a sampled size count with `bytes_per_tuple`.
    """
    table, tuples = np.stack(keys), numbers(facts, "tuples")
    counted = _known(keys, covered_s) & (tuples > 0)
    combinations, inverse = np.unique(table[:, counted], axis=1, return_inverse=True)

    def totals(amounts: FloatArray) -> FloatArray:
        weights = amounts[counted]
        return np.bincount(inverse.ravel(), weights=weights, minlength=combinations.shape[1]).astype(np.float64)

    tps = totals(tuples) / covered_s[combinations[0]]
    size, sampled = totals(numbers(facts, "bytes")), totals(numbers(facts, "sampled"))
    bytes_per_s = None
    if bytes_per_tuple is not None:
        bytes_per_s = tps * np.where(sampled > 0, size / np.maximum(sampled, 1), bytes_per_tuple)
    return tuple(combinations), _Rates(tps, bytes_per_s)


def executor_cpu_hz(
    topology: Topology, cycles: FloatArray, covered_s: FloatArray, requested_hz: FloatArray
) -> FloatArray:
    """Return the CPU of every executor in Hz; of unmeasured ones the component's mean or the request.

    Parameters
    ----------
    topology
        The topology with the executors.
    cycles, covered_s
        CPU used by each in cycles, and the time in seconds, shape (E,).
    requested_hz
        Requested CPU of each, shape (E,).
    """
    measured = covered_s > 0
    cpu_hz = np.where(measured, cycles / np.where(measured, covered_s, 1.0), requested_hz)
    for executor in np.flatnonzero(~measured):
        others = measured & (topology.executor_component == topology.executor_component[executor])
        if others.any():
            cpu_hz[executor] = cpu_hz[others].mean()
    return cpu_hz


def executor_rate(topology: Topology, amount: FloatArray, known_s: FloatArray) -> FloatArray | None:
    """Return an amount per second of every executor; None if none is known.

    An unknown one gets the mean of its component, or else of the topology.

    Parameters
    ----------
    topology
        The topology with the executors.
    amount, known_s
        Amount of each, and the time in s of which it is known, shape (E,).
    """
    known = known_s > 0
    if not known.any():
        return None
    rate = amount / np.where(known, known_s, 1.0)
    count, component = len(topology.components), topology.executor_component
    in_component = np.bincount(component[known], minlength=count)
    means = np.bincount(component[known], rate[known], count) / np.maximum(in_component, 1)
    return np.where(known, rate, np.where(in_component > 0, means, rate[known].mean())[component])


def executor_pending(topology: Topology, pending_s: FloatArray, known_s: FloatArray) -> FloatArray | None:
    """Return the mean number of pending trees of every spout executor, 0 for others; None if none is known.

    An unknown one gets the mean of its component, or else of all spouts.

    Parameters
    ----------
    topology
        The topology with the executors.
    pending_s, known_s
        Pending trees of each times the time in s, and how much time they are known of, shape (E,).
    """
    is_spout = np.array([component.type == "spout" for component in topology.components], dtype=bool)
    of_spout = is_spout[topology.executor_component]
    trees = executor_rate(topology, pending_s, np.where(of_spout, known_s, 0.0))
    return None if trees is None else np.where(of_spout, trees, 0.0)


def flow_limit_tps(
    topology: Topology,
    load: TopologyLoad,
    cycles: FloatArray,
    received: FloatArray,
    covered_s: FloatArray,
    core_hz: float,
) -> FloatArray | None:
    """Return the flow that one executor of each component can process besides its other input.

    Parameters
    ----------
    topology, load
        The topology and its load.
    cycles, received, covered_s
        CPU in cycles, tuples received, and time in seconds of every executor, shape (E,).
    core_hz
        Speed of a core.

    Returns
    -------
    FloatArray or None
        Tuples/s, shape (C,), inf for no limit; None if no component has a limit.
    """
    count = len(topology.components)
    of_component = topology.executor_component
    cycles, received, covered_s = (
        np.bincount(of_component, each, count).astype(np.float64) for each in (cycles, received, covered_s)
    )
    follows = ~is_local(load)
    flowing_tps = np.bincount(load.flow_component[follows], load.flow_tps[follows], count)
    executors = np.bincount(of_component, minlength=count)
    with np.errstate(divide="ignore", invalid="ignore"):
        other_tps = np.nan_to_num(received / covered_s) - flowing_tps / executors
        limit = core_hz * received / cycles - np.maximum(other_tps, 0.0)
    known = (received > 0) & (cycles > 0) & (covered_s > 0)
    return np.where(known, np.maximum(limit, 0.0), np.inf) if known.any() else None


def _bytes_per_tuple(traffic: pa.Table) -> float | None:
    sampled = numbers(traffic, "sampled").sum()
    return float(numbers(traffic, "bytes").sum() / sampled) if sampled else None
