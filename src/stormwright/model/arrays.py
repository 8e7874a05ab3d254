"""The array types of the model, and how what holds arrays is frozen and compared."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Amounts ------------------------------------------------------------------------------------------
# Which numbers are amounts: of a resource, of a load, of a rate.

#: The largest amount that is taken: far beyond any machine, and sums and products of such stay finite.
MOST_AMOUNT = 1e18

#: What a value that `is_amount` refuses should be.
AMOUNT_WANTED = "should be a number from 0 to 1e18"


def is_amount(value: object) -> TypeGuard[float]:
    """Whether a value, as it came out of JSON or YAML, is a number from 0 to `MOST_AMOUNT`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_AMOUNT


# Arrays -------------------------------------------------------------------------------------------

IntArray: TypeAlias = NDArray[np.int32]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
#: Positions and counts as NumPy gives them.
IndexArray: TypeAlias = NDArray[np.integer[Any]]

Scalar = TypeVar("Scalar", bound=np.generic)


def frozen(values: ArrayLike, dtype: type[Scalar] | np.dtype[Scalar], *, own: bool = False) -> NDArray[Scalar]:
    """`values` as a read-only array of one type: itself where it is one that nobody can write to, else a copy.

    Parameters
    ----------
    values
        An array, or what NumPy makes one of. Real numbers are no integers: they are refused rather than cut.
    dtype
        Type of the result's items.
    own
        Nobody else has the array: it itself becomes read-only, and no copy is made for that.

    Raises
    ------
    TypeError
        Real numbers where integers are wanted.
    OverflowError
        Integers that the type cannot hold.
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
    """Refuse what would not be the same as items of another type: NumPy itself cuts and wraps without a word."""
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
    """Whether an array, or one that it is a view of, can be written to."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def frozen_ints(values: ArrayLike) -> IntArray:
    """A read-only int32 array of `values`."""
    return frozen(values, np.int32)


def frozen_floats(values: ArrayLike) -> FloatArray:
    """A read-only float64 array of `values`."""
    return frozen(values, np.float64)


class ByContent:
    """Base of dataclasses that hold arrays: equal where all their fields are, arrays item by item.

    They have no hash, so neither a set nor the keys of a mapping take them: that is a TypeError. A dataclass below
    says ``eq=False``, or it would get a comparison of its own, which fails on arrays.
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
