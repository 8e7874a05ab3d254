"""Which numbers are amounts: of a resource, of a load, of a rate."""

from __future__ import annotations

from typing import TypeGuard

#: The largest amount that is taken: far beyond any machine, and sums and products of such stay finite.
MOST_AMOUNT = 1e18

#: What a value that `is_amount` refuses should be.
AMOUNT_WANTED = "should be a number from 0 to 1e18"


def is_amount(value: object) -> TypeGuard[float]:
    """Whether a value, as it came out of JSON or YAML, is a number from 0 to `MOST_AMOUNT`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_AMOUNT
