"""The main job from end to end on a virtual cluster, with the pipeline that a real one has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stormwright.workbench.simulated.cluster import virtual_cluster


@pytest.mark.spark
def test_the_whole_main_job_without_storm(tmp_path: Path) -> None:
    options = ["--warm-up", "5", "--measure", "15", "--output", str(tmp_path), "--json"]
    options += ["--topology", "word-count", "--topology", "word-count", "--cores-per-node", "0.4"]
    # In a process of its own: it starts Spark, and ends it, and other tests share theirs.
    command = [sys.executable, "-m", "stormwright", "demo", "--simulated", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["simulated"].startswith("Simulated in virtual time, tuple by tuple")
    assert result["lost"] == 0
    assert result["throughput_ratio"] > 1.5
    assert len(result["moves"]) == 2, "both topologies, in one decision"
    assert all(move["complete"] for move in result["moves"])
    assert (result["verdict"], [start["verdict"] for start in result["trials"]]) == ("better", [None, "better"])
    for topology in result["topologies"]:
        assert topology["begun"] == topology["acked"] > 10_000
        # The promise was made by what the pipeline measured, and fitted; what came of it by what is simulated.
        assert topology["before"]["acked_tps"] == pytest.approx(
            topology["before"]["predicted"]["acked_tps"]["value"], rel=0.1
        )
    page = (tmp_path / "report.html").read_text()
    assert "Placement before and after, simulated" in page
    assert "queues, threads, links, losses and replays are followed" in page


def test_a_virtual_cluster_is_the_same_whatever_this_machine_has() -> None:
    config = virtual_cluster(4, 3, None, None)
    assert (config.nodes, config.slots, config.link, config.cores_per_node) == (4, 3, "25mbit", 0.4)
    assert virtual_cluster(3, 3, None, None).cores_per_node == pytest.approx((0.6, 0.35, 0.25))
    assert virtual_cluster(4, 3, "1gbit", 0.0).declared == (2.0,) * 4
