"""What is stored of a look."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stormwright.history.tables.staging import Staging
from stormwright.service.storage.recorder import Recorder
from tests.history.recorded import START_MS, cluster, look


@pytest.mark.long
def test_recorded_decision_omits_predictions_of_unmoved_topologies(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """In a large cluster it is much; what a move promises is noted with the move."""
    rows: list[dict[str, Any]] = []
    recorder, observed = Recorder(Staging(tmp_path), "optimizer"), cluster(0, START_MS)
    monkeypatch.setattr(recorder, "_write", lambda _, __, row: rows.append(row))
    decision = look(observed, "optimizer", objective="throughput", iterations=100)
    assert decision.search is not None
    assert "predicted" in decision.search.parameters
    recorder.record_decision(observed, decision, dry_run=True)
    stored = [json.loads(row["parameters"]) for row in rows if "parameters" in row]
    assert [each["objective"] for each in stored] == ["throughput"]
    assert "predicted" not in stored[0]
