"""Composition root of the service: five subsystems, each with its builder.

::

    Nimbus ◀─▶ bridge ─▶ view ─▶ decider ─▶ executor ─▶ Nimbus
    probes ─▶ intake ─▶ landing ─▶ stream ─▲   ▲   (drain, swap, resume: measured by the tally)
    people ─▶ plan service ─▶ stored plans ────┘
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from stormwright.client.shapes import ModesChange
from stormwright.controller.live_heaps import LiveHeaps
from stormwright.controller.move import REBALANCING, Mover, Nimbus
from stormwright.controller.objectives.refusals import RefusedPlacements
from stormwright.controller.reports import MoveReport
from stormwright.controller.requests import NoPlan
from stormwright.controller.safety.pauses import Pauses
from stormwright.controller.serialization import Serialization
from stormwright.controller.tally import Tally
from stormwright.defaults import DEFAULT_SCHEDULER, REPAIR_SCHEDULER
from stormwright.explain.obstacles import status_texts
from stormwright.history.tables.ingest import ClosedPanes
from stormwright.model import Problem
from stormwright.perflog.columns import RecordLanding
from stormwright.pipeline.monitoring.alarm_log import Alarm
from stormwright.pipeline.streaming.progress import with_names
from stormwright.pipeline.streaming.stream import LoadStream
from stormwright.plans.plan import Plan, Step
from stormwright.schedulers import Scheduler
from stormwright.schedulers.optimizer import without_caution
from stormwright.schedulers.toolkit.registry import cpu_percent
from stormwright.schedulers.toolkit.resolve import scheduler_keeping_running
from stormwright.schedulers.toolkit.traits import warm_up
from stormwright.schedulers.toolkit.triggers import ONLINE, Adaptation, TriggerParams
from stormwright.service.auth.audit import FILE as AUDIT
from stormwright.service.auth.middleware import AuthMiddleware
from stormwright.service.dashboard.site import Site
from stormwright.service.dashboard.sources import Sources
from stormwright.service.dashboard.state import DashboardState
from stormwright.service.dashboard.trials import Trials
from stormwright.service.decider import Decider
from stormwright.service.health.monitor import HealthMonitor
from stormwright.service.health.workers import WorkerReports
from stormwright.service.http.api import api_routes
from stormwright.service.http.app import make_app
from stormwright.service.http.metrics import Figures
from stormwright.service.http.server import HttpServer
from stormwright.service.intake import Intake
from stormwright.service.leader_election.leadership import LeaderOnlyNimbus
from stormwright.service.loads import Loads
from stormwright.service.loop import Loop
from stormwright.service.memory import ServiceMemory
from stormwright.service.notifications.hook_program import FailureHook
from stormwright.service.notifications.notifier import Notifier, ServiceEvent, Target
from stormwright.service.plans.executor import PlanExecutor
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.move_runner import MakeStep, MoveRunner
from stormwright.service.plans.outcomes import MoveOutcomes
from stormwright.service.plans.plan_service import PlanMakers, PlanService
from stormwright.service.plans.scheduler_wrappers import with_memory
from stormwright.service.plans.store import PlanExpiry, PlanStore
from stormwright.service.plans.tunings import TuningStorage
from stormwright.service.safety.anomalies import AnomalyMonitor, EventNotifier, SlowNodeMonitor
from stormwright.service.safety.move_budget import MoveBudgetKeeper
from stormwright.service.safety.trial_budget import TrialBudget
from stormwright.service.settings import ServiceSettings
from stormwright.service.status import ServiceStatus
from stormwright.service.storage.calibration import CostCalibration
from stormwright.service.storage.damage import set_aside_damaged
from stormwright.service.storage.database import FILE, State
from stormwright.service.storage.forecasts import ForecastStore
from stormwright.service.storage.history import ServiceHistory
from stormwright.service.view import View
from stormwright.storm.bridge import Bridge
from stormwright.storm.gateway import NimbusGateway

log = logging.getLogger(__name__)

#: Seconds that the initial scheduler has for its first call, which may compile, before the service goes on without it.
WARM_UP_S = 60.0


@dataclass(frozen=True)
class Storage:
    """State that survives a restart: the database, its damaged rows as texts, and its contents."""

    state: State
    damaged: Sequence[str]
    plans: PlanStore
    journal: Journal
    history: ServiceHistory
    costs: CostCalibration
    pauses: Pauses
    refused: RefusedPlacements
    budget: MoveBudgetKeeper


def open_storage(settings: ServiceSettings, scheduler_name: str) -> Storage:
    """Open the database in the state directory, and replicate it if the service has been elected."""
    clock, state = settings.clock, State(settings.state_dir / FILE, settings.clock)
    settings.leadership.start(state)
    damaged = set_aside_damaged(state)
    journal = Journal(state)
    return Storage(
        state=state,
        damaged=damaged,
        plans=PlanStore(state),
        journal=journal,
        history=ServiceHistory(
            settings.history, settings.state_dir, state, scheduler_name, journal.record_evaluation, clock
        ),
        costs=CostCalibration(state.document("costs", replicated=False), clock),
        pauses=Pauses(state.document("paused")),
        refused=RefusedPlacements(state.document("refused")),
        # The move that was just made is the first one in the journal.
        budget=MoveBudgetKeeper(state, settings.budget, lambda: journal.pauses()[1:], settings.budget_adapts),
    )


@dataclass(frozen=True)
class MeasurementParts:
    """The path of records: landing directory, live counts, and the stream of loads."""

    tally: Tally
    heaps: LiveHeaps
    slow_nodes: SlowNodeMonitor
    stream: Loads
    intake: Intake
    workers: WorkerReports
    serialization: Serialization


def build_measurement(
    settings: ServiceSettings,
    storage: Storage,
    overload_percent: float,
    on_alarm: Callable[[Alarm], None],
    loads: Loads | None,
) -> MeasurementParts:
    """Build the way of records.

    Parameters
    ----------
    settings, storage
        Settings and storage of the service.
    overload_percent
        CPU of a node, in percent of its capacity, from which it counts as overloaded.
    on_alarm
        Called with each alarm of the stream.
    loads
        Source of loads that replaces the stream; None for the stream.
    """
    directory, clock = settings.state_dir, settings.clock
    tally, slow = Tally(keep_records=settings.keep_records, clock=clock), SlowNodeMonitor()
    heaps, workers, serialization = LiveHeaps(clock), WorkerReports(clock), Serialization()
    landing = RecordLanding(directory / "landing", clock)
    stream_settings = settings.stream_of(storage.costs.core_hz, overload_percent)
    costs = None if loads else storage.costs
    watchers = (slow.count, heaps.count, workers.count, serialization.count)
    intake = Intake(landing, tally, storage.history, costs, watchers, stream_settings.late_s, clock)
    stream = loads or LoadStream(
        landing.directory,
        directory / "stream",
        stream_settings,
        history=ClosedPanes(storage.history.staging),
        on_alarm=on_alarm,
        on_landed=intake.count,
    )
    return MeasurementParts(tally, heaps, slow, stream, intake, workers, serialization)


@dataclass(frozen=True)
class ClusterParts:
    """The view of the cluster: Nimbus's requests and snapshots, under the newest load, and its health."""

    bridge: Bridge
    view: View
    failures: FailureHook
    health: HealthMonitor


def build_cluster(
    settings: ServiceSettings, storage: Storage, measurement: MeasurementParts, guard: Guard, *, forecasts: bool
) -> ClusterParts:
    """Build the view of the cluster.

    Parameters
    ----------
    settings, storage, measurement
        Settings and subsystems of the service.
    guard
        Guard that reports which nodes are drained.
    forecasts
        Whether the scheduler uses forecasts.
    """
    initial = scheduler_keeping_running(settings.initial, settings.rules)
    failures, drained = FailureHook(settings.on_failure), guard.drains.on
    bridge = Bridge(
        initial, settings.initial, failures.update, status_texts, settings.clock, drained, settings.leadership.require
    )
    minutes = settings.state_dir / "minutes.arrow"
    forecasting = ForecastStore(minutes, settings.forecast_min, settings.clock) if forecasts else None
    heaps, serialization = measurement.heaps, measurement.serialization
    view = View(bridge, measurement.stream, storage.costs, forecasting, drained, heaps, serialization)
    health = HealthMonitor(
        measurement.workers,
        bridge.snapshot,
        measurement.stream.age_s,
        lambda: measurement.intake.storing_error,
        guard.holds.names.of,
        settings.clock,
    )
    return ClusterParts(bridge, view, failures, health)


@dataclass(frozen=True)
class Control:
    """Decisions and plans."""

    decider: Decider
    runner: MoveRunner
    executor: PlanExecutor
    plan_service: PlanService
    anomalies: AnomalyMonitor
    loop: Loop


def build_control(
    settings: ServiceSettings,
    scheduler: Scheduler,
    trial_scheduler: Scheduler | None,
    scheduler_name: str,
    makers: PlanMakers,
    storage: Storage,
    measurement: MeasurementParts,
    view: View,
    guard: Guard,
    memory: ServiceMemory,
    move: MakeStep,
    notify: Callable[[ServiceEvent], None],
    resume: Callable[[], None],
) -> Control:
    """Build decisions and plans.

    Parameters
    ----------
    settings
        Settings of the service.
    scheduler, trial_scheduler, scheduler_name
        Scheduler of the service's decisions, the same without caution for trials, and its name.
    makers
        Make the plans of people.
    storage, measurement
        Subsystems of the service.
    view, guard, memory
        The cluster, conditions of moves, and what the service remembers of them.
    move
        Carries out one move.
    notify
        Called with each event of the service.
    resume
        Resumes topologies that a former process left paused.
    """
    plans, journal, history, budget = storage.plans, storage.journal, storage.history, storage.budget
    tuning = TuningStorage.of(storage.state, history.recent)
    plan_service = PlanService(plans, journal, guard, view.problem, makers, scheduler_name, tuning, settings.autopilot)
    trials = TrialBudget(storage.state, settings.trials_per_day)
    decider = Decider(
        settings,
        scheduler,
        view,
        memory,
        history,
        storage.refused,
        guard,
        budget,
        trials,
        trial_scheduler,
        lambda: {**plan_service.autopilots.held(), **plan_service.tunings.running()},
    )
    cool_down_s = settings.triggers.cool_down_s
    runner = MoveRunner(move, memory, history, scheduler_name, cool_down_s, journal, notify, budget)
    outcomes = MoveOutcomes(decider, view, history, memory, storage.refused, guard)
    executor = PlanExecutor(plans, journal, outcomes, runner, plan_service.approve)
    anomalies = AnomalyMonitor(guard, plan_service.nodes, view.problem, measurement.slow_nodes, notify, storage.state)
    events = EventNotifier(plans, lambda: guard.holds.last or memory.hold, notify)
    expiry = PlanExpiry(plans, journal, settings.history.keep_days)
    own_plans = (plan_service.tunings.advance, plan_service.autopilots.advance)
    before_each = (resume, expiry.expire, anomalies.look, events.look, *own_plans)
    loop = Loop(decider, guard, plan_service.suggest, executor, before_each, settings.clock)
    return Control(decider, runner, executor, plan_service, anomalies, loop)


@dataclass(frozen=True)
class Web:
    """The HTTP server with API and dashboard."""

    server: HttpServer
    dashboard: DashboardState


def build_web(
    settings: ServiceSettings,
    storage: Storage,
    measurement: MeasurementParts,
    cluster: ClusterParts,
    plan_service: PlanService,
    status: Callable[[], ServiceStatus],
    trials: Trials | None,
) -> Web:
    """Build the HTTP server.

    Parameters
    ----------
    settings
        Settings of the service.
    storage, measurement, cluster
        Subsystems of the service.
    plan_service
        Service that makes and controls plans for API and dashboard.
    status
        Returns the status of the service.
    trials
        Compares schedulers and predicts changes for the dashboard; None without.
    """
    view, intake = cluster.view, measurement.intake
    dashboard = DashboardState(
        Sources(
            view.problem,
            status,
            view.age_s,
            view.unfit,
            plan_service,
            trials,
            settings.clock,
            cluster.health.findings,
            measurement.stream.measure_promptly,
        )
    )
    auth = AuthMiddleware.of(settings.access, settings.host, settings.state_dir / AUDIT)
    figures = Figures(dashboard.scene, view.age_s, plan_service.modes, storage.state)
    pages = Site(dashboard, auth)
    routes = api_routes(plan_service, pages.overview)
    app = make_app(cluster.bridge, intake, status, view.problem, routes, pages, figures)
    return Web(HttpServer(app, settings.host, settings.port, auth, settings.access.tls), dashboard)


class Service:
    """The service; a context manager, and it runs inside the `with` block.

    Parameters
    ----------
    settings
        Settings, including the scheduler for topologies without slots.
    scheduler, scheduler_name
        Scheduler of the service's decisions, and its name in Storm's UI and the history.
    gateway
        Argument vector that starts the Nimbus gateway, or Nimbus itself.
    scheduler_for
        Returns the scheduler for the objective of a plan; by default `scheduler` for all.
    trials
        Compares schedulers and predicts changes for the dashboard.
    loads
        Source of loads and message costs instead of the arriving records.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        scheduler: Scheduler,
        scheduler_name: str,
        gateway: list[str] | AbstractContextManager[Nimbus],
        scheduler_for: Callable[[str], Scheduler] | None = None,
        trials: Trials | None = None,
        loads: Loads | None = None,
    ) -> None:
        self.settings, self._scheduler_name = settings, scheduler_name
        self._gateway, self._closing = gateway, ExitStack()
        self.memory, self._notifier = ServiceMemory(settings.clock), Notifier(settings.notify)
        self._storage = storage = open_storage(settings, scheduler_name)
        self.guard = Guard(
            storage.state,
            storage.plans,
            storage.journal,
            settings.mode,
            settings.most_missing,
            self._rebalancing,
            settings.modes,
        )
        overload_percent = cpu_percent(scheduler_name, scheduler)
        measurement = build_measurement(settings, storage, overload_percent, self._on_alarm, loads)
        self.tally, self.stream, self.intake = measurement.tally, measurement.stream, measurement.intake
        forecasts = bool(getattr(scheduler, "uses_forecast", False))
        self._cluster = cluster = build_cluster(settings, storage, measurement, self.guard, forecasts=forecasts)
        self.bridge = cluster.bridge
        own, by_goal = with_memory(scheduler, scheduler_for, settings.objective)
        trial_scheduler = without_caution(scheduler) if settings.trials_per_day else None
        makers = PlanMakers(
            settings.objective,
            by_goal,
            scheduler_keeping_running(REPAIR_SCHEDULER),
            trial_scheduler,
            scheduler_keeping_running(DEFAULT_SCHEDULER, {**settings.rules, "objective": "throughput"}),
            scheduler_keeping_running(DEFAULT_SCHEDULER, {**settings.rules, "objective": "nodes"}),
            settings.changes_executors,
        )
        self._control = control = build_control(
            settings,
            own,
            trial_scheduler,
            scheduler_name,
            makers,
            storage,
            measurement,
            cluster.view,
            self.guard,
            self.memory,
            self._move,
            self._notifier.notify,
            self._resume,
        )
        self.decider, self.plan_service, self.anomalies = control.decider, control.plan_service, control.anomalies
        self._web = build_web(settings, storage, measurement, cluster, control.plan_service, self.status, trials)

    def __enter__(self) -> Self:
        if not self.bridge.warm_up(warm_up, WARM_UP_S):  # Nimbus waits 1.5 s for an answer
            log.warning(
                "%s has not placed two executors in %g s: it is left out until it has", self.settings.initial, WARM_UP_S
            )
        with ExitStack() as starting:
            starting.callback(self._storage.state.close)
            starting.callback(self.plan_service.close)
            starting.enter_context(self._cluster.failures)
            starting.enter_context(self._notifier)
            starting.enter_context(self._web.server)
            starting.enter_context(self._web.dashboard)
            leadership, configured = self.settings.leadership, self._gateway
            gateway = NimbusGateway(configured, leadership.deadline_ns) if isinstance(configured, list) else configured
            self.nimbus = LeaderOnlyNimbus(starting.enter_context(gateway), leadership.require)
            if not leadership.status():  # an elected leader's Nimbus may be lost with the former one: the loop retries
                self.nimbus.cluster()  # fails at once if Nimbus cannot be reached
                self._resume()
            starting.enter_context(self.stream)
            if isinstance(gateway, NimbusGateway):  # a virtual cluster has no faults of its own, and time by its clock
                starting.enter_context(self._cluster.health.watch(gateway))
            # Before the stream ends Spark.
            self._storage.history.start(lambda: self.stream.spark)
            starting.callback(self._storage.history.stop)
            self._closing = starting.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closing.close()

    def problem(self) -> Problem | None:
        """Return the cluster under the newest load; None before Nimbus has called."""
        return self._cluster.view.problem()

    def unfitted(self, problem: Problem) -> dict[str, str]:
        """Return topologies whose predictions are not reliable yet, with the reason."""
        return self._cluster.view.unfitted(problem)

    def decide(self, triggers: TriggerParams | None = None, adapts: Adaptation = ONLINE) -> Plan | NoPlan:
        """Decide once whether anything should move (`Decider.decide`)."""
        return self.decider.decide(triggers, adapts)

    def execute(self, plan: Plan) -> list[MoveReport]:
        """Execute a plan of the service; raises like `PlanExecutor.execute`."""
        return self._control.executor.execute(plan)

    def run(self, stop: threading.Event, every_s: float = 1.0) -> None:
        """Keep the placement good until `stop` is set; raises like `Loop.run`."""
        require_running = self.settings.leadership.running_check(self.stream.require_running)
        self._control.loop.run(stop, every_s, require_running)

    def change(self, settings: ServiceSettings, modes: Mapping[str, Any], notify: Sequence[Target] | None) -> None:
        """Use the triggers, budget and hook of other settings from the next decision on.

        Everything else stays as it is until the service is restarted.

        Parameters
        ----------
        settings
            New settings; only triggers, budget, `least_measured_s`, `most_missing` and `on_failure` take effect.
        modes
            Parts of the modes to change.
        notify
            New targets of notifications; None for no change.
        """
        before = self.settings
        self.settings = replace(
            before,
            triggers=settings.triggers,
            budget=settings.budget,
            least_measured_s=settings.least_measured_s,
            most_missing=settings.most_missing,
            on_failure=settings.on_failure,
        )
        self.decider.change(self.settings)
        self.guard.holds.change(settings.most_missing)
        self._storage.budget.most = settings.budget
        self._control.runner.cool_down_s = settings.triggers.cool_down_s
        if settings.on_failure != before.on_failure:
            self._cluster.failures.change(settings.on_failure)
        if modes:
            changed = {**self.guard.modes.model_dump(exclude={"version"}), **modes}
            self.guard.change(ModesChange(**changed, by="serve", reason="its configuration was read again"))
        if notify is not None:
            self._notifier.change(notify)

    def renew(self) -> None:
        """Reload the TLS certificate from its files; raises like `HttpServer.renew`."""
        self._web.server.renew()

    def status(self) -> ServiceStatus:
        """Return the document behind the status page and the metrics."""
        memory, storage = self.memory, self._storage
        hold = self.guard.holds.last or memory.hold
        return ServiceStatus(
            scheduler=self._scheduler_name,
            initial=self.settings.initial,
            decision=memory.decision.reason if memory.decision else None,
            moves=memory.moves,
            counts=memory.counts,
            drift=memory.drifts,
            pipeline=with_names(self.stream.progress(), self.guard.holds.names.of),
            history=storage.history.status() | {"closed_panes": self.stream.closed_panes_error()},
            evaluation=storage.history.evaluation_status(),
            costs=storage.costs.status(),
            objective=self.settings.objective,
            waits=memory.waits,
            waiting=memory.waiting,
            staying={topology: str(why) for topology, why in memory.staying.items()},
            refused=storage.refused.reasons(self.settings.clock.time() * 1000),
            standbys=self.tally.standbys(),
            hold=hold.code if hold else "",
            hold_why=hold.why if hold else "",
            budget=storage.budget.status(),
            anomalies=[each.model_dump() for each in self.anomalies.all().anomalies],
            pair=self.settings.leadership.status(),
            damaged=storage.damaged,
        )

    def _move(self, step: Step, reason: str, stop: threading.Event | None) -> list[MoveReport]:
        return self._mover().move(step, reason, stop)

    def _mover(self) -> Mover:
        limits, policy = self.settings.limits, self.guard.drain_policy
        return Mover(self.nimbus, self.bridge, self.tally, self._storage.pauses, limits, policy)

    def _rebalancing(self) -> list[str]:
        return [each["name"] for each in self.nimbus.cluster()["topologies"] if each["status"] == REBALANCING]

    def _resume(self) -> None:
        self.memory.resumed |= set(self._mover().resume())

    def _on_alarm(self, alarm: Alarm) -> None:
        self.memory.last_alarm_s = self.settings.clock.monotonic()
        node = self.guard.holds.names.of(alarm.supervisor)
        log.warning("%s: %s, for more than %g s", node, alarm, self.settings.stream.alarm_after_s)
        self._notifier.notify(ServiceEvent("overload", node, str(alarm)))
