"""Array types of the model, and how arrays are frozen and compared."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: The largest amount that is taken: far beyond any machine, and sums and products of such stay finite.
MAX_AMOUNT = 1e18

#: What a value that `is_amount` refuses should be.
AMOUNT_WANTED = "should be a number from 0 to 1e18"

#: What a fraction should be.
FRACTION_WANTED = "should be a number from 0 to 1"

IntArray: TypeAlias = NDArray[np.int32]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
#: Positions and counts as NumPy gives them.
IndexArray: TypeAlias = NDArray[np.integer[Any]]

Scalar = TypeVar("Scalar", bound=np.generic)


def is_amount(value: object) -> TypeGuard[float]:
    """Return whether a value read from JSON or YAML is a number from 0 to `MAX_AMOUNT`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_AMOUNT


def frozen(values: ArrayLike, dtype: type[Scalar] | np.dtype[Scalar], *, own: bool = False) -> NDArray[Scalar]:
    """Return `values` as a read-only array; the same object if it is read-only already, otherwise a copy.

    Parameters
    ----------
    values
        An array, or anything that NumPy converts to one. Real numbers are refused where integers are wanted.
    dtype
        Type of the result's items.
    own
        The caller hands over the array: it is made read-only in place, without a copy.

    Raises
    ------
    TypeError
        Real numbers where integers are wanted.
    OverflowError
        Integers that do not fit the type.
    """
    array = np.asarray(values)
    if array.dtype != dtype:
        _require_fit(array, np.dtype(dtype))
    elif not own and not _may_change(array):
        return array
    mine: NDArray[Scalar] = array if own and array.dtype == dtype else np.array(array, dtype=dtype)
    mine.flags.writeable = False
    return mine


def _require_fit(array: NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Raise if items change their value as `dtype`: NumPy itself truncates and wraps silently."""
    if not array.size:
        return
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(f"should be an array of {dtype}, got one of {array.dtype}")
    if dtype.kind in "iu" and array.dtype.kind in "iu" and not np.can_cast(array.dtype, dtype):
        able = np.iinfo(dtype)
        for value in (int(array.min()), int(array.max())):
            if not able.min <= value <= able.max:
                raise OverflowError(f"should be integers from {able.min:,} to {able.max:,} ({dtype}), got {value:,}")


def _may_change(array: object) -> bool:
    """Return whether an array, or one that it is a view of, is writable."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def frozen_ints(values: ArrayLike) -> IntArray:
    """Return `values` as a read-only int32 array."""
    return frozen(values, np.int32)


def frozen_floats(values: ArrayLike) -> FloatArray:
    """Return `values` as a read-only float64 array."""
    return frozen(values, np.float64)


class ByContent:
    """Base of dataclasses that hold arrays: equal if all fields are equal, arrays item by item.

    They are not hashable. A dataclass derived from it is declared with ``eq=False``: the generated comparison fails on
    arrays.
    """

    __hash__: ClassVar[None]  # type: ignore[assignment]  # what compares by content has none

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = (each.name for each in fields(self) if each.compare)  # type: ignore[arg-type]  # subclasses are dataclasses
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)


def _same(one: object, other: object) -> bool:
    if one is other:
        return True
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.array_equal(one, other)
    return bool(one == other)
