"""The demonstration looks back: on a virtual cluster that does worse than predicted, with a real service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from stormwright.model import Problem
from stormwright.predict.costs import Costs
from stormwright.schedulers import make_scheduler
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.simulator.cluster.timings import Timings
from stormwright.simulator.steady_engine import SteadyEngine, SteadySettings
from stormwright.simulator.steady_flows import SteadyFlows
from stormwright.workbench.demo.report import write_html
from stormwright.workbench.demo.result import DemoResult, as_dict, verdicts
from stormwright.workbench.demo.run import LIMITS, demonstrate
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.submissions import parse_submissions
from stormwright.workbench.simulated.cluster import SimulatedCluster, virtual_cluster
from stormwright.workbench.simulated.loads import CountedLoads

#: Of the rate that is predicted, what a topology comes to anywhere but where it was first.
ELSEWHERE = 0.08


def crowded(problem: Problem, offered_tps: Mapping[str, float]) -> SteadyEngine:
    """The engine of the demonstration, but that topologies which move come to much less than predicted."""
    predicted, first = SteadyFlows(problem, Costs()), {}

    def under(now, slots, offered):
        pace, share = predicted.under(now, slots, offered)
        part = np.ones(len(now.topologies))
        for index, topology in enumerate(now.topologies):
            own = slots[now.executors_of(index)]
            if np.all(own >= 0):
                nodes = now.slot_node[own].tolist()
                part[index] = 1.0 if first.setdefault(topology.id, nodes) == nodes else ELSEWHERE
        return pace._replace(begin_tps=part * pace.begin_tps, reach_tps=part * pace.reach_tps), share

    settings = SteadySettings(start_s=Timings().start_s, offered_tps=offered_tps)
    return SteadyEngine(problem, settings, under)


def demonstrated(state: Path, look_back: bool) -> tuple[DemoResult, DemoSettings, Mapping[str, list[str]]]:
    """A demonstration in which loads are counted without Spark; and which placements are refused at its end."""
    settings = DemoSettings(
        cluster=virtual_cluster(3, 6, None, None),
        submissions=parse_submissions(["word-count", "word-count"]),
        scheduler=make_scheduler("optimizer", objective="throughput"),
        scheduler_name="optimizer",
        warm_up_s=20.0,
        look_back=look_back,
    )
    cluster = SimulatedCluster(settings.cluster, settings.submissions, settings.probe_interval_ms, crowded)
    served = ServiceSettings(
        state,
        cluster.service_host,
        cluster.service_port,
        keep_records=True,
        objective=settings.objective,
        limits=LIMITS,
        mode="auto",
        clock=cluster.clock,
    )
    loads = CountedLoads(cluster.storm, every_s=5.0)
    with Service(served, settings.scheduler, "optimizer", cluster.gateway_command(), loads=loads) as service:
        cluster.storm.nimbus.ask = service.bridge.answer
        cluster.storm.deliver = lambda lines: service.intake.count(service.intake.parse(lines))
        return demonstrate(settings, cluster, service), settings, service.status().refused


@pytest.mark.slow
def test_worse_placement_is_rolled_back_without_loss_and_not_retried(tmp_path):
    result, settings, refused = demonstrated(tmp_path, look_back=True)
    found = json.loads(json.dumps(as_dict(result)))
    assert (found["verdict"], found["lost"], result.succeeded, found["improved"]) == ("rolled back", 0, True, False)
    first, second = found["decisions"]
    assert (first["outcome"], first["measured"]["verdict"]) == ("rolled back", "worse")
    assert first["promised_ratio"] > 1.5
    assert first["measured"]["high"] < 1
    assert second["outcome"] == "not moved", "whatever promises no more than what was tried is refused"
    assert sorted(refused) == [topology.id for topology in result.topologies]
    assert [start["decision"] for start in found["trials"]] == [None, 1, None]
    assert found["throughput_ratio"] == pytest.approx(1, abs=0.02), "what runs at the end is where it was"
    assert result.after.placement == result.before.placement
    assert len(found["moves"]) == 4, "both topologies, there and back"
    assert all(move["complete"] for move in found["moves"])
    for topology in found["topologies"]:
        assert topology["begun"] == topology["acked"] > 10_000
        assert topology["longest_time_without_ack_s"] > 0
    write_html(result, settings, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for expected in (*verdicts(result), "Measurements in order", "under even, again"):
        assert expected in page


@pytest.mark.slow
def test_worse_placement_without_look_back_stays_and_is_reported(tmp_path):
    result, _, refused = demonstrated(tmp_path, look_back=False)
    assert (result.verdict, result.lost, result.succeeded) == ("worse", 0, False)
    assert result.throughput_ratio < 0.6
    assert not refused
    assert len(result.moves) == 2
