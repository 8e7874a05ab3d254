"""A service's looks at a placement, recorded as the service does."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.policy import DecisionTimes, decide
from stormwright.controller.propose import Plan
from stormwright.controller.requests import NoPlan
from stormwright.history.tables.staging import Staging
from stormwright.model import LoadProfile, Problem, TopologyLoad
from stormwright.schedulers import make_scheduler
from stormwright.schedulers.toolkit.triggers import TriggerParams
from stormwright.service.storage.recorder import Recorder
from tests.controller.builders import on, place, problem, topology

#: 2026-11-20T23:59:00Z: the looks are on two days.
START_MS = 1_795_219_140_000


class Clockwork:
    """The time of day, as a test sets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = START_MS
        monkeypatch.setattr(time, "time", lambda: self.now_ms / 1000)


def cluster(seed: int, end_ms: int) -> Problem:
    """Two topologies spread over three nodes, of which only the first was measured; a load by chance."""
    measured, silent = topology("measured"), topology("silent")
    rng = np.random.default_rng(seed)
    load = TopologyLoad(
        cpu_hz=rng.uniform(1e8, 1e9, 4),
        memory_mb=np.full(4, 128.0),
        pair_source=np.array([0, 0, 0], np.int32),
        pair_target=np.array([1, 2, 3], np.int32),
        pair_tps=rng.uniform(100, 2000, 3),
        flow_source=np.empty(0, np.int32),
        flow_component=np.empty(0, np.int32),
        flow_tps=np.empty(0),
        flow_grouping=(),
    )
    profile = LoadProfile(
        {measured.id: load},
        node_cpu_hz={"n0": 1e9},
        node_quota_hz={"n0": 6e9},
        node_overhead_hz={"n0": 1e8},
        overload_s={"n0": 3.0, "n1": 0.0},
        start_ms=end_ms - 15_000,
        end_ms=end_ms,
    )
    current = {measured.id: on("n0", "n1"), silent.id: on("n2")}
    return problem([measured, silent], current=current, load=profile, slots=3)


def look(observed: Problem, scheduler: str = "online", **settings: Any) -> Plan | NoPlan:
    """A decision that is due."""
    never = DecisionTimes(now_s=1e6, last_change_s=0, last_search_s=0)
    return decide(observed, make_scheduler(scheduler, settings), TriggerParams(), MoveBudget(), never)


def record_looks(directory: Path, clock: Clockwork, count: int) -> list[tuple[int, Problem, Plan | NoPlan]]:
    """Looks a minute apart, as staged by a recorder; the second topology is moved once by somebody else."""
    recorder, found = Recorder(Staging(directory), "online"), []
    for number in range(count):
        observed = cluster(number, clock.now_ms)
        if number >= count // 2:
            observed = observed.with_current({**observed.current, "silent-1-0": place([("n2", 6702)], [0] * 4)})
        recorder.observe(replace(observed, load=None))
        decision = look(observed)
        found.append((recorder.record_decision(observed, decision, dry_run=True), observed, decision))
        clock.now_ms += 60_000
    return found
