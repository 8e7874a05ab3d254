"""Drains: what leaves a host, and what stays with the reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stormwright.controller.safety.evacuation import propose_evacuation
from stormwright.errors import ConflictError
from stormwright.model import Assignment, LoadProfile, Problem
from stormwright.model.load import assumed_load
from tests.controller.builders import on, problem, topology

T = topology("t")


class Together:
    """Places everything in the worker that stays."""

    def schedule(self, of: Problem) -> Assignment:
        return Assignment(np.full(of.num_executors, 2, np.int32))


@pytest.mark.parametrize(("live_mb", "leaves"), [(30.0, True), (90.0, False)])
def test_worker_leaves_only_if_its_executors_fit_a_heap_elsewhere(live_mb: float, leaves: bool) -> None:
    """A fixed heap of 300 MB for two executors, and then for four."""
    own = replace(T, conf={"topology.worker.childopts": "-Xmx300m"})
    load = replace(assumed_load(own, 3e9), live_heap_mb=np.full(4, live_mb))
    now = problem([own], current={T.id: on("n0", "n1")}, load=LoadProfile({T.id: load}, start_ms=0, end_ms=1000))
    if leaves:
        found = propose_evacuation(now, Together(), ["host0"], "traffic")
        assert now.slot_node[found.slots].tolist() == [1, 1, 1, 1]
    else:
        with pytest.raises(ConflictError, match="t: heap of host1:6700: 300 MB, too small for 392 MB in use"):
            propose_evacuation(now, Together(), ["host0"], "traffic")
