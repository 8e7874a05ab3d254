"""A learned peer: gradient boosting on flat features of a cell, which has seen other cells of the same topology."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.model_selection import GroupKFold

from benchmarks.cells.chosen import NODES, TOPOLOGIES, Limit
from benchmarks.cells.measured import Measured
from stormwright.model import cost_of
from stormwright.model.arrays import FloatArray
from stormwright.model.link_speed import link_bits_per_s

#: Parts that are left out in turn; a start is in one of them with all of its cells.
_PARTS = 10


def errors(found: Sequence[Measured], source: str) -> FloatArray:
    """Relative errors of its rates, of all cells but those of the source.

    Whoever predicts a cell was trained on nine tenths of all other starts, those of the topology itself among them.

    Parameters
    ----------
    found
        Starts of all topologies.
    source
        Placement whose load the features are made of, as it is for our predictions.
    """
    cells = list(_cells(found, source))
    x, y = np.array([features for _, features, _ in cells]), np.array([tps for *_, tps in cells])
    group = np.unique([start for start, *_ in cells], return_inverse=True)[1]
    predicted = np.empty(len(y))
    for seen, left in GroupKFold(_PARTS).split(x, y, group):
        model = GradientBoostingRegressor(n_estimators=300, max_depth=4, learning_rate=0.05, random_state=0)
        predicted[left] = np.exp(model.fit(x[seen], np.log(y[seen])).predict(x[left]))
    counts = np.array([not start.startswith(f"{topology}.{source}.") for start, topology in _names(cells)])
    off: FloatArray = np.abs(predicted / y - 1)[counts]
    return off


def _names(cells: Sequence[tuple[str, FloatArray, float]]) -> Iterator[tuple[str, str]]:
    return ((start, start.partition(".")[0]) for start, *_ in cells)


def _cells(found: Sequence[Measured], source: str) -> Iterator[tuple[str, FloatArray, float]]:
    """Start, features and trees/s of every cell."""
    sources = {each.start.topology: each for each in found if each.start.placement == source}
    for each in found:
        if each.start.repeat or each.start.topology not in TOPOLOGIES or each.start.topology not in sources:
            continue
        for limit in each.start.limits:
            yield each.start.name, _features(each, sources[each.start.topology], limit), each.at(limit).acked_tps


def _features(of: Measured, source: Measured, limit: Limit) -> FloatArray:
    """Limits, speed of the machine, what a tree takes and sends, and how much of it is where."""
    known, shown = source.under(limit, limit.cores), source.at(limit)
    slots = of.slots_in(known)
    cost, before = cost_of(known, slots), cost_of(known, known.current_slot)
    cpu = np.bincount(known.slot_node[slots], known.executor_cpu_hz, NODES) / known.core_hz
    crossing = [pairs.inter_node / shown.acked_tps for pairs in (cost, before)]
    per_tree = np.sort(cpu)[::-1] / shown.acked_tps * 1e6
    workers = len(np.unique(slots)), len(np.unique(known.slot_node[slots]))
    kind = [float(of.start.topology == name) for name in TOPOLOGIES]
    mine = of.at(limit).loop_ms, shown.loop_ms, shown.acked_tps
    return np.array([limit.cores, link_bits_per_s(limit.link) / 1e6, *mine, *workers, *crossing, *per_tree, *kind])
