"""One cell of an experiment on a real cluster."""

from __future__ import annotations

import tempfile

import pytest
from stormwright_lab.evaluations.cell_store import CellStore
from stormwright_lab.evaluations.cells import quick_cells
from stormwright_lab.evaluations.lab.cluster import ClusterLab, cores_of
from stormwright_lab.evaluations.papers import PAPERS
from stormwright_lab.evaluations.placing import placement_of
from stormwright_lab.evaluations.run import run_cells

from stormwright.storm.local_cluster import why_no_cpu_limits

pytestmark = [pytest.mark.storm, pytest.mark.slow, pytest.mark.timeout(900)]


def test_experiment_cell_is_measured_and_provides_load_for_others(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if reason := why_no_cpu_limits(cores_of("steady")):
        pytest.skip(reason)
    first, second = quick_cells(PAPERS["adaptive"])
    store = CellStore(tmp_path / "cells.jsonl")
    assert run_cells([first], store, ClusterLab) == 0, store.errors
    found = CellStore(tmp_path / "cells.jsonl").found[first.key]
    assert min(found.figures["acked_tps"]) > 0
    assert found.rate_tps > 0
    assert found.problem is not None
    assert sum(map(len, placement_of(second, found))) == sum(map(len, found.placement))
