"""The array types of the model."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

IntArray: TypeAlias = NDArray[np.int32]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
#: Positions and counts as NumPy gives them.
IndexArray: TypeAlias = NDArray[np.integer[Any]]


def frozen_ints(values: object) -> IntArray:
    """A read-only int32 array of `values`."""
    array = np.array(values, dtype=np.int32)
    array.flags.writeable = False
    return array


def frozen_floats(values: object) -> FloatArray:
    """A read-only float64 array of `values`."""
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array
