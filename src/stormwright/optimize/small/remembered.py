"""A small placement that can be gone back to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from stormwright.jit.compiled import inner
from stormwright.model.arrays import FloatArray, IndexArray


class Remembered(NamedTuple):
    """A placement that can be gone back to: as in `Dense`, and its overload and cost, shape (2,)."""

    worker: IndexArray
    node: IndexArray
    rank: FloatArray


def remembered(worker: IndexArray, node: IndexArray) -> Remembered:
    """A place to remember placements in: copies of both arrays, overload and cost 0."""
    return Remembered(worker.copy(), node.copy(), np.zeros(2))


@inner
def copy(source: Remembered, to: Remembered) -> None:
    """Note the same placement in another place."""
    copy_array(source.worker, to.worker)
    copy_array(source.node, to.node)
    copy_array(source.rank, to.rank)


@inner
def copy_array(source: FloatArray | IndexArray, to: FloatArray | IndexArray) -> None:
    """Without a scratch, which NumPy's own way takes in case that the two overlap."""
    for place in range(len(source)):
        to[place] = source[place]
