"""Steps of a demonstration on a cluster with a service: submit, measure, decide, move, finish."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stormwright.controller.draining import Draining, drain
from stormwright.controller.objectives.outlook import TRAFFIC, Outlooks
from stormwright.controller.reports import MoveReport
from stormwright.controller.requests import NoPlan
from stormwright.defaults import BASELINE
from stormwright.errors import ClusterError, MoveError
from stormwright.model import Problem, TopologyAssignment, WorkerSlot
from stormwright.plans.plan import Origin, Plan, Promise
from stormwright.schedulers.toolkit.triggers import TriggerParams
from stormwright.service.composition import Service
from stormwright.workbench.demo.cluster import DemoCluster
from stormwright.workbench.demo.measure import (
    NodeMeter,
    compiler_share,
    measure,
    move_period,
    ran_s,
    wait_until_as_warm,
    with_node_names,
    with_worker_cores,
)
from stormwright.workbench.demo.promise import PlacementPromise, cpu_us_per_tree, promise
from stormwright.workbench.demo.settings import DemoSettings, MeasuredStart, MeasuredStretch
from stormwright.workbench.demo.trials import CpuCorrection, DecidedPlacement

log = logging.getLogger(__name__)

#: Seconds within which all workers of a new topology report, also on a machine that is busy with other things.
FIRST_REPORT_S = 180.0

#: Seconds within which the pipeline measures a load, within which nothing older is to be in it, and within which costs
#: are fitted: while compilers take much of the CPU, nothing can be.
LAST_LOAD_S, WHOLLY_S, FITTED_S = 180.0, 45.0, 75.0

#: Seconds after which a tuple tree that is still pending is lost: more than twice Storm's message timeout.
LAST_DRAIN_S = 75.0

#: Seconds between checks of the cluster during measurements: costs are fitted to the records meanwhile.
OBSERVE_S = 5.0

#: Minimum predicted gain in percent for a trial.
MIN_GAIN_PERCENT = 5.0


def submit(settings: DemoSettings, cluster: DemoCluster, service: Service) -> dict[str, str]:
    """Submit the topologies and return ids by name, once every executor reports."""
    for submission in settings.submissions:
        log.info("submitting %s", submission.name)
        conf = {
            "stormwright.probe.service.url": cluster.service_url,
            "stormwright.probe.interval.ms": settings.probe_interval_ms,
        }
        cluster.run_topology(submission.main_class, submission.arguments(), conf)
    wanted = {submission.name for submission in settings.submissions}
    clock = service.settings.clock
    deadline = clock.monotonic() + FIRST_REPORT_S
    while clock.monotonic() < deadline:
        snapshot = service.bridge.snapshot()
        running = [t for t in snapshot.topologies if t.name in wanted and _reports(service, t.id)] if snapshot else []
        if len(running) == len(wanted):
            log.info("all workers report")
            return {topology.name: topology.id for topology in running}
        service.tally.wait(1.0)
    raise ClusterError(f"not every worker of {', '.join(sorted(wanted))} reported within {FIRST_REPORT_S:g} s")


def _reports(service: Service, topology_id: str) -> bool:
    placement = snapshot_of(service).current.get(topology_id)
    return placement is not None and all(
        service.tally.reports(topology_id, slot.supervisor, slot.port, frozenset(), 0.0) for slot in placement.slots
    )


def measured_problem(service: Service, since_ms: float) -> Problem:
    """Return the problem with a load measured since then; the pipeline may lag on a busy machine.

    It takes one of which nothing was measured before, and for which costs were fitted; after `WHOLLY_S` seconds also
    another one.

    Raises
    ------
    ClusterError
        There is none within `LAST_LOAD_S` seconds.
    """
    clock = service.settings.clock
    begin = clock.monotonic()
    while (waited_s := clock.monotonic() - begin) < LAST_LOAD_S:
        problem = service.decider.observe()
        if problem is not None and problem.load is not None:
            wholly, partly = problem.load.start_ms >= since_ms, problem.load.end_ms > since_ms
            fitted = service.settings.objective == TRAFFIC or not service.unfitted(problem)
            if (wholly and fitted) or (partly and waited_s > (WHOLLY_S if fitted else FITTED_S)):
                return problem
        clock.sleep(0.5)
    progress = service.stream.progress()
    why = (
        progress["error"] or f"its last batch took {(progress['batch_ms'] or 0) / 1000:.0f} s: is the machine too busy?"
    )
    raise ClusterError(f"the pipeline has measured no load within {LAST_LOAD_S:g} s: {why}")


def snapshot_of(service: Service) -> Problem:
    """Return the newest snapshot of the cluster.

    Raises
    ------
    ClusterError
        Nimbus has not requested a placement yet.
    """
    snapshot = service.bridge.snapshot()
    if snapshot is None:
        raise ClusterError("Nimbus has not requested a placement yet")
    return snapshot


def finish(service: Service, names: list[str]) -> None:
    """Pause all spouts and let every tuple tree end; trees pending after that are lost."""
    log.info("pausing all spouts to count every tuple")
    snapshot = snapshot_of(service)
    running = [topology for topology in snapshot.topologies if topology.name in names]
    paused = [Draining(each.id, each.name, snapshot.current[each.id].slots) for each in running]
    drain(paused, service.nimbus, service.tally, LAST_DRAIN_S)


@dataclass(frozen=True)
class _Decision:
    """Problem with its load at a decision, the wanted placement, and its promises."""

    problem: Problem
    placement: Mapping[str, TopologyAssignment]
    promises: Mapping[str, Promise]


class ClusterStage:
    """Measurements, decisions and moves on a cluster, real or virtual: a `TrialStage`.

    Parameters
    ----------
    settings
        Size and duration of the demonstration, with its topologies.
    cluster, service
        Running cluster and service.
    ids
        Name of each topology → its id.

    Attributes
    ----------
    moves
        Every move, in order.
    moving
        Periods in which topologies moved and restarted, in ms since 1970.
    first_problem
        Problem before the first decision, with its measured load.
    """

    first_problem: Problem

    def __init__(self, settings: DemoSettings, cluster: DemoCluster, service: Service, ids: Mapping[str, str]) -> None:
        self._settings, self._cluster, self._service, self._ids = settings, cluster, service, ids
        self._clock = service.settings.clock
        self.moves: list[MoveReport] = []
        self.moving: list[tuple[float, float]] = []
        self._moving_ms: float | None = None
        self._starts: list[MeasuredStart] = []
        self._share: float | None = None
        self._arrived: dict[str, tuple[WorkerSlot, ...]] = {}
        self._decided: dict[int, _Decision] = {}

    def measure(self, trial: int) -> MeasuredStart:
        """Wait until the placement of a trial is warm, and measure it.

        Before the first measurement that takes `DemoSettings.warm_up_s`; before the others until workers are as warm as
        they were then.
        """
        settings, tally, phase = self._settings, self._service.tally, self._phase(trial)
        if self._starts:
            log.info("%s: waiting until the workers are as warm as they were", phase)
            # What Nimbus showed last may be from before the move.
            slots = {**self._slots(), **self._arrived}
            wait_until_as_warm(tally, slots, self._starts[0].stretch.ran_s, self._share, settings.warm_up_s)
        else:
            log.info("%s: warming up for %g s", phase, settings.warm_up_s)
            self._let_run(settings.warm_up_s)
        stretch = self._stretch(phase)
        if not self._starts:
            records = tally.records()
            self._share = compiler_share(r for r in records if stretch.start_ms <= r["start_ms"] < stretch.end_ms)
        if self._moving_ms is not None:
            self.moving.append(move_period(self._moving_ms, stretch.span_ms, settings.warm_up_s))
            self._moving_ms = None
        # Before anything moves, so that no fit is to records of two placements.
        self._service.decider.observe(fit=True)
        records = tally.records()
        runs = {topology: measure(records, topology, *stretch.span_ms) for topology in self._ids.values()}
        self._starts.append(MeasuredStart(trial, dict(snapshot_of(self._service).current), stretch, runs))
        return self._starts[-1]

    def decide(self, trial: int) -> DecidedPlacement:
        """Decide once, by the newest load and costs.

        Raises
        ------
        ClusterError
            No load was measured.
        """
        problem = measured_problem(self._service, since_ms=self._starts[-1].stretch.start_ms)
        problem = with_node_names(problem, self._cluster)
        if not self._decided:
            self.first_problem = problem
        log.info("deciding with %s", self._settings.scheduler_name)
        triggers = TriggerParams(period_s=0, cool_down_s=0, min_gain_percent=MIN_GAIN_PERCENT)
        decision = self._service.decide(triggers, self._settings.adapts)
        log.info(decision.reason)
        wanted, promises = dict(problem.current), dict[str, Promise]()
        if isinstance(decision, Plan):
            wanted, promises = {**problem.current, **decision.targets}, decision.promises
        self._decided[trial] = _Decision(problem, wanted, promises)
        now, then = (self.promised(problem, placement) for placement in (problem.current, wanted))
        return DecidedPlacement(decision, now, then)

    def act(self, plan: Plan) -> None:
        """Make the moves of a plan; raises as `Service.execute`."""
        self._moving_ms = self._clock.time() * 1000
        made = self._service.execute(plan)
        self.moves += made
        complete = all(move.complete for move in made)
        self._arrived = {topology: after.slots for topology, after in plan.targets.items() if complete}

    def place(self, placements: Mapping[str, TopologyAssignment], reason: str, promises: Mapping[str, Promise]) -> None:
        """Move topologies to given placements; raises as `Decider.place` and `Service.execute`."""
        log.info("moving %s", reason)
        self._place(placements, reason, promises, "service")

    def roll_back(self, trial: int, placements: Mapping[str, TopologyAssignment], reason: str) -> None:
        """Move topologies back from the placement of a trial, which is refused from now on.

        So is what promises no more, by the costs that are known by now: where its measurement has corrected them, other
        placements may well promise more than it does. It raises what `place` raises.
        """
        log.info("rolling back: %s", reason)
        now, decided = self._with_fitted_costs(trial), self._decided[trial]
        worth = Outlooks(now, self._settings.objective).of(now.with_current(decided.placement).current_slot).worth
        tried = {
            topology: replace(decided.promises.get(topology, Promise()), worth=worth.get(topology))
            for topology in placements
        }
        self._place(placements, reason, tried, "rollback")

    def _place(
        self,
        placements: Mapping[str, TopologyAssignment],
        reason: str,
        promises: Mapping[str, Promise],
        origin: Origin,
    ) -> None:
        found = self._service.decider.place(placements, reason, promises, origin)
        if isinstance(found, NoPlan):
            raise MoveError(f"{reason}: {found.reason}")
        self.act(found)

    def correction(self, trial: int, start: MeasuredStart) -> CpuCorrection | None:
        """Return the correction of a trial's placement by the newest costs; None if CPU is unknown."""
        predicted, corrected = (
            cpu_us_per_tree(problem, self.promised(problem, start.placement))
            for problem in (self._decided[trial].problem, self._with_fitted_costs(trial))
        )
        cores = [use.cores for use in start.stretch.nodes.values() if use.cores is not None]
        if predicted is None or corrected is None or not cores or not start.acked_tps:
            return None
        return CpuCorrection(predicted, corrected, 1e6 * sum(cores) / start.acked_tps)

    def _with_fitted_costs(self, trial: int) -> Problem:
        """Return the problem of a decision with the newest costs."""
        then, now = self._decided[trial].problem, self._service.problem()
        if then.load is None or now is None or now.load is None:
            return then
        return then.with_load(replace(then.load, costs=now.load.costs))

    def promised(self, problem: Problem, placement: Mapping[str, TopologyAssignment]) -> PlacementPromise:
        """Return the prediction for a placement, with the spout rates of the submissions."""
        rates = {self._ids[each.name]: float(each.args.get("rate", 0)) for each in self._settings.submissions}
        return promise(problem, placement, {topology: rate for topology, rate in rates.items() if rate})

    def _phase(self, trial: int) -> str:
        if not trial:
            return f"before, under {BASELINE}" if not self._starts else f"where {BASELINE} put everything, again"
        number = f", decision {trial}" if self._settings.look_back else ""
        return f"after, under {self._settings.scheduler_name}{number}"

    def _let_run(self, seconds: float) -> None:
        """Let time pass while costs are fitted as in a service."""
        end_s = self._clock.monotonic() + seconds
        while (left_s := end_s - self._clock.monotonic()) > 0:
            self._clock.sleep(min(left_s, OBSERVE_S))
            self._service.decider.observe()

    def _stretch(self, phase: str) -> MeasuredStretch:
        """Let everything run for a while, and measure it."""
        log.info("%s: measuring for %g s", phase, self._settings.measure_s)
        start_ms, meter = self._clock.time() * 1000, NodeMeter(self._cluster, self._clock)
        ran = ran_s(self._service.tally.records(), self._slots(), start_ms)
        self._let_run(self._settings.measure_s)
        end_ms, used = self._clock.time() * 1000, meter.use()
        hosts = {node.name: node.address for node in self._cluster.plan.nodes}
        nodes = with_worker_cores(used, hosts, self._service.tally.records(), start_ms, end_ms)
        return MeasuredStretch(start_ms, end_ms, ran, nodes)

    def _slots(self) -> Mapping[str, Sequence[WorkerSlot]]:
        """Return the slots of these topologies' workers; a cluster may have others."""
        current = snapshot_of(self._service).current
        return {topology: placed.slots for topology, placed in current.items() if topology in self._ids.values()}
