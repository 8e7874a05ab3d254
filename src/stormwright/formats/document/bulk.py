"""Long lists of numbers into NumPy: checked as whole columns, item by item only to locate faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from stormwright.formats.document.faults import FaultList, join_path, shown
from stormwright.model.arrays import (
    AMOUNT_WANTED,
    FRACTION_WANTED,
    MAX_AMOUNT,
    BoolArray,
    FloatArray,
    IntArray,
    frozen_floats,
    frozen_ints,
)

#: Most faults of a list, besides one more that counts the rest.
MAX_FAULTS_PER_COLUMN = 10

_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class ValueColumn:
    """Values of one kind. A conversion that adds faults returns harmless values in their place.

    Parameters
    ----------
    values
        Values from JSON, of any type until a conversion checks them.
    place
        Position → JSON path.
    """

    values: Sequence[Any]
    place: Callable[[int], str]
    faults: FaultList

    def amounts(self) -> FloatArray:
        """Return the values as numbers from 0 to `MAX_AMOUNT`."""
        array = self._numbers({int, float}, "should be a number", default=0)
        self._check((array >= 0) & (array <= MAX_AMOUNT), AMOUNT_WANTED)
        return frozen_floats(array)

    def fractions(self) -> FloatArray:
        """Return the values as numbers from 0 to 1."""
        array = self._numbers({int, float}, "should be a number", default=0)
        self._check((array >= 0) & (array <= 1), FRACTION_WANTED)
        return frozen_floats(array)

    def indices(self, lowest: int, count: int, wanted: str) -> IntArray:
        """Return the values as integers from `lowest` to below `count`; `wanted` describes valid ones, in messages."""
        array = self._numbers({int}, "should be an integer", default=lowest)
        sound = (array >= lowest) & (array < count)
        self._check(sound, f"should be {wanted}")
        return frozen_ints(np.where(sound, array, lowest).astype(np.int32))  # whole numbers, as checked above

    def names(self, known: Mapping[str, int], wanted: str) -> IntArray:
        """Return the values as mapped by `known`; `wanted` describes valid ones, in messages."""
        positions = frozen_ints([known.get(value, -1) if isinstance(value, str) else -1 for value in self.values])
        self._check(positions >= 0, f"should be {wanted}")
        return positions

    def rows(self, width: int) -> list[ValueColumn]:
        """Return the values, lists of `width` items, as that many columns; invalid ones are left out."""
        sound = np.fromiter((type(v) is list and len(v) == width for v in self.values), bool, len(self.values))
        self._check(sound, f"should be a list of {width}")
        valid = np.flatnonzero(sound).tolist()
        rows = self.values if len(valid) == len(self.values) else [self.values[position] for position in valid]
        return [ValueColumn(list(map(itemgetter(k), rows)), self._in_row(valid, k), self.faults) for k in range(width)]

    def _in_row(self, valid: Sequence[int], k: int) -> Callable[[int], str]:
        return lambda position: join_path(self.place(valid[position]), k)

    def _numbers(self, types: set[type], wanted: str, default: float) -> FloatArray:
        """Return the values as floats, `default` for one that is not of `types`, which is a fault."""
        values = self.values
        # By exact type: True is an int for isinstance, and no number in JSON.
        if not set(map(type, values)) <= types:
            sound = [type(value) in types for value in values]
            self._check(np.array(sound), wanted)
            values = [value if right else default for value, right in zip(values, sound, strict=True)]
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:  # integers beyond any float
            return np.array([value if abs(value) <= _LARGEST else np.inf for value in values], dtype=np.float64)

    def _check(self, sound: BoolArray, wanted: str) -> None:
        wrong = np.flatnonzero(~sound)
        for position in wrong[:MAX_FAULTS_PER_COLUMN].tolist():
            self.faults.add(f"{wanted}, got {shown(self.values[position])}", self.place(position))
        if len(wrong) > MAX_FAULTS_PER_COLUMN:
            rest = len(wrong) - MAX_FAULTS_PER_COLUMN
            self.faults.add(f"{wanted}: {rest} more like this", self.place(int(wrong[MAX_FAULTS_PER_COLUMN])))


def list_column(
    raw: Mapping[str, Any],
    key: str,
    path: str,
    faults: FaultList,
    *,
    length: int | None = None,
    unit: str = "executors",
) -> ValueColumn:
    """Return a list of a document as a column, empty if it is missing.

    Parameters
    ----------
    raw, key
        The object, and the key of the list.
    path
        JSON path of `raw`.
    faults
        Collects the faults, now and in the column's conversions.
    length
        Required number of items; None for any number.
    unit
        Name of the things with one item each, in faults.
    """
    path = join_path(path, key)
    values = raw.get(key, [])
    if not isinstance(values, list):
        faults.add(f"should be a list, got {shown(values)}", path)
        values = []
    elif length is not None and len(values) != length:
        faults.add(f"has {len(values)} items for {length} {unit}", path)
    return ValueColumn(values, lambda position: join_path(path, position), faults)
