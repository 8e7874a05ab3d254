"""Exchange of two topologies on a real cluster: pause times and lost tuples."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from stormwright.controller.planning.order import MoveBudget
from stormwright.controller.planning.planner import plan_moves
from stormwright.controller.propose import plan_of
from stormwright.controller.reports import MoveLimits, MoveReport
from stormwright.errors import ClusterError
from stormwright.model import Assignment, Problem, TopologyAssignment
from stormwright.plans.plan import Plan
from stormwright.service.composition import Service
from stormwright.service.settings import ServiceSettings
from stormwright.storm.local_cluster import RunningCluster
from stormwright.workbench.demo.measure import longest_silence_s
from stormwright.workbench.demo.settings import DemoSettings
from stormwright.workbench.demo.steps import FIRST_REPORT_S, finish, snapshot_of, submit

#: Minimum tuple trees that each topology completes before and after.
MIN_TREES = 100

#: Both start at once, on a machine that may be busy with other things.
LIMITS = MoveLimits(swap_s=180.0)


@dataclass(frozen=True)
class TopologyExchange:
    """Result for one of the topologies; tuple trees since it was submitted, times in seconds."""

    name: str
    report: MoveReport
    silence_s: float
    begun: int
    failed: int
    lost: int


@dataclass(frozen=True)
class ExchangeResult:
    """Results of both topologies, and their original placements."""

    topologies: tuple[TopologyExchange, ...]
    plan: Plan
    before: Mapping[str, TopologyAssignment]
    after: Mapping[str, TopologyAssignment]


def run_exchange(cluster: RunningCluster, settings: DemoSettings) -> ExchangeResult:
    """Submit two topologies of equal size and exchange their slots.

    Raises
    ------
    ClusterError
        A topology could not be submitted, or its workers never reported.
    MoveError
        They could not be moved.
    """
    with tempfile.TemporaryDirectory(prefix="stormwright-exchange-") as state:
        service_settings = ServiceSettings(
            Path(state), cluster.service_host, cluster.service_port, keep_records=True, limits=LIMITS, mode="auto"
        )
        gateway = cluster.gateway_command()
        with Service(service_settings, settings.scheduler, settings.scheduler_name, gateway) as service:
            ids = submit(settings, cluster, service)
            time.sleep(settings.warm_up_s)
            _await_trees(service, list(ids.values()))
            before = snapshot_of(service)
            plan = plan_exchange(before, list(ids.values()))
            start_ms = time.time() * 1000
            reports = {report.topology: report for report in service.execute(plan)}
            time.sleep(settings.measure_s)
            _await_trees(service, list(ids.values()))
            end_ms = time.time() * 1000
            after = snapshot_of(service)
            finish(service, list(ids))
            totals = {topology: service.tally.totals(topology) for topology in ids.values()}
            records = service.tally.records()
            topologies = tuple(
                TopologyExchange(
                    name=name,
                    report=reports[topology],
                    silence_s=longest_silence_s(records, topology, start_ms, end_ms),
                    begun=totals[topology].begun,
                    failed=totals[topology].failed,
                    lost=service.tally.unaccounted(topology),
                )
                for name, topology in ids.items()
            )
    return ExchangeResult(topologies, plan, before.current, after.current)


def _await_trees(service: Service, topologies: list[str]) -> None:
    """Wait until tuple trees are completed, which may take a while on a busy machine."""
    already = {topology: service.tally.totals(topology).acked for topology in topologies}
    deadline = time.monotonic() + FIRST_REPORT_S
    while any(service.tally.totals(topology).acked < acked + MIN_TREES for topology, acked in already.items()):
        if time.monotonic() > deadline:
            raise ClusterError(f"fewer than {MIN_TREES} tuple trees were completed within {FIRST_REPORT_S:g} s")
        service.tally.wait(1.0)


def plan_exchange(problem: Problem, topologies: list[str]) -> Plan:
    """Return a plan by which two topologies (ids) exchange slots, as if the cluster had no others."""
    runs = [problem.current[topology] for topology in topologies]
    if len(runs) != 2 or len(runs[0].slots) != len(runs[1].slots):
        raise ClusterError("an exchange requires two topologies with equal numbers of workers")
    used = {slot for run in runs for slot in run.slots}
    full = replace(
        problem,
        supervisors=tuple(
            replace(node, ports=tuple(port for port in node.ports if (node.id, port) in used))
            for node in problem.supervisors
        ),
    )
    wanted = full.current_slot.copy()
    for topology, there in zip(topologies, reversed(runs), strict=True):
        own = full.executors_of(full.topology_index[topology])
        slots = [full.slot_index[slot] for slot in there.slots]
        wanted[own] = np.array(slots, dtype=np.int32)[list(problem.current[topology].slot_of_executor)]
    order = plan_moves(full, Assignment(wanted), MoveBudget())
    return plan_of(problem, order).model_copy(update={"reason": "to change places"})
