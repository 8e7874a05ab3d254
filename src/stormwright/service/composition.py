"""Composition root of the service."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from stormwright.client.shapes import ModesChange
from stormwright.controller.move import REBALANCING, Mover, Nimbus
from stormwright.controller.objectives.refusals import RefusedPlacements
from stormwright.controller.planning.plan import Step
from stormwright.controller.policy import Decision
from stormwright.controller.reports import MoveReport
from stormwright.controller.safety.holds import Hold
from stormwright.controller.safety.pauses import Pauses
from stormwright.controller.tally import Tally
from stormwright.defaults import KEEPING
from stormwright.explain.obstacles import status_texts
from stormwright.history.tables.ingest import ClosedPanes
from stormwright.model import Problem
from stormwright.perflog.landing import Landing
from stormwright.pipeline.monitoring.alarms import Alarm
from stormwright.pipeline.streaming.progress import with_names
from stormwright.pipeline.streaming.stream import LoadStream
from stormwright.schedulers import Scheduler
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
from stormwright.service.executor import MoveExecutor
from stormwright.service.http.api import api_routes
from stormwright.service.http.app import make_app
from stormwright.service.http.metrics import Figures
from stormwright.service.http.server import HttpServer
from stormwright.service.intake import Intake
from stormwright.service.leader_election.lead import LeaderOnlyNimbus
from stormwright.service.leader_election.standby import PAUSED, REFUSED
from stormwright.service.loads import Loads
from stormwright.service.loop import Loop
from stormwright.service.memory import ServiceMemory
from stormwright.service.notifications.hook_program import FailureHook
from stormwright.service.notifications.notifier import Notifier, ServiceEvent, Target
from stormwright.service.plans.applying import PlanExecutor
from stormwright.service.plans.dispatcher import DecisionDispatcher, EvaluatedStage
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.plan_service import PlanMakers, PlanService
from stormwright.service.plans.plans import Expiry, PlanStore
from stormwright.service.plans.scheduler_wrappers import SerialScheduler
from stormwright.service.safety.anomalies import AnomalyMonitor, EventNotifier, SlowNodeMonitor
from stormwright.service.safety.move_budget import MoveBudgetKeeper
from stormwright.service.settings import ServiceSettings
from stormwright.service.status import ServiceStatus
from stormwright.service.storage.calibration import CostCalibration
from stormwright.service.storage.database import FILE, State
from stormwright.service.storage.forecasts import ForecastStore
from stormwright.service.storage.history import ServiceHistory
from stormwright.service.view import View
from stormwright.storm.bridge import Bridge
from stormwright.storm.gateway import NimbusGateway

log = logging.getLogger(__name__)

#: Seconds that the initial scheduler has for its first call, which may compile, before the service goes on without it.
WARM_UP_S = 60.0


class Service:
    """The service; a context manager, and it runs inside the `with` block.

    ::

        Nimbus ◀─▶ bridge ─▶ view ─▶ looking ─▶ acting ─▶ Nimbus
        probes ─▶ intake ─▶ landing ─▶ stream ─▲  ▲   (drain, swap, resume: seen by the tally)
        people ─▶ desk ─▶ plans ─▶ dealing ───────┘

    Parameters
    ----------
    settings
        What it is told, with the scheduler for topologies that have no slot.
    scheduler, scheduler_name
        Decides about placements, and what it is called in Storm's UI and the history.
    gateway
        Argument vector that starts the Nimbus gateway, or Nimbus itself.
    scheduler_for
        Goal of a plan → who decides about it; by default `scheduler`, whatever the goal.
    trials
        Who compares schedulers and predicts changes for the dashboard.
    loads
        Where loads come from, with what messages cost, if not from the records that arrive.
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
        self.settings = settings
        state, clock, lead = settings.state_dir, settings.clock, settings.lead
        self.memory = ServiceMemory(clock)
        self.tally = Tally(keep_records=settings.keep_records, clock=clock)
        self._failure_hook = FailureHook(settings.on_failure)
        initial = scheduler_keeping_running(settings.initial, settings.rules)
        self._state = State(state / FILE, clock)
        lead.begin(self._state)
        plans, ledger = PlanStore(self._state), Journal(self._state)
        self.guard = Guard(
            self._state, plans, ledger, settings.mode, settings.most_missing, self._rebalancing, settings.modes
        )
        on_failures, drained = self._failure_hook.update, self.guard.drains.on
        self.bridge = Bridge(initial, settings.initial, on_failures, status_texts, clock, drained, lead.require)
        self._history = ServiceHistory(settings.history, state, scheduler_name, ledger.judged, clock)
        self._calibrating = CostCalibration(state / "costs.json", clock)
        landing = Landing(state / "landing", clock)
        self.stream = loads or LoadStream(
            landing.directory,
            state / "stream",
            settings.stream_of(self._calibrating.core_hz, cpu_percent(scheduler_name, scheduler)),
            history=ClosedPanes(self._history.staging),
            on_alarm=self._hear_alarm,
        )
        self._scheduler_name = scheduler_name
        forecasts = getattr(scheduler, "uses_forecast", False)
        forecasting = ForecastStore(state / "minutes.arrow", settings.forecast_min, clock) if forecasts else None
        self._view = View(self.bridge, self.stream, self._calibrating, forecasting, drained)
        self._pauses = Pauses(state / PAUSED, lead.keep(self._state, PAUSED))
        self._refused = RefusedPlacements(state / REFUSED, lead.keep(self._state, REFUSED))
        turns = SerialScheduler(scheduler)
        # The move that was just made is the first of those that the ledger has.
        self._budget = MoveBudgetKeeper(
            self._state, settings.budget, lambda: ledger.pauses()[1:], settings.budget_adapts
        )
        memory, history, budget = self.memory, self._history, self._budget
        self.looking = Decider(settings, turns, self._view, memory, history, self._refused, self.guard, budget)
        cool_down_s = settings.triggers.cool_down_s
        self._notifier = Notifier(settings.notify)
        tell = self._notifier.tell
        self._acting = MoveExecutor(self._move, memory, history, scheduler_name, cool_down_s, ledger, tell, budget)
        makers = PlanMakers(settings.objective, scheduler_for or (lambda _: turns), scheduler_keeping_running(KEEPING))
        self.desk = PlanService(plans, ledger, self.guard, self._view.problem, makers)
        slow = SlowNodeMonitor()
        self.watching = AnomalyMonitor(self.guard, self.desk.nodes, self._view.problem, slow, tell, self._state)
        dealing, going = self._dealing(plans, ledger), lead.going(self.stream.require_running)
        self._loop = Loop(self.looking, self._acting, going, self._resume, dealing, clock)
        self.intake = Intake(landing, self.tally, history, None if loads else self._calibrating, slow.count)
        self._http, self._gateway, self._closing = self._server(trials), gateway, ExitStack()

    def __enter__(self) -> Self:
        if not self.bridge.warm_up(warm_up, WARM_UP_S):  # Nimbus waits 1.5 s for an answer
            log.warning(
                "%s has not placed two executors in %g s: it is left out until it has", self.settings.initial, WARM_UP_S
            )
        with ExitStack() as starting:
            starting.callback(self._state.close)
            starting.callback(self.desk.close)
            starting.enter_context(self._failure_hook)
            starting.enter_context(self._notifier)
            starting.enter_context(self._http)
            starting.enter_context(self._known)
            lead, told = self.settings.lead, self._gateway
            gateway = NimbusGateway(told, lead.not_after_ns) if isinstance(told, list) else told
            self.nimbus = LeaderOnlyNimbus(starting.enter_context(gateway), lead.require)
            if not lead.told():  # where another service was lost its Nimbus may have been, too: the loop tries again
                self.nimbus.cluster()  # says at once if Nimbus cannot be reached
                self._resume()
            starting.enter_context(self.stream)
            # Before the stream ends Spark.
            self._history.start(lambda: self.stream.spark)
            starting.callback(self._history.stop)
            self._closing = starting.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closing.close()

    def problem(self) -> Problem | None:
        """Return the cluster under the load measured last; None before Nimbus has called."""
        return self._view.problem()

    def unfitted(self, problem: Problem) -> dict[str, str]:
        """Topology → why predictions of it cannot be relied on yet."""
        return self._view.unfitted(problem)

    def look(self, triggers: TriggerParams | None = None, adapts: Adaptation = ONLINE) -> Decision:
        """Decide once whether anything should move (`Decider.look`)."""
        return self.looking.look(triggers, adapts)

    def act(self, decision: Decision) -> list[MoveReport]:
        """Carry out the moves of a decision; raises like `MoveExecutor.act`."""
        return self._acting.act(decision)

    def run(self, stop: threading.Event, every_s: float = 1.0) -> None:
        """Keep the placement good until `stop` is set; raises like `Loop.run`."""
        self._loop.run(stop, every_s)

    def change(self, settings: ServiceSettings, modes: Mapping[str, Any], notify: Sequence[Target] | None) -> None:
        """Go by the triggers, budget and hook of other settings from the next look on, and by other parts of the modes.

        `notify` are told of events from now on; None, and it stays with those before.

        All else of what it was told stays as it is until the service is started again.
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
        self.looking.change(self.settings)
        self.guard.holds.change(settings.most_missing)
        self._budget.most = settings.budget
        self._acting.cool_down_s = settings.triggers.cool_down_s
        if settings.on_failure != before.on_failure:
            self._failure_hook.change(settings.on_failure)
        if modes:
            told = {**self.guard.modes.model_dump(exclude={"version"}), **modes}
            self.guard.change(ModesChange(**told, by="serve", reason="its configuration was read again"))
        if notify is not None:
            self._notifier.change(notify)

    def renew(self) -> None:
        """Reload the TLS certificate from its files; raises like `HttpServer.renew`."""
        self._http.renew()

    def status(self) -> ServiceStatus:
        """Return the document behind the status page and the metrics."""
        memory, history = self.memory, self._history.status()
        hold = self._hold()
        return ServiceStatus(
            scheduler=self._scheduler_name,
            initial=self.settings.initial,
            decision=memory.decision.reason if memory.decision else None,
            moves=memory.moves,
            counts=memory.counts,
            drift=memory.drifts,
            pipeline=with_names(self.stream.progress(), self.guard.holds.names.of),
            history=history | {"closed_panes": self.stream.closed_panes_error()},
            evaluation=self._history.judged(),
            costs=self._calibrating.status(),
            objective=self.settings.objective,
            waits=memory.waits,
            refused=self._refused.told(self.settings.clock.time() * 1000),
            hold=hold.word if hold else "",
            hold_why=hold.why if hold else "",
            budget=self._budget.told(),
            anomalies=[each.model_dump() for each in self.watching.told().anomalies],
            pair=self.settings.lead.told(),
        )

    def _server(self, trials: Trials | None) -> HttpServer:
        view, settings, intake = self._view, self.settings, self.intake
        sources = Sources(view.problem, self.status, view.age_s, view.unfit, self.desk, trials, settings.clock)
        self._known = DashboardState(sources)
        door = AuthMiddleware.of(settings.access, settings.host, settings.state_dir / AUDIT)
        figures, pages = Figures(self._known.scene, view.age_s, self.desk.modes, self._state), Site(self._known, door)
        routes = api_routes(self.desk, pages.overview)
        app = make_app(self.bridge, intake.take, self.status, view.problem, intake.count, routes, pages, figures)
        return HttpServer(app, settings.host, settings.port, door, settings.access.tls)

    def _dealing(self, plans: PlanStore, ledger: Journal) -> DecisionDispatcher:
        watched = EvaluatedStage(self.looking, self._view, self._history, self.memory, self._refused, self.guard)
        applying = PlanExecutor(plans, ledger, watched, self._acting.act)
        tidying = Expiry(plans, ledger, self.settings.history.keep_days)
        looks = (self.watching.look, EventNotifier(plans, self._hold, self._notifier.tell).look)
        return DecisionDispatcher(self.guard, self.desk, applying, self._view, tidying, looks)

    def _move(self, step: Step, reason: str, stop: threading.Event | None) -> list[MoveReport]:
        return Mover(self.nimbus, self.bridge, self.tally, self._pauses, self.settings.limits).move(step, reason, stop)

    def _hold(self) -> Hold | None:
        return self.guard.holds.last or self.memory.hold

    def _rebalancing(self) -> list[str]:
        return [each["name"] for each in self.nimbus.cluster()["topologies"] if each["status"] == REBALANCING]

    def _resume(self) -> None:
        self.memory.resumed |= set(self._pauses.resume(self.nimbus.activate))

    def _hear_alarm(self, alarm: Alarm) -> None:
        self.memory.last_alarm_s = self.settings.clock.monotonic()
        node = self.guard.holds.names.of(alarm.supervisor)
        log.warning("%s: %s, for more than %g s", node, alarm, self.settings.stream.alarm_after_s)
        self._notifier.tell(ServiceEvent("overload", node, str(alarm)))
