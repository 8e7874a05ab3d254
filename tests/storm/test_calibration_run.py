"""A calibration's topology on a real cluster: it reports, and is gone afterwards."""

from __future__ import annotations

import socket

import pytest

from stormwright.errors import ClusterError, NimbusError
from stormwright.perflog.records import RejectedLine, parse_lines
from stormwright.workbench import calibration_run
from stormwright.workbench.calibration_run import run_calibration

pytestmark = [pytest.mark.storm, pytest.mark.slow]


def free_port(host: str) -> int:
    with socket.socket() as probing:
        probing.bind((host, 0))
        return int(probing.getsockname()[1])


def test_calibration_records_are_stored_and_topology_is_killed(storm_cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(calibration_run, "WARM_S", 1.0)
    file, host = tmp_path / "records.jsonl", storm_cluster.service_host
    with storm_cluster.gateway() as nimbus:
        run_calibration(storm_cluster.run_topology, nimbus, (host, free_port(host)), file, rate_tps=200, seconds=4)
        left = [each["name"] for each in nimbus.cluster()["topologies"] if each["status"] != "KILLED"]
    assert not [name for name in left if name.startswith("stormwright-calibration")]
    with file.open("rb") as lines:
        records = list(parse_lines(lines))
    assert not [record for record in records if isinstance(record, RejectedLine)]
    # Workers of other tests may look for their service at the same address.
    assert "stormwright-calibration" in {record["worker"]["topology"].rsplit("-", 3)[0] for record in records}


def test_unreachable_calibration_address_is_reported(tmp_path, monkeypatch):
    """The topology is killed all the same."""
    monkeypatch.setattr(calibration_run, "_REPORT_S", 0.1)
    killed = []

    class Nimbus:
        def kill(self, name: str, wait_s: int) -> None:
            killed.append(name)

    with pytest.raises(ClusterError, match="no worker reported within"):
        run_calibration(
            lambda *_: None, Nimbus(), ("127.0.0.1", free_port("127.0.0.1")), tmp_path / "r", rate_tps=1, seconds=1
        )
    assert len(killed) == 1


def test_possibly_submitted_calibration_topology_is_killed(tmp_path):
    killed = []

    class Nimbus:
        def kill(self, name: str, wait_s: int) -> None:
            killed.append(name)
            raise NimbusError("there is no such topology")

    def failing(*_: object) -> None:
        raise ClusterError("not submitted within 120 s")

    with pytest.raises(ClusterError, match="not submitted"):
        run_calibration(failing, Nimbus(), ("127.0.0.1", free_port("127.0.0.1")), tmp_path / "r", rate_tps=1, seconds=1)
    assert len(killed) == 1
