"""Faults in the parts of a problem, with their location."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from stormwright.base.escaping import cut, shown
from stormwright.errors import Fault
from stormwright.model.arrays import AMOUNT_WANTED, MAX_AMOUNT, BoolArray, IndexArray

_PLAIN_KEY = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)

#: Maximum number of faults of an input that are listed; the others are only counted.
MAX_FAULTS = 100

#: Maximum number of wrong items of one array that are listed; the others are counted.
MAX_OF_ARRAY = 10


class ModelFault(NamedTuple):
    """A message, and the keys and positions that lead to the faulty value."""

    message: str
    steps: tuple[str | int, ...]

    def within(self, *steps: str | int) -> ModelFault:
        """Return the same fault below the given steps."""
        return ModelFault(self.message, (*steps, *self.steps))

    def fault(self) -> Fault:
        """Return it for an error message, with the path that it would have in a file."""
        return Fault(self.message, join_path("$", *self.steps))


def join_path(path: str, *steps: str | int) -> str:
    """Return `path` continued by keys and list positions: ``$.a`` and ``"b", 2`` give ``$.a.b[2]``."""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN_KEY.match(step):
            path += f".{cut(step)}"
        else:
            path += f'["{cut(step)}"]'
    return path


def text_wrong(value: object, *steps: str | int) -> Iterator[ModelFault]:
    """Yield a fault if a name is no text, or empty."""
    if not isinstance(value, str) or not value:
        yield ModelFault(f"should be a text of at least 1 character, got {shown(_plain(value))}", steps)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number of Python or NumPy; truth values are none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer of Python or NumPy; truth values are none."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def number_wrong(value: object, low: float, high: float, wanted: str, *steps: str | int) -> Iterator[ModelFault]:
    """Yield a fault if a value is no real number from `low` to `high`.

    Parameters
    ----------
    value
        Value of any type; one that is no number is a fault.
    low, high
        Least and greatest valid value, both inclusive; may be infinite.
    wanted
        Description of the expected value.
    *steps
        Location of the value.
    """
    if not is_number(value) or not low <= value <= high:
        yield ModelFault(f"{wanted}, got {shown(_plain(value))}", steps)


def amount_wrong(value: object, *steps: str | int) -> Iterator[ModelFault]:
    """Yield a fault if a value is no amount."""
    yield from number_wrong(value, 0, MAX_AMOUNT, AMOUNT_WANTED, *steps)


def integer_wrong(value: object, low: int, high: int, *steps: str | int) -> Iterator[ModelFault]:
    """Yield a fault if a value is no integer from `low` to `high`.

    Parameters
    ----------
    value
        Value of any type; truth values count as no integers.
    low, high
        Least and greatest valid value, both inclusive.
    *steps
        Location of the value.
    """
    if not is_integer(value) or not low <= value <= high:
        yield ModelFault(f"should be an integer from {low} to {high}, got {shown(_plain(value))}", steps)


def twice(names: list[str], key: str) -> Iterator[ModelFault]:
    """Yield a fault for every duplicate id among the objects of the list `key`."""
    if len(set(names)) == len(names):
        return
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        if first.setdefault(name, position) != position:
            yield ModelFault(f"{shown(name)} is the id of item {first[name]} already", (key, position, "id"))


def items_wrong(
    sound: BoolArray, values: IndexArray | Any, wanted: str, place: Callable[[int], tuple[str | int, ...]]
) -> Iterator[ModelFault]:
    """Yield a fault for each of the first `MAX_OF_ARRAY` items that are not sound.

    Parameters
    ----------
    sound
        Whether each item is valid, shape (n,).
    values
        The items, shape (n,).
    wanted
        Description of a valid item.
    place
        Returns the location of the item at a position.
    """
    wrong = np.flatnonzero(~sound).tolist()
    for position in wrong[:MAX_OF_ARRAY]:
        yield ModelFault(f"{wanted}, got {shown(_plain(values[position]))}", place(position))
    if len(wrong) > MAX_OF_ARRAY:
        yield ModelFault(f"{wanted}: {len(wrong) - MAX_OF_ARRAY} more like this", place(wrong[MAX_OF_ARRAY]))


def _plain(value: object) -> object:
    """Return a NumPy number as a Python number, for messages."""
    return value.item() if isinstance(value, np.generic) else value


class ConfigFault(NamedTuple):
    """A configuration value that Storm would refuse: the expectation, the value, and its location."""

    message: str
    value: object
    steps: tuple[str | int, ...]
