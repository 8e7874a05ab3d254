"""Sums in any order, against Python's exact ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormwright.schedulers.placement.partial_placement import addends

AMOUNTS = st.lists(st.floats(0, 1e15), max_size=40) | st.lists(st.floats(0, 1e-300), max_size=5)


@pytest.mark.long
@given(AMOUNTS, st.randoms(use_true_random=False))
def test_exact_sum_is_independent_of_order(amounts, random):
    rounded = addends(np.array(amounts)).tolist()
    exact = math.fsum(rounded)
    for _ in range(3):
        random.shuffle(rounded)
        assert sum(rounded) == exact
        assert sum(sorted(rounded[::2])) == sum(rounded[::2]), "and so has any part of them"
    most = max(amounts, default=0.0) * len(amounts)
    assert np.all(np.abs(addends(np.array(amounts)) - amounts) <= 3e-16 * most)
    assert exact == pytest.approx(math.fsum(amounts), rel=1e-12 * len(amounts), abs=5e-324)


@pytest.mark.parametrize("odd", [[], [0.0, 0.0], [1.0, math.inf], [1.0, math.nan], [1e308, 1e308]])
def test_non_summable_values_are_unchanged(odd):
    assert np.array_equal(addends(np.array(odd)), odd, equal_nan=True)
