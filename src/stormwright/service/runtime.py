"""Everything that runs beside a Storm cluster, wired together: bridge, performance log, pipeline, moves."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stormwright.controller.move import MoveLimits, MoveReport, safe_move
from stormwright.controller.pauses import Pauses
from stormwright.controller.plan import MoveBudget
from stormwright.controller.policy import Clock, Decision, decide
from stormwright.controller.setbacks import Setbacks
from stormwright.controller.tally import Tally
from stormwright.errors import MoveError, NimbusError, StormwrightError
from stormwright.explain.obstacles import status_texts
from stormwright.history.tables.panes import ClosedPanes
from stormwright.model import LoadProfile, Problem
from stormwright.perflog.landing import Landing
from stormwright.perflog.records import Rejected, parse_lines
from stormwright.pipeline.run.stream import LoadStream, StreamSettings
from stormwright.pipeline.watch.alarm_log import Alarm
from stormwright.pipeline.watch.drift import Drift, DriftWatch
from stormwright.schedulers import Scheduler, make_scheduler, scheduler_type
from stormwright.schedulers.kit.triggers import TriggerParams
from stormwright.schedulers.kit.warm_up import warm_up
from stormwright.service.app import HttpServer, make_app
from stormwright.service.drift_text import drift_text
from stormwright.service.forecasting import Forecasting
from stormwright.service.history import History, HistorySettings
from stormwright.service.hooks.failure_hook import FailureHook
from stormwright.service.hooks.hook_program import Hook
from stormwright.storm.bridge import Bridge
from stormwright.storm.gateway import NimbusGateway


@dataclass(frozen=True)
class RuntimeSettings:
    """What a running service is told.

    Parameters
    ----------
    state_dir
        Landing directory, checkpoints and profiles.
    host, port
        Where Nimbus and the probes reach the service.
    initial
        Scheduler for topologies without a slot; Storm's own by default.
    dry_run
        Decide and tell, but move nothing.
    on_failure
        Called, in a thread of its own, for every topology that `initial` finds no slots for.
    keep_records
        Keep the newest records in memory, for measurements.
    forecast_min
        How many minutes ahead the load is forecast, for a scheduler that uses that.
    """

    state_dir: Path
    host: str
    port: int
    initial: str = "even"
    dry_run: bool = False
    on_failure: Hook | None = None
    keep_records: bool = False
    forecast_min: int = 10
    triggers: TriggerParams = field(default_factory=TriggerParams)
    budget: MoveBudget = field(default_factory=MoveBudget)
    limits: MoveLimits = field(default_factory=MoveLimits)
    stream: StreamSettings = field(default_factory=StreamSettings)
    history: HistorySettings = field(default_factory=HistorySettings)


#: Nimbus asks every 10 s by default, less often while it has found the service missing. Older than this, in seconds, a
#: snapshot may no longer be true.
SNAPSHOT_S = 60.0


class Runtime:
    """The service while it runs; a context manager.

    Parameters
    ----------
    scheduler, scheduler_name
        Decides about placements.
    gateway_command
        Starts the Nimbus gateway.
    say
        Takes a line of progress.
    """

    def __init__(
        self,
        settings: RuntimeSettings,
        scheduler: Scheduler,
        scheduler_name: str,
        gateway_command: list[str],
        say: Callable[[str], None],
    ) -> None:
        self.settings = settings
        self._failure_hook = FailureHook(settings.on_failure, say) if settings.on_failure else None
        tell_failures = self._failure_hook.update if self._failure_hook else None
        self._initial = _placing_only(settings.initial)
        self.bridge = Bridge(self._initial, settings.initial, tell_failures, status_texts)
        self.tally = Tally(keep_records=settings.keep_records)
        self._scheduler = scheduler
        self._scheduler_name = scheduler_name
        self._say = say
        self._landing = Landing(settings.state_dir / "landing")
        self._pauses = Pauses(settings.state_dir / "paused.json")
        self._history = History(settings.history, settings.state_dir, scheduler_name, say)
        self._stream = LoadStream(
            self._landing.directory,
            settings.state_dir / "stream",
            settings.stream,
            history=ClosedPanes(self._history.staging),
            tell_alarm=self._hear_alarm,
        )
        self._http = HttpServer(
            make_app(self.bridge, self._ingest, self.status, self._problem_now), settings.host, settings.port
        )
        self._gateway_command = gateway_command
        self._closing = ExitStack()
        # A service that has just come up knows nothing yet: the first look waits a whole period.
        self._last_look_s = time.monotonic()
        self._last_change_s = self._last_idle_look_s = self._last_alarm_s = float("-inf")
        forecasts = getattr(scheduler, "uses_forecast", False)
        self._forecasting = (
            Forecasting(settings.state_dir / "minutes.arrow", settings.forecast_min) if forecasts else None
        )
        self._drift = DriftWatch()
        self._drifts: list[Drift] = []
        self._counts = dict.fromkeys(("looks", "decisions", "moves", "failed_moves"), 0)
        self._setbacks = Setbacks()
        self._last_decision: Decision | None = None
        self._last_moves: list[MoveReport] = []

    def __enter__(self) -> Self:
        warm_up(self._initial)  # Nimbus waits 1.5 s for an answer
        with ExitStack() as starting:
            if self._failure_hook:
                starting.enter_context(self._failure_hook)
            starting.enter_context(self._http)
            self.nimbus = starting.enter_context(NimbusGateway(self._gateway_command))
            self.nimbus.cluster()  # says at once if Nimbus cannot be reached
            self._pauses.resume(self.nimbus.activate, self._say)
            starting.enter_context(self._stream)
            # Before the stream ends Spark.
            self._history.start(lambda: self._stream.spark)
            starting.callback(self._history.stop)
            self._closing = starting.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._closing.close()

    def problem(self, load: LoadProfile | None = None) -> Problem | None:
        """The cluster as Nimbus showed it last, under `load` or the newest measured one; None while unknown."""
        snapshot = self.bridge.snapshot()
        if snapshot is None:
            return None
        load = load or self._stream.latest(snapshot)
        if load and self._forecasting:
            load = self._forecasting.added_to(load, snapshot)
        return snapshot.with_load(load) if load else None

    def _problem_now(self) -> Problem | None:
        """The cluster for those who want it as a file: without a load where none was measured yet."""
        return self.problem() or self.bridge.snapshot()

    def look(self, triggers: TriggerParams | None = None) -> Decision:
        """Decide once whether anything should move."""
        problem = self.problem()
        if problem is not None:
            self._history.observe(problem)
        if problem is None or problem.load is None:
            return Decision(False, "no snapshot of Nimbus or no measured load yet")
        if self._forecasting:
            self._forecasting.note(problem)
        age_s = time.time() - problem.load.end_ms / 1000
        if age_s > self.settings.stream.window_s + self.settings.stream.late_s:
            return Decision(False, f"the load was measured {age_s:.0f} s ago: probes or pipeline stand still")
        if self.bridge.snapshot_age_s() > SNAPSHOT_S:
            return Decision(False, f"Nimbus asked last {self.bridge.snapshot_age_s():.0f} s ago: is it running?")
        clock = Clock(
            time.monotonic(), self._last_change_s, self._last_look_s, self._last_idle_look_s, self._last_alarm_s
        )
        self._drifts = self._drift.see(problem.load)
        stay = {**self._setbacks.stay(clock.now_s), **self.bridge.unfit()}
        decision = decide(
            problem,
            self._scheduler,
            triggers or self.settings.triggers,
            self.settings.budget,
            clock,
            stay,
            drift_text(self._drifts, problem),
        )
        if decision.looked:
            self._last_look_s = clock.now_s
            self._counts["looks"] += 1
            if self._drifts:
                self._drift.restart(problem.load.end_ms)
            if decision.plan.moves:
                self._counts["decisions"] += 1
            else:
                self._last_idle_look_s = clock.now_s
            self._last_decision = decision
            self._history.decide(problem, decision, self.settings.dry_run)
        return decision

    def act(self, decision: Decision, stop: threading.Event | None = None) -> list[MoveReport]:
        """Make the moves of a decision, one topology after the other, until `stop` is set.

        A topology that could not be moved is left alone for a while, the longer the more often that happens.

        Raises
        ------
        MoveError, NimbusError
            The last of the moves that failed; those after it have been tried all the same.
        """
        reports: list[MoveReport] = []
        failure: StormwrightError | None = None
        for move in decision.plan.moves:
            if stop is not None and stop.is_set():
                break
            text = f"stormwright: placed by {self._scheduler_name}: {decision.reason}"
            try:
                reports.append(
                    safe_move(
                        move,
                        text,
                        self.nimbus,
                        self.bridge,
                        self.tally,
                        self._pauses,
                        self.settings.limits,
                        self._say,
                        stop,
                    )
                )
                self._history.move(move.topology.id, reports[-1])
                self._setbacks.forget(move.topology.id)
                self._counts["moves"] += 1
            except (MoveError, NimbusError) as error:
                failure = error
                self._history.move(move.topology.id, None, str(error))
                self._counts["failed_moves"] += 1
                self._setbacks.note(move.topology.id, time.monotonic(), str(error))
            finally:
                self._last_change_s = time.monotonic()
                # What is measured while the topology comes up again is no reference.
                self._drift.restart(int((time.time() + self.settings.triggers.cool_down_s) * 1000))
                self._last_moves = reports
        if failure:
            raise failure
        return reports

    def run(self, stop: threading.Event, every_s: float = 1.0) -> None:
        """Keep the placement good until `stop` is set.

        Raises
        ------
        StormwrightError
            Spark has ended. What supervises this process starts it again.
        """
        said = ""
        while not stop.wait(every_s):
            self._stream.require_running()
            try:
                self._pauses.resume(self.nimbus.activate, self._say)
                decision = self.look()
                text = self._told(decision)
                if text and text != said:
                    self._say(text)
                said = text or said
                if not self.settings.dry_run:
                    self.act(decision, stop)
            except StormwrightError as error:
                # Nimbus may be restarting, or a bolt hold its tuples: the next look is another try.
                self._say(str(error))
            except Exception:
                # A bug, or a full disk. Nimbus gets its answers as long as this process lives.
                self._say(traceback.format_exc())

    def _told(self, decision: Decision) -> str:
        if not decision.looked or not (self.settings.dry_run and decision.plan.moves):
            return decision.reason if decision.looked else ""
        names = ", ".join(move.topology.name for move in decision.plan.moves)
        return f"dry run, {names} would move: {decision.reason}"

    def stream_progress(self) -> dict[str, Any]:
        """Where the pipeline stands."""
        return self._stream.progress()

    def status(self) -> dict[str, Any]:
        """For the status endpoint."""
        decision = self._last_decision
        return {
            "scheduler": self._scheduler_name,
            "initial": self.settings.initial,
            "decision": decision.reason if decision else None,
            "moves": [report.as_dict() for report in self._last_moves],
            "counts": dict(self._counts),
            "drift": [asdict(drift) for drift in self._drifts],
            "pipeline": self.stream_progress(),
            "history": self._history.status() | {"closed_panes": self._stream.closed_panes_error()},
            "evaluation": self._history.judged(),
        }

    def _hear_alarm(self, alarm: Alarm) -> None:
        self._last_alarm_s = time.monotonic()
        self._say(
            f"{alarm.supervisor}: at or over its {alarm.capacity_cores:g} cores "
            f"for more than {self.settings.stream.alarm_after_s:g} s (up to {alarm.peak_cores:.2f} cores in use)"
        )

    def _ingest(self, body: bytes) -> None:
        """Keep a delivery of records: on disk first, whatever it holds, then in the live counts what is valid."""
        lines = body.split(b"\n")
        self._landing.write(lines)
        new = self.tally.add(record for record in parse_lines(lines) if not isinstance(record, Rejected))
        self._history.count(new)


def _placing_only(name: str) -> Scheduler:
    """A scheduler for what has no slot, told to leave alone what runs if it can be told."""
    told = any(field.name == "keep_running" for field in fields(scheduler_type(name).params_type))
    return make_scheduler(name, {"keep_running": True} if told else {})
