"""Validators: functions that check values against the types and ranges of the schema.

They are built once and called thousands of times a second. A result is a number, and that of a value with parts is the
worst of theirs. Lists are checked as a whole, by built-in functions, as long as nothing is wrong with them.
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
    ListType,
    Row,
    Structure,
    Text,
    Type,
    WholeNumber,
)

#: Results: valid; right types, but a part is missing or out of range; a wrong type somewhere.
VALID, OUT_OF_RANGE, UNTYPED = range(3)

_Validator: TypeAlias = Callable[[Any], int]

_INT, _STR, _LIST = {int}, {str}, {list}


def validator(kind: Type) -> _Validator:
    """Return the validator of a value that is not None.

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
        case ListType():
            return _listing(kind)
        case Row():
            return _row(kind)
        case Structure(fields):
            return _structure(fields)


def _whole(kind: WholeNumber) -> _Validator:
    minimum, maximum = kind.minimum, kind.maximum

    def validate(value: Any) -> int:
        if type(value) is not int:
            return UNTYPED
        if minimum <= value <= maximum:
            return VALID
        return OUT_OF_RANGE if -(2**63) <= value < 2**63 else UNTYPED

    return validate


def _share(value: Any) -> int:
    if type(value) not in (int, float):
        return UNTYPED
    return VALID if 0 <= value <= 1 else OUT_OF_RANGE


def _text(value: Any) -> int:
    return VALID if type(value) is str else UNTYPED


def _constants(kind: Constants) -> _Validator:
    def near(value: Any, wanted: float) -> bool:
        return value is not None and abs(value - wanted) <= EDGE_TOLERANCE * wanted

    def validate(value: Any) -> int:
        if type(value) is not list or not set(map(type, value)) <= {int, float, type(None)}:
            return UNTYPED
        return VALID if len(value) == len(kind.values) and all(map(near, value, kind.values)) else OUT_OF_RANGE

    return validate


def _row(kind: Row) -> _Validator:
    validators = [validator(number) for _, number in kind.columns]

    def validate(value: Any) -> int:
        if type(value) is not list:
            return UNTYPED
        # Items beyond the last column have no range, but a type.
        of_items = chain(validators, repeat(validators[0]))
        found = max(map(_result, of_items, value), default=VALID)
        return found if len(value) == len(validators) else max(found, OUT_OF_RANGE)

    return validate


def _listing(kind: ListType) -> _Validator:
    validate_element, all_valid = validator(kind.element), _all_valid(kind.element)
    shortest, longest = kind.shortest, sys.maxsize if kind.longest is None else kind.longest

    def validate(value: Any) -> int:
        if type(value) is not list:
            return UNTYPED
        found = VALID if all_valid(value) else max(map(_result, repeat(validate_element), value), default=VALID)
        return found if shortest <= len(value) <= longest else max(found, OUT_OF_RANGE)

    return validate


def _result(validate: _Validator, value: Any) -> int:
    return OUT_OF_RANGE if value is None else validate(value)


def _structure(fields: Sequence[Field]) -> _Validator:
    parts = [(field.name, validator(field.type), field.nullable) for field in fields]

    def validate(value: Any) -> int:
        if type(value) is not dict:
            return UNTYPED
        worst = VALID
        for name, validate_part, nullable in parts:
            part = value.get(name)
            if part is not None:
                found = validate_part(part)
                if found > worst:
                    worst = found
            elif nullable:
                value[name] = None
            elif worst == VALID:
                worst = OUT_OF_RANGE
        return worst

    return validate


def _all_valid(kind: Type) -> Callable[[list[Any]], bool]:
    """Return a fast check whether all elements of a list are valid, without a look at each; False is inconclusive."""
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

    def all_valid(value: list[Any]) -> bool:
        if not value:
            return True
        if set(map(type, value)) != _LIST or set(map(len, value)) != {width}:
            return False
        numbers = list(chain.from_iterable(value))
        return set(map(type, numbers)) == _INT and all(
            min(each := numbers[column::width]) >= minimum and max(each) <= maximum
            for column, minimum, maximum in limits
        )

    return all_valid
