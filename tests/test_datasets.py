"""The archive of measured placements: its parts agree with each other, and with the model."""

from __future__ import annotations

import numpy as np
import pytest

import stormwright as sw
from stormwright.errors import InputError


@pytest.fixture(scope="module")
def cells():
    return sw.datasets.placements()


def test_the_baseline_is_the_mean_over_starts(cells):
    means = cells.to_frame().groupby(["experiment", "block", "variant"]).acked_tps.mean()
    baseline = cells.baseline()
    baseline = baseline[baseline.figure == "acked_tps"].set_index(["experiment", "block", "variant"])
    assert len(means) == len(baseline) > 40
    np.testing.assert_allclose(baseline["mean"][means.index], means)


@pytest.mark.long
def test_placements_are_whole_and_the_records_are_those_of_their_workers(cells):
    for cell in (cells[0], cells[len(cells) // 2], cells[-1]):
        slots = cell.assignment.slot_of_executor
        assert len(slots) == cell.problem.num_executors
        workers = cell.records().to_pandas().worker
        assert {worker["port"] for worker in workers} == {cell.problem.slots[slot].port for slot in slots}


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    path = tmp_path / "nothing.zip"
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="no archive of measured placements"):
        sw.datasets.placements(path)
