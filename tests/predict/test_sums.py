"""Sums and numbers of arrays are what NumPy's own slower ways find."""

from __future__ import annotations

import numpy as np
import pytest

from stormwright.predict.sums import numbered, spans, sums


@pytest.mark.parametrize("most", [50, 10**9])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_keys_are_numbered_in_order(most, count):
    keys = np.random.default_rng(count).integers(0, 50, count)
    for found, wanted in zip(numbered(keys, most), np.unique(keys, return_inverse=True), strict=True):
        assert np.array_equal(found, wanted)


def test_sums_of_several_rows_equal_individual_sums():
    rng = np.random.default_rng(1)
    index, amounts = rng.integers(0, 7, 40), rng.random((2, 3, 40))
    found = sums(index, amounts, 9)
    assert found.shape == (2, 3, 9)
    assert np.array_equal(found, [[sums(index, row, 9) for row in rows] for rows in amounts])
    assert sums(index[:0], amounts[..., :0], 9).tolist() == np.zeros((2, 3, 9)).tolist()


def test_spans_cover_all_elements_of_the_selected_rows():
    first = np.array([0, 2, 2, 5, 6])
    assert spans(first, np.array([0, 1, 3])).tolist() == [0, 1, 5]
    assert spans(first, np.array([], np.int64)).tolist() == []
