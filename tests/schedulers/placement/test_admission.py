"""Admission: what no placement has room for is reported before one is tried."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormwright.schedulers import make_scheduler
from stormwright.schedulers.placement.admission import admit, find_wanted_workers
from stormwright.schedulers.placement.partial_placement import PartialPlacement
from stormwright.testing import oracles
from tests.examples import examples
from tests.schedulers.builders import load, nodes, problem, topology


def test_worker_too_large_for_any_node_is_rejected_by_admission():
    of = problem(nodes(1.5, 1.5, 1.5), (topology("t", 5, 2), load(5, cpu_ghz=[1.0, 0.5, 0.7, 0.6, 1.0])))
    answer = make_scheduler("online").schedule(of)
    why = "a worker has at least 3 of 5 executors: CPU short by at least 0.3 GHz on the largest usable node"
    assert answer.status == {"t": f"online: {why}"}
    placement = PartialPlacement.empty(of, of.node_usable)
    assert len(admit(placement, find_wanted_workers(placement, keep_running=True), soft_cpu=True)) == 1


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(
    cpu_tenths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    memory_mb=st.lists(st.integers(1, 9), min_size=5, max_size=5),
    workers=st.integers(1, 3),
    ghz=st.lists(st.integers(5, 15), min_size=2, max_size=3),
)
def test_admission_accepts_every_feasible_topology(cpu_tenths, memory_mb, workers, ghz):
    count = len(cpu_tenths)
    demand = load(count, cpu_ghz=np.array(cpu_tenths) / 10, memory_mb=np.array(memory_mb[:count], float))
    of = problem(nodes(*(n / 10 for n in ghz), ports=2, memory_mb=20.0), (topology("t", count, workers), demand))
    placement = PartialPlacement.empty(of, of.node_usable)
    if not admit(placement, find_wanted_workers(placement, keep_running=True)):
        assert not any(oracles.is_valid(of, slots) for slots in product(range(len(of.slots)), repeat=count))
