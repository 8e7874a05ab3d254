"""One chaos run on the local cluster: submit, start the action, inject faults at the moment, recover, check."""

from __future__ import annotations

import logging
import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from stormwright.controller.move import ACTIVE
from stormwright.errors import ClusterError, NimbusError, StormwrightError
from stormwright_lab.chaos.actions import ForcedPlacement, RunAction
from stormwright_lab.chaos.faults import FaultError, FaultInjector
from stormwright_lab.chaos.finishing import finish_ledgers
from stormwright_lab.chaos.invariants import Invariant, InvariantViolation, RunObservation, WorkerPlace, violations
from stormwright_lab.chaos.lab import ChaosLab, until
from stormwright_lab.chaos.ledger import LedgerViolation
from stormwright_lab.chaos.ledger_workload import LedgerWorkload
from stormwright_lab.chaos.results import RunKey, RunResult
from stormwright_lab.chaos.scenarios import Action, Moment, PlannedFault, Scenario
from stormwright_lab.chaos.watching import AckWatch, MomentWatch, StatusWatch, status_texts

log = logging.getLogger(__name__)

#: Tuples/s and workers of a ledger.
RATE_TPS, WORKERS = 200.0, 3

#: Configuration of its topology.
CONF = {"topology.message.timeout.secs": 10, "stormwright.probe.interval.ms": 500}

#: Longest waits in seconds: for workers and acks at first, the moment, recovery after the last fault, and the end.
_UP_S, _MOMENT_S, RECOVERY_S, _END_S = 90.0, 120.0, 240.0, 40.0


def run_scenario(lab: ChaosLab, scenario: Scenario, moment: Moment, seed: int, directory: Path) -> RunResult:
    """Run a scenario once.

    Parameters
    ----------
    lab
        The cluster; made healthy first.
    scenario, moment, seed
        Faults to inject, moment at which they begin, and seed for the worker to move.
    directory
        Directory of its ledgers; removed if all invariants hold.
    """
    key = RunKey(scenario.name, moment, seed)
    lab.prepare()
    with FaultInjector(lab.cluster, lab.service) as injector:
        if why := next(filter(None, map(injector.why_impossible, scenario.faults)), ""):
            return RunResult(key, scenario, skipped=why)
        run = _Run(lab, scenario, key, injector, directory)
        try:
            result = run.run()
        except StormwrightError as error:
            result = run.result(RunResult(key, scenario, violations=(InvariantViolation(Invariant.ERROR, str(error)),)))
        finally:
            injector.close()
            run.remove_topologies()
    if not result.violations:
        shutil.rmtree(directory, ignore_errors=True)
    return result


class _Run:
    """State of one run.

    Parameters
    ----------
    lab
        Lab whose cluster and service are up and healthy.
    scenario, key
        Faults, move and workload of the run, and the key of its result.
    injector
        Injects the faults of the scenario and undoes them.
    directory
        Directory of its ledgers.
    """

    def __init__(
        self, lab: ChaosLab, scenario: Scenario, key: RunKey, injector: FaultInjector, directory: Path
    ) -> None:
        self._lab, self._scenario, self._key, self._injector = lab, scenario, key, injector
        self._since_s = time.monotonic()
        swaps = scenario.action is Action.SWAP
        self._workloads = [
            LedgerWorkload(
                directory / name,
                scenario.workload,
                f"chaos-{name}",
                RATE_TPS,
                WORKERS,
            )
            for name in (("a", "b") if swaps else ("a",))
        ]
        self._acks = AckWatch({each.directory: each.kind for each in self._workloads})
        rng = random.Random(key.seed)  # noqa: S311 (no secret)
        self._action = RunAction(lab, scenario.action, rng)
        self._ids: dict[str, str] = {}
        self._recovery_s: float | None = None
        self._ended_s: float | None = None
        self._notes: list[str] = []
        self._not_injected: list[str] = []

    def run(self) -> RunResult:
        """Run it; raises ClusterError if it cannot be prepared."""
        self._submit()
        self._action.prepare()
        self._lab.wait_until_restartable()
        client = self._lab.client
        with StatusWatch(lambda: status_texts(client)) as status:
            self._act()
            recovered = self._recover()
            addresses = {node.name: node.address for node in self._lab.cluster.plan.nodes}
            parts = self._action.parts
            namings = tuple(status.naming(each, parts, addresses) for each in self._injector.injected)
        observed = replace(
            self._observe(),
            namings=namings,
            recovered=recovered,
            waited_for="" if recovered else self._missing() or self._in_progress(),
        )
        ledger = self._finish()
        self.remove_topologies()
        observed = replace(observed, ledger=ledger, leftovers=self._leftovers())
        found = RunResult(
            self._key,
            self._scenario,
            recovery_s=self._recovery_s,
            ended_s=self._ended_s,
            violations=tuple(violations(observed)),
            namings=namings,
            plan_state=self._action.states.get(self._action.plan, ""),
        )
        if not found.violations:  # without its faults, a run shows nothing but violations
            found = replace(found, skipped="; ".join(self._not_injected))
        return self.result(found)

    def result(self, found: RunResult) -> RunResult:
        """Return a result with the duration and notes of the run."""
        details = {**found.details, "notes": [*self._notes, *self._not_injected], "starts": self._lab.service.starts}
        return replace(found, seconds=time.monotonic() - self._since_s, details=details)

    def _submit(self) -> None:
        conf = {**CONF, "stormwright.probe.service.url": self._lab.cluster.service_url}
        for each in self._workloads:
            each.directory.mkdir(parents=True, exist_ok=True)
            each.submit(self._lab.cluster, conf)
        names = {each.name for each in self._workloads}

        def submitted() -> bool:
            topologies = self._lab.nimbus.cluster()["topologies"]
            self._ids = {each["name"]: each["id"] for each in topologies if each["name"] in names}
            return len(self._ids) == len(names)

        self._require(submitted, _UP_S, "the ledgers are submitted")
        count = WORKERS * len(names)
        self._require(lambda: len(self._assigned()) == count and self._workers_run(), _UP_S, "all workers run")
        self._require(self._acks.flow, _UP_S, "acks flow")

    def _require(self, reached: Callable[[], bool], limit_s: float, text: str) -> None:
        if not until(reached, limit_s):
            raise ClusterError(f"not reached within {limit_s:g} s: {text}")

    def _workers_run(self) -> bool:
        assigned, running = self._assigned(), self._running()
        return bool(assigned) and sorted(assigned) == sorted(running)

    def _assigned(self) -> list[WorkerPlace]:
        placement = ForcedPlacement.current(self._lab)
        return [
            worker
            for index, topology in enumerate(placement.problem.topologies)
            if topology.id in self._ids.values()
            for worker in placement.workers(index)
        ]

    def _running(self) -> list[WorkerPlace]:
        return [place for place in self._lab.processes.workers() if place.topology in self._ids.values()]

    def remove_topologies(self) -> None:
        """Kill all topologies of the run, and wait until their workers have ended."""
        for each in self._workloads:
            self._lab.kill_topology(each.name)
        until(lambda: not self._running(), _END_S)

    def _act(self) -> None:
        """Start the action, and inject the faults at the moment; a fault may hinder the start."""
        at_first = self._key.moment is Moment.BEFORE
        moments = MomentWatch(self._lab.nimbus, set(self._ids.values()), self._old_worker_runs)
        if not at_first:
            self._require(self._action.start, _MOMENT_S, "the action is started")
            self._require_moment(moments)
        pending = sorted(self._scenario.faults, key=lambda fault: fault.delay_s)
        begin_s = time.monotonic()
        for fault in pending:
            time.sleep(max(0.0, begin_s + fault.delay_s - time.monotonic()))
            self._inject(fault)
        if at_first:
            self._require(self._action.start, _MOMENT_S, "the action is started")

    def _require_moment(self, moments: MomentWatch) -> None:
        moment = self._key.moment
        deadline_s = time.monotonic() + _MOMENT_S
        looked_s = 0.0
        plan = None
        while not moments.reached(moment, plan):
            if time.monotonic() > deadline_s:
                state = plan.state if plan else "unknown"
                raise ClusterError(f"the moment {moment} was not reached within {_MOMENT_S:g} s; the plan is {state}")
            if time.monotonic() > looked_s + 0.3:
                looked_s, plan = time.monotonic(), self._action.show()
            time.sleep(0.01)

    def _old_worker_runs(self) -> bool:
        return self._action.parts.moving in self._lab.processes.workers()

    def _inject(self, fault: PlannedFault) -> None:
        """Inject a fault as soon as its target exists."""
        deadline_s = time.monotonic() + 10.0
        while True:
            try:
                self._injector.inject(fault, self._action.parts)
            except FaultError as error:
                if time.monotonic() > deadline_s:
                    self._not_injected.append(f"{fault} was not injected: {error}")
                    return
                time.sleep(0.05)
            else:
                return

    def _recover(self) -> bool:
        """Wait until acks flow again with nothing paused, then until the plan has ended; return whether both happened.

        A plan that was interrupted moves again after the first of these.
        """
        deadline_s = time.monotonic() + self._scenario.until_s + RECOVERY_S
        counting = False
        while time.monotonic() < deadline_s:
            with suppress(StormwrightError, OSError):
                if not self._injector.in_force:
                    self._action.continue_plan()
                if self._injector.in_force or self._missing():
                    counting = False
                elif not counting:
                    self._acks.restart()
                    self._acks.flow()
                    counting = True
                elif self._acks.flow():
                    since_s = time.monotonic() - (self._injector.passed_s or time.monotonic())
                    self._recovery_s = since_s if self._recovery_s is None else self._recovery_s
                    if not self._in_progress():
                        self._ended_s = since_s
                        return True
            time.sleep(0.3)
        return False

    def _missing(self) -> str:
        """Return why the topologies have not recovered yet; empty if only acks are missing."""
        try:
            statuses = self._lab.statuses()
            paused = [name for name, topology in self._ids.items() if statuses.get(topology) != ACTIVE]
            if paused:
                return f"{', '.join(paused)} are not active"
            if not self._workers_run():
                return "workers do not run where Nimbus has assigned them"
        except (StormwrightError, OSError) as error:
            return str(error)
        return ""

    def _in_progress(self) -> str:
        """Return the state of a plan that is in progress or waits; empty if none does."""
        ended = self._action.has_ended()
        return "" if ended else f"the plan is {self._action.states.get(self._action.plan, 'unknown')}"

    def _observe(self) -> RunObservation:
        plans: dict[str, str] = {}
        with suppress(StormwrightError):
            plans = self._action.clean_up()
        try:
            ids = {topology: name for name, topology in self._ids.items()}
            statuses = {ids[each]: status for each, status in self._lab.statuses().items() if each in ids}
            placement = ForcedPlacement.current(self._lab)
            missing = {name: "gone" for name in self._ids if name not in statuses}
            return RunObservation(
                statuses=statuses | missing,
                assigned=self._assigned(),
                running=self._running(),
                unplaced=placement.unplaced(),
                plans=plans,
            )
        except NimbusError as error:
            return RunObservation(nimbus_error=str(error), plans=plans)

    def _finish(self) -> list[LedgerViolation]:
        """Drain the ledgers, and return the violations that the oracle finds."""
        found = []
        for each, (ledger, its) in zip(self._workloads, finish_ledgers(self._lab.nimbus, self._workloads), strict=True):
            self._notes.append(f"{each.name}: {ledger.emitted:,} numbers, {ledger.acked:,} acked")
            found += its
        return found

    def _leftovers(self) -> list[str]:
        until(lambda: not self._running() and not self._lab.service.orphans(), _END_S)
        workers = [f"worker {place.topology} on {place.node}:{place.port}" for place in self._running()]
        return workers + [f"process {pid} of an earlier service" for pid in self._lab.service.orphans()]
