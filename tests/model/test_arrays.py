"""Arrays of the model: read-only, and of one type or refused."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.model.arrays import frozen, frozen_ints


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**62])
@pytest.mark.parametrize("given", [np.int64, list])
def test_out_of_range_integer_raises_overflow_error(value, given):
    values = [0, value] if given is list else np.array([0, value], given)
    with pytest.raises(OverflowError, match=rf"from -2,147,483,648 to 2,147,483,647 \(int32\), got {value:,}"):
        frozen(values, np.int32)
    with pytest.raises(OverflowError, match="int32"):
        frozen_ints(values)


def test_boundary_integers_of_target_type_are_accepted():
    ends = [2**31 - 1, -(2**31)]
    assert frozen(np.array(ends), np.int32).tolist() == ends
    assert frozen(np.array([2**31 - 1], np.uint64), np.int32).tolist() == [2**31 - 1]
    with pytest.raises(OverflowError, match="got 18,446,744,073,709,551,615"):
        frozen(np.array([2**64 - 1], np.uint64), np.int32)


def test_owned_array_is_frozen_without_copy():
    mine = np.zeros(3, np.int32)
    assert frozen(mine, np.int32, own=True) is mine
    assert not mine.flags.writeable
    others = np.zeros(3, np.int32)
    assert frozen(others, np.int32) is not others
    assert others.flags.writeable
