"""Routes against the model's own traffic, which goes topology by topology."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.model import traffic_under
from stormwright.model.traffic_matrix import scopes_of
from stormwright.predict.flow.layout import FlowLayout
from stormwright.predict.flow.measured import MeasuredTraffic
from stormwright.predict.flow.spread import SpreadFlows, spread
from stormwright.testing.strategies import problems
from tests.examples import examples


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_incremental_flow_spread_equals_the_model(data):
    problem = data.draw(problems(flow_limits=False))
    slots = st.integers(-1, len(problem.slots) - 1)
    placed = np.array(
        data.draw(st.lists(slots, min_size=problem.num_executors, max_size=problem.num_executors)), np.int32
    )
    layout = FlowLayout.of(problem)
    traffic = MeasuredTraffic.of(problem, layout)
    every = np.arange(len(layout.size))  # edges are known by where they go
    flows = SpreadFlows(traffic.flow_source, traffic.flow_target, traffic.flow_local)
    found = spread(scopes_of(problem, placed), layout.executor_component, every, flows)
    size = (problem.num_executors,) * 2
    ours, models = np.zeros(size), np.zeros(size)
    np.add.at(ours, (traffic.pair_source, traffic.pair_target), traffic.pair_tps)
    for flow, (source, tps) in enumerate(zip(traffic.flow_source, traffic.flow_tps, strict=True)):
        amounts = np.where(np.arange(len(traffic.flow_tps)) == flow, tps, 0.0)
        np.add.at(ours, (source, found.member), found.gets * found.lots(amounts))
    expected = traffic_under(problem, placed)
    np.add.at(models, (expected.source, expected.target), expected.tps)
    assert ours == pytest.approx(models)
