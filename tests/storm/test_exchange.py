"""Two topologies of a real cluster change places, and no tuple is lost."""

from __future__ import annotations

import pytest
from stormwright_lab.exchange import ExchangeResult, run_exchange

from stormwright.schedulers import make_scheduler
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.topologies import parse_submissions

pytestmark = [pytest.mark.storm, pytest.mark.spark, pytest.mark.slow]

#: The spouts are slowed down: what is tested is that it works, on a machine that is busy with other tests.
TOPOLOGIES = ["word-count:name=one,rate=300,workers=1", "word-count:name=other,rate=300,workers=1"]


@pytest.fixture(scope="module")
def result(storm_cluster) -> ExchangeResult:
    settings = DemoSettings(
        cluster=storm_cluster.plan.config,
        submissions=parse_submissions(TOPOLOGIES),
        scheduler=make_scheduler("even"),
        scheduler_name="even",
        warm_up_s=5,
        measure_s=5,
    )
    found = run_exchange(storm_cluster, settings)
    with storm_cluster.gateway() as gateway:
        for name in ("one", "other"):
            gateway.kill(name, 0)
    return found


def test_swap_exchanges_slots_in_one_step(result):
    (step,) = result.plan.steps
    one, other = (move.topology for move in step.moves)
    assert {*result.after[one].slots} == {*result.before[other].slots}
    assert {*result.after[other].slots} == {*result.before[one].slots}
    assert all(topology.report.complete for topology in result.topologies)


def test_no_tuple_is_lost_or_failed(result):
    for topology in result.topologies:
        assert topology.begun > 100
        assert (topology.lost, topology.failed) == (0, 0)
