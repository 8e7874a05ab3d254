"""Highest rates within the resources, fair between topologies.

Max–min fairness by progressive filling: B. Radunović, J.-Y. Le Boudec, A Unified Framework for Max-Min and Min-Max
Fairness with Applications, IEEE/ACM Transactions on Networking 15(5), 2007, https://doi.org/10.1109/TNET.2007.896231.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stormwright.errors import Fault, InputError
from stormwright.model import Problem
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.model.topology_config import WEIGHT, value_misfits
from stormwright.predict.sums import sums

if TYPE_CHECKING:
    from scipy.sparse import coo_array, csr_array

#: No limiting resource, or no such resource.
NO_LIMIT = -1

_ROUNDING = 1e-12


class LimitedRates(NamedTuple):
    """Rates in trees/s (inf without a limit) and the row that limits each, `NO_LIMIT` for none; shape (T,)."""

    rate_tps: FloatArray
    limit: IndexArray


def weights_of(problem: Problem) -> FloatArray:
    """Return the configured weight (`WEIGHT`) of each topology, 1 by default; shape (T,).

    Files are checked when they are read; a problem may come from elsewhere.

    Raises
    ------
    InputError
        Values that are not weights; all faults at once.
    """
    configured = {
        index: topology.conf[WEIGHT] for index, topology in enumerate(problem.topologies) if WEIGHT in topology.conf
    }
    faults = [
        Fault(f"{misfit.message}, got {value!r}", f'$.topologies[{index}].conf["{WEIGHT}"]')
        for index, value in configured.items()
        for misfit in value_misfits(WEIGHT, value)
    ]
    if faults:
        raise InputError("configuration of topologies", faults)
    weights = np.ones(len(problem.topologies))
    weights[list(configured)] = list(configured.values())
    return weights


def highest_rates(shares: coo_array | csr_array, free: FloatArray, weights: FloatArray) -> LimitedRates:
    """Return the max–min fair rates of topologies by weight.

    All rates grow together, each by its weight, until a resource is full; the topologies that use it are then fixed,
    and the others go on. Resources that are the first to fill for all of their users are filled at once, which gives
    the same result.

    Parameters
    ----------
    shares
        Fraction of each resource that 1 tree/s of each topology takes, shape (resources, T).
    free
        Available fraction of each resource, shape (resources,).
    weights
        Weights of the topologies; 0 for those that get nothing, shape (T,).
    """
    entries = shares.tocoo()
    row, column, value = entries.row, entries.col, entries.data
    used = (value > 0) & (weights[column] > 0)
    row, column, value = row[used], column[used], value[used]
    count = len(weights)
    rate, limit = np.where(weights > 0, np.inf, 0.0), np.full(count, NO_LIMIT)
    left = free.astype(np.float64).copy()
    while len(row):
        requested = sums(row, value * weights[column], len(left))
        level = np.divide(left, requested, out=np.full(len(left), np.inf), where=requested > 0)
        first = np.full(count, np.inf)
        np.minimum.at(first, column, level[row])
        behind = level[row] > first[column] * (1 + _ROUNDING)  # one of its topologies stops before it is full
        full = (requested > 0) & (sums(row, behind, len(left)) == 0)
        stops = full[row]
        limit[column[stops]] = row[stops]
        stopped = np.zeros(count, dtype=bool)
        stopped[column[stops]] = True
        rate[stopped] = weights[stopped] * first[stopped]
        gone = stopped[column]
        left -= sums(row[gone], value[gone] * rate[column[gone]], len(left))
        left = np.maximum(left, 0.0)
        row, column, value = row[~gone], column[~gone], value[~gone]
    return LimitedRates(rate, limit)
