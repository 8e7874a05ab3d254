"""Whether values have the types and ranges of the schema: functions, made once, called thousands of times a second.

A verdict is a number, and that of a value with parts is the worst of theirs. Lists are judged as a whole, by built-in
functions, as long as nothing is wrong with them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any, TypeAlias

from stormwright.perflog.schema import (
    EDGE_TOLERANCE,
    Constants,
    Field,
    Fraction,
    Listing,
    Row,
    Structure,
    Text,
    Type,
    WholeNumber,
)

#: The right type all the way down, but a part that is missing or out of range; a wrong type somewhere.
RIGHT, OUT_OF_RANGE, UNTYPED = range(3)

_Judge: TypeAlias = Callable[[Any], int]

_INT, _STR, _LIST = {int}, {str}, {list}


def judge(kind: Type) -> _Judge:
    """The function that gives the verdict of a value that is not None.

    It sets nullable fields that were left out to None.
    """
    match kind:
        case WholeNumber():
            return _whole(kind)
        case Fraction():
            return _share
        case Text():
            return _text
        case Constants():
            return _constants(kind)
        case Listing():
            return _listing(kind)
        case Row():
            return _row(kind)
        case Structure(fields):
            return _structure(fields)


def _whole(kind: WholeNumber) -> _Judge:
    minimum, maximum = kind.minimum, kind.maximum

    def verdict(value: Any) -> int:
        if type(value) is not int:
            return UNTYPED
        if minimum <= value <= maximum:
            return RIGHT
        return OUT_OF_RANGE if -(2**63) <= value < 2**63 else UNTYPED

    return verdict


def _share(value: Any) -> int:
    if type(value) not in (int, float):
        return UNTYPED
    return RIGHT if 0 <= value <= 1 else OUT_OF_RANGE


def _text(value: Any) -> int:
    return RIGHT if type(value) is str else UNTYPED


def _constants(kind: Constants) -> _Judge:
    def near(value: Any, wanted: float) -> bool:
        return value is not None and abs(value - wanted) <= EDGE_TOLERANCE * wanted

    def verdict(value: Any) -> int:
        if type(value) is not list or not set(map(type, value)) <= {int, float, type(None)}:
            return UNTYPED
        return RIGHT if len(value) == len(kind.values) and all(map(near, value, kind.values)) else OUT_OF_RANGE

    return verdict


def _row(kind: Row) -> _Judge:
    judges = [judge(number) for _, number in kind.columns]

    def verdict(value: Any) -> int:
        if type(value) is not list:
            return UNTYPED
        # What stands beyond the last column has no range, but a type.
        judged = chain(judges, repeat(judges[0]))
        found = max(map(_judged, judged, value), default=RIGHT)
        return found if len(value) == len(judges) else max(found, OUT_OF_RANGE)

    return verdict


def _listing(kind: Listing) -> _Judge:
    judge_element, all_right = judge(kind.element), _all_right(kind.element)
    shortest, longest = kind.shortest, sys.maxsize if kind.longest is None else kind.longest

    def verdict(value: Any) -> int:
        if type(value) is not list:
            return UNTYPED
        found = RIGHT if all_right(value) else max(map(_judged, repeat(judge_element), value), default=RIGHT)
        return found if shortest <= len(value) <= longest else max(found, OUT_OF_RANGE)

    return verdict


def _judged(judged: _Judge, value: Any) -> int:
    return OUT_OF_RANGE if value is None else judged(value)


def _structure(fields: Sequence[Field]) -> _Judge:
    parts = [(field.name, judge(field.type), field.nullable) for field in fields]

    def verdict(value: Any) -> int:
        if type(value) is not dict:
            return UNTYPED
        worst = RIGHT
        for name, judged, nullable in parts:
            part = value.get(name)
            if part is not None:
                found = judged(part)
                if found > worst:
                    worst = found
            elif nullable:
                value[name] = None
            elif worst == RIGHT:
                worst = OUT_OF_RANGE
        return worst

    return verdict


def _all_right(kind: Type) -> Callable[[list[Any]], bool]:
    """Whether all elements of a list are right, found without a look at each; False says nothing."""
    match kind:
        case WholeNumber(minimum, maximum):
            return lambda value: (
                not value or (set(map(type, value)) == _INT and min(value) >= minimum and max(value) <= maximum)
            )
        case Text():
            return lambda value: set(map(type, value)) <= _STR
        case Row(columns):
            return _all_rows(columns)
        case _:
            return lambda value: not value


def _all_rows(columns: Sequence[tuple[str, WholeNumber]]) -> Callable[[list[Any]], bool]:
    width = len(columns)
    limits = [(column, number.minimum, number.maximum) for column, (_, number) in enumerate(columns)]

    def all_right(value: list[Any]) -> bool:
        if not value:
            return True
        if set(map(type, value)) != _LIST or set(map(len, value)) != {width}:
            return False
        numbers = list(chain.from_iterable(value))
        return set(map(type, numbers)) == _INT and all(
            min(each := numbers[column::width]) >= minimum and max(each) <= maximum
            for column, minimum, maximum in limits
        )

    return all_right
