"""Graph partitioning: METIS, and the repair of its parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from stormwright.base import stdout
from stormwright.errors import MissingDependencyError
from stormwright.model.arrays import FloatArray, IndexArray

#: METIS counts in 32-bit integers: weights are scaled so that their sum stays well below the largest.
_MAX = 1e8

#: Percent by which METIS itself lets a part exceed the mean weight.
BALANCE_PERCENT = 3.0


def partition(
    graph: csr_array,
    weight: FloatArray,
    most: Sequence[int],
    *,
    least: Sequence[int] | None = None,
    volume: bool = False,
    imbalances: Sequence[float] = (BALANCE_PERCENT,),
    seed: int = 0,
) -> list[list[int]]:
    """Return the vertices of `graph` in parts of about equal weight, one for each entry of `most`.

    G. Karypis, V. Kumar, "A fast and high quality multilevel scheme for partitioning irregular graphs", SIAM Journal
    on Scientific Computing 20, 1998, https://doi.org/10.1137/S1064827595287997.

    METIS may leave a part empty or make it too large in number; then the vertices that exchange least with their part
    move to parts with free places, those with the lower number first.

    Parameters
    ----------
    graph
        Traffic between vertices, symmetric, shape (V, V).
    weight
        Weight of every vertex, shape (V,).
    most, least
        Maximum and minimum vertices of each part; V lies between the sums. The default minimum is 1.
    volume
        Minimise the communication volume, for which METIS ignores the amount of traffic; otherwise the traffic between
        parts.
    imbalances
        Percentages by which the weight of a part may exceed the mean; METIS counts in tenths. METIS is called once for
        each, as its heuristic may find less with more freedom; the partition of lowest objective wins, the first of
        equal ones.
    seed
        Seed of METIS's random numbers.

    Raises
    ------
    MissingDependencyError
        METIS is not installed.
    """
    least = least or [1] * len(most)
    part = _metis(graph, weight, len(most), volume, imbalances, seed)
    _repair(graph, part, least, most)
    return [np.flatnonzero(part == number).tolist() for number in range(len(most))]


def _metis(
    graph: csr_array, weight: FloatArray, parts: int, volume: bool, imbalances: Sequence[float], seed: int
) -> IndexArray:
    try:
        import pymetis
    except ImportError as error:
        raise MissingDependencyError(
            "METIS is not installed, and this scheduler partitions with it; "
            'install it with: pip install "stormwright[metis]"'
        ) from error
    count = graph.shape[0]
    if parts == 1:
        return np.zeros(count, dtype=np.int64)
    if graph.nnz == 0 or parts >= count:
        # Without edges, distribute vertices in turn, heaviest first.
        part = np.empty(count, dtype=np.int64)
        part[np.argsort(-weight, kind="stable")] = np.arange(count) % parts
        return part
    options = pymetis.Options()
    options.seed = seed
    if volume:
        options.objtype = pymetis.ObjType.VOL
    found = []
    stdout.redirect_to_stderr()  # METIS prints there if a part that it halves has no vertices
    try:
        for imbalance in imbalances:
            options.ufactor = max(1, round(10 * imbalance))
            found.append(
                pymetis.part_graph(
                    parts,
                    pymetis.CSRAdjacency(graph.indptr, graph.indices),
                    vweights=_integers(weight),
                    eweights=_integers(graph.data),
                    recursive=False,
                    options=options,
                )
            )
    finally:
        stdout.end_redirection()
    best = min(found, key=lambda each: each.edge_cuts)  # the communication volume if that is the objective
    return np.array(best.vertex_part, dtype=np.int64)


def _integers(weight: FloatArray) -> IndexArray:
    """Return `weight` as integers of at least 1, in about the same proportions."""
    total = float(weight.sum())
    scaled = weight * (_MAX / total) if total > 0 else weight
    return np.maximum(scaled.round(), 1).astype(np.int64)


def _repair(graph: csr_array, part: IndexArray, least: Sequence[int], most: Sequence[int]) -> None:
    """Repair parts in place until each has a valid number of vertices."""
    size = np.bincount(part, minlength=len(most))
    low, high = np.array(least), np.array(most)
    while True:
        if np.any(size > high):
            leaves = size > high
            takes = size < low if np.any(size < low) else size < high
        elif np.any(size < low):
            leaves, takes = size > low, size < low
        else:
            return
        inside = _exchanged_with_own_part(graph, part)
        vertex = int(np.argmin(np.where(leaves[part], inside, np.inf)))
        neighbours = slice(graph.indptr[vertex], graph.indptr[vertex + 1])
        pull = np.bincount(part[graph.indices[neighbours]], graph.data[neighbours], len(most))
        target = int(np.argmax(np.where(takes, pull, -1.0)))
        size[part[vertex]] -= 1
        size[target] += 1
        part[vertex] = target


def _exchanged_with_own_part(graph: csr_array, part: IndexArray) -> FloatArray:
    row = np.repeat(np.arange(len(part)), np.diff(graph.indptr))
    inside = part[row] == part[graph.indices]
    return np.bincount(row[inside], graph.data[inside], len(part)).astype(np.float64)
