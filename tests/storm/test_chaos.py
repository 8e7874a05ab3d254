"""A quick chaos run on the session's cluster: a worker and the service are killed in one move."""

from __future__ import annotations

from pathlib import Path

import pytest
from stormwright_lab.chaos.lab import ChaosLab
from stormwright_lab.chaos.results import RunResult
from stormwright_lab.chaos.run import run_scenario
from stormwright_lab.chaos.scenarios import FaultKind, FaultTarget, Moment, PlannedFault, Scenario

from stormwright.storm.local_cluster import RunningCluster

pytestmark = [pytest.mark.storm, pytest.mark.timeout(300), pytest.mark.slow]

BOTH = Scenario(
    "worker-and-service",
    (
        PlannedFault(FaultKind.KILL, FaultTarget.MOVING_WORKER),
        PlannedFault(FaultKind.KILL, FaultTarget.SERVICE, 1.0, delay_s=0.5),
    ),
)


def test_killed_worker_and_service_violate_no_invariant(storm_cluster: RunningCluster, tmp_path: Path) -> None:
    with ChaosLab(tmp_path / "lab", storm_cluster) as lab:
        found: RunResult = run_scenario(lab, BOTH, Moment.PAUSED, 1, tmp_path / "ledgers")
        assert lab.service.starts == 2
    assert found.violations == ()
    assert len(found.namings) == 2
    assert found.recovery_s is not None
    assert lab.leftovers == []
