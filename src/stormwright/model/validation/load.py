"""What is wrong with measured loads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stormwright.escaping import shown
from stormwright.model.amounts import AMOUNT_WANTED, MOST_AMOUNT
from stormwright.model.arrays import BoolArray, FloatArray, IntArray
from stormwright.model.topology import PLACEMENT_FOLLOWING, Topology
from stormwright.model.validation.faults import Wrong, amount_wrong, items_wrong

if TYPE_CHECKING:
    from stormwright.model.demand import Demand
    from stormwright.model.load import TopologyLoad


def demand_wrong(demand: Demand) -> Iterator[Wrong]:
    """All that is wrong with the measured loads of topologies, each with the path from the problem.

    Loads of topologies that are wrong themselves are not looked at.
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
    """Whether arrays are as long as they should be, and no index is beyond its end.

    With `_sound` it looks at whole arrays only, since loads come each second; once something is wrong, `_load_wrong`
    looks for it item by item.
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
        and (load.pair_bytes_per_s is None or load.pair_bytes_per_s.shape == (pairs,))
        and (load.flow_bytes_per_s is None or load.flow_bytes_per_s.shape == (flows,))
        and (not pairs or max(load.pair_source.max(), load.pair_target.max()) < executors)
        and (not flows or (load.flow_source.max() < executors and load.flow_component.max() < components))
        and PLACEMENT_FOLLOWING.issuperset(load.flow_grouping)
        and not any(amount_wrong(load.bytes_per_tuple) if load.bytes_per_tuple is not None else ())
    )


def _sound(loads: Sequence[TopologyLoad]) -> bool:
    """Whether all amounts are amounts and no index is below 0, all loads at once."""
    amounts = [each for load in loads for each in (load.cpu_hz, load.memory_mb, load.pair_tps, load.flow_tps)]
    more = [(load.pair_bytes_per_s, load.flow_bytes_per_s, load.forecast_cpu_hz) for load in loads]
    amounts += [each for of_load in more for each in of_load if each is not None]
    limits = [load.flow_limit_tps for load in loads if load.flow_limit_tps is not None]
    indices = [
        each for load in loads for each in (load.pair_source, load.pair_target, load.flow_source, load.flow_component)
    ]
    return bool(
        _are_amounts(_together(amounts)).all()
        and _are_limits(_together(limits)).all()
        and (not indices or np.concatenate(indices).min(initial=0) >= 0)
    )


def _together(arrays: Sequence[FloatArray]) -> FloatArray:
    return np.concatenate([np.empty(0), *arrays])


def _are_amounts(values: FloatArray) -> BoolArray:
    sound: BoolArray = (values >= 0) & (values <= MOST_AMOUNT)
    return sound


def _are_limits(values: FloatArray) -> BoolArray:
    sound: BoolArray = _are_amounts(values) | (values == np.inf)
    return sound


def _load_wrong(topology: Topology, load: TopologyLoad) -> Iterator[Wrong]:
    executors, components = topology.num_executors, topology.components
    yield from _column_wrong("cpu_hz", load.cpu_hz, executors, "executors")
    yield from _column_wrong("memory_mb", load.memory_mb, executors, "executors")
    yield from _column_wrong("forecast_cpu_hz", load.forecast_cpu_hz, executors, "executors")
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
            yield Wrong(f"has {len(limits)} items for {len(components)} components", ("flow_limits",))
        else:
            names = [component.id for component in components]
            yield from items_wrong(_are_limits(limits), limits, AMOUNT_WANTED, lambda c: ("flow_limits", names[c]))


def _column_wrong(name: str, values: FloatArray | None, length: int, of: str) -> Iterator[Wrong]:
    if values is None:
        return
    if values.shape != (length,):
        yield Wrong(f"has {values.size} items for {length} {of}", (name,))
    else:
        yield from items_wrong(_are_amounts(values), values, AMOUNT_WANTED, lambda position: (name, position))


def _indices_wrong(
    values: IntArray, count: int, wanted: str, place: Callable[[int], tuple[str | int, ...]]
) -> Iterator[Wrong]:
    yield from items_wrong((values >= 0) & (values < count), values, wanted, place)


def _lengths_wrong(
    name: str, columns: Sequence[Sequence[object] | IntArray | FloatArray]
) -> Generator[Wrong, None, bool]:
    """Columns of one table that are not equally long; returns whether there are any."""
    lengths = [len(column) for column in columns]
    if len(set(lengths)) == 1:
        return False
    yield Wrong(f"should have columns of one length, got {shown(lengths)}", (name,))
    return True


def _in_row(name: str, column: int) -> Callable[[int], tuple[str | int, ...]]:
    return lambda position: (name, position, column)
