"""Tunings: trials of configurations, one after the other, each of which is a plan that is measured."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp
from math import log as ln
from typing import Any, Literal

from pydantic import TypeAdapter

from stormwright.base.documents import Document, read_or_default
from stormwright.client import shapes
from stormwright.controller.description import FigureSources
from stormwright.controller.requests import NoPlan
from stormwright.controller.tuning.effects import Effects, Outcome
from stormwright.controller.tuning.knobs import ConfigChange
from stormwright.controller.tuning.search import Candidate, Latency, TrialInputs, next_trial
from stormwright.errors import ConflictError, Fault, InputError, NotFoundError, StormwrightError, suggestion_for
from stormwright.history.evaluation.moves import BEFORE_S, EARLY_S, LATENCY, multiple_of
from stormwright.history.evaluation.window import Sample
from stormwright.model import Problem
from stormwright.model.problem import topologies_called
from stormwright.plans.figures import Range
from stormwright.plans.plan import Plan
from stormwright.plans.tuning import Tuning, TuningAim, TuningState, TuningTrial
from stormwright.service.plans.journal import Journal
from stormwright.service.plans.own_plans import OwnPlan, Planner, person
from stormwright.service.plans.store import PlanStore
from stormwright.service.storage.database import State

log = logging.getLogger(__name__)

#: Tunings and outcomes of trials that are stored.
MAX_TUNINGS, MAX_OUTCOMES = 50, 300

#: Seconds until a trial that could not begin is planned again.
AGAIN_S = 30.0

#: Seconds after which a tuning ends of which no trial can begin.
LONGEST_WAIT_S = 3600.0

_TUNINGS: TypeAdapter[list[Tuning]] = TypeAdapter(list[Tuning])
_OUTCOMES: TypeAdapter[list[Outcome]] = TypeAdapter(list[Outcome])


@dataclass(frozen=True)
class TuningStorage:
    """Storage of tunings besides plans, and measured windows.

    Parameters
    ----------
    tunings, outcomes
        Documents with the tunings, and with the outcomes of all trials.
    recent
        Returns the windows of a topology since a time in ms since 1970.
    """

    tunings: Document
    outcomes: Document
    recent: Callable[[str, float], Sequence[Sample]] = lambda *_: ()

    @classmethod
    def of(cls, state: State, recent: Callable[[str, float], Sequence[Sample]] = lambda *_: ()) -> TuningStorage:
        """Return the documents in the database of a service."""
        return cls(state.document("tunings"), state.document("trials_of_tunings"), recent)


class TuningService:
    """Starts, advances and stops tunings; safe to use from several threads.

    Parameters
    ----------
    planner
        Makes and starts plans.
    plans, journal
        Stored plans, and their outcomes.
    storage
        Tunings, outcomes of trials, and measured windows.
    """

    def __init__(self, planner: Planner, plans: PlanStore, journal: Journal, storage: TuningStorage) -> None:
        self._planner, self._plans, self._journal, self._storage = planner, plans, journal, storage
        self._lock = threading.RLock()
        found = read_or_default(storage.tunings, _TUNINGS.validate_json, list[Tuning], "tunings are forgotten")
        self._tunings = {each.id: each for each in found}
        self._outcomes = read_or_default(
            storage.outcomes, _OUTCOMES.validate_json, list[Outcome], "effects of trials are forgotten"
        )
        #: Tuning → when it is advanced again, in seconds.
        self._not_before_s: dict[str, float] = {}
        #: Tuning → since when no trial of it was begun, in seconds.
        self._waiting_since_s: dict[str, float] = {}

    def all(self) -> shapes.Tunings:
        """Return all tunings, newest first."""
        with self._lock:
            return shapes.Tunings(tunings=tuple(reversed(self._tunings.values())))

    def find(self, tuning: str) -> Tuning:
        """Return a tuning by its id, or the newest of a topology by its name or id.

        Raises
        ------
        NotFoundError
            There is none.
        """
        with self._lock:
            for each in reversed(self._tunings.values()):
                if tuning in (each.id, each.topology, each.name):
                    return each
        raise NotFoundError(f"there is no tuning {tuning}: `stormwright tune TOPOLOGY` begins one")

    def running(self) -> dict[str, str]:
        """Return topologies (ids) that are being tuned, with the reason why nothing else moves them."""
        with self._lock:
            return {each.topology: f"tuning {each.id}" for each in self._tunings.values() if _is_active(each)}

    def start(self, request: shapes.TuningRequest) -> Tuning:
        """Begin to tune a topology.

        Raises
        ------
        InputError
            There is no such topology.
        ConflictError
            It is being tuned already.
        """
        problem = self._planner.now()
        called = topologies_called(problem, request.topology)
        if len(called) != 1:
            near = suggestion_for(request.topology, {each.name for each in problem.topologies})
            text = "several topologies have this name" if called else f"no topology {request.topology}{near}"
            raise InputError("tuning", [Fault(text, "$.topology")])
        topology = problem.topologies[called[0]]
        tuning = Tuning(
            id=secrets.token_hex(4),
            topology=topology.id,
            name=topology.name,
            by=person(request.by),
            reason=request.reason,
            begun_ms=round(1000 * self._plans.clock.time()),
            aim=request.aim,
            any_latency=request.any_latency,
            spouts=tuple(each.id for each in topology.components if each.type == "spout"),
            max_trials=request.trials,
            max_pause_s=request.pauses_s,
            dry_run=request.dry_run,
        )
        with self._lock:
            if other := self.running().get(topology.id):
                raise ConflictError(f"{topology.name} is being tuned already ({other})")
            self._save(tuning)
        return tuning

    def stop(self, tuning: str, change: shapes.ChangeRequest) -> Tuning:
        """Stop a tuning: a trial under way is still evaluated, and taken back unless it is better."""
        found = self.find(tuning)
        if found.state != "running":
            raise ConflictError(f"tuning {found.id} is {found.state}: there is nothing to stop")
        self._end(found, "stopped", f"{change.by}: {change.reason}")
        return self.find(found.id)

    def advance(self) -> None:
        """Advance all tunings; cheap where there are none, and called each second by one thread."""
        with self._lock:
            active = [each for each in self._tunings.values() if _is_active(each)]
        for tuning in active:
            try:
                self._advance(tuning)
            except Exception as error:  # such as a full disk: other work of the loop does not wait for it
                if not isinstance(error, StormwrightError):
                    log.exception("tuning %s", tuning.id)
                self._not_before_s[tuning.id] = self._plans.clock.monotonic() + AGAIN_S

    # ------------------------------------------------------------------------------------------------------------------

    def _advance(self, tuning: Tuning) -> None:
        now_s = self._plans.clock.monotonic()
        if tuning.state == "running" and not tuning.plan:
            since_s = self._waiting_since_s.setdefault(tuning.id, now_s)
            if now_s > since_s + LONGEST_WAIT_S:
                self._end(tuning, "failed", f"no trial could begin for {LONGEST_WAIT_S / 60:.0f} minutes: {tuning.why}")
                return
        if now_s < self._not_before_s.get(tuning.id, float("-inf")):
            return
        if tuning.plan:
            self._look_at_plan(tuning)
        elif tuning.state == "running":
            self._next(tuning)

    def _next(self, tuning: Tuning) -> None:
        """Plan the next trial, unless the budget is spent or too little was measured since the last one."""
        problem = self._planner.now()
        if tuning.topology not in problem.topology_index:
            self._end(tuning, "failed", f"{tuning.name} does not run any more")
            return
        if len(tuning.trials) >= tuning.max_trials:
            self._end(tuning, "done", f"all {tuning.max_trials} trials were made")
            return
        if tuning.pause_s >= tuning.max_pause_s:
            self._end(tuning, "done", f"its trials have paused it for {tuning.pause_s:.0f} s")
            return
        samples, aim = self._measured(tuning.topology), tuning.aim
        if sum(each.length_s for each in samples) < EARLY_S:
            self._wait(tuning, f"waits until it is measured for {EARLY_S:.0f} s")
            return
        if not (tuning.any_latency or aim.latency_ms or aim.p99_ms):
            self._update(tuning.id, aim=replace(aim, latency_ms=_latency(samples).mean_ms))

        reason = f"trial {len(tuning.trials) + 1} of tuning {tuning.id}: {tuning.reason}"
        requested = OwnPlan(
            "person", aim.quantity, tuning.by, reason, {"tuning": tuning.id}, auto_apply=not tuning.dry_run
        )
        self._update(tuning.id, why="")  # before: as soon as it is added, another thread may end the tuning
        try:
            plan = self._planner.add_made(requested, partial(self._propose, tuning.id))
        except ConflictError as error:
            self._wait(tuning, str(error), AGAIN_S)
            return
        self._update(tuning.id, plan=plan)

    def _propose(self, tuning_id: str, plan: str, problem: Problem, sources: FigureSources) -> Plan | NoPlan:
        """Return the plan (by id) of the next trial, and note the trial; on the thread that makes plans."""
        tuning = self.find(tuning_id)
        if tuning.state != "running":
            return NoPlan("nothing_to_do", f"tuning {tuning_id} is {tuning.state}")
        with self._lock:
            outcomes = list(self._outcomes)
        inputs = TrialInputs(
            self._planner.plan_inputs(problem, sources),
            self._planner.tuning_scheduler,
            Effects([each for each in outcomes if each.quantity == tuning.aim.quantity], tuning.name),
            _tried(tuning),
            _latency(self._measured(tuning.topology)),
            tuning.max_pause_s - tuning.pause_s,
        )
        found = next_trial(problem, tuning.topology, tuning.aim, inputs)
        if isinstance(found, NoPlan):
            self._end(tuning, "done", found.reason)
            return found
        trial = TuningTrial(
            plan=plan,
            executors=dict(found.change.executors),
            conf=dict(found.change.conf),
            placed=found.change.placed,
            features=dict(found.features),
            modelled=exp(found.modelled),
            predicted=found.range,
            state="planned" if tuning.dry_run else "running",
        )
        self._update(tuning.id, trials=(*tuning.trials, trial))
        promises = {**found.plan.promises, tuning.topology: found.promise(tuning.topology, tuning.aim)}
        update = {"trial": True, "aim": tuning.aim, "gain": _gain_text(found, tuning.aim), "promises": promises}
        return found.plan.model_copy(update=update)

    def _look_at_plan(self, tuning: Tuning) -> None:
        """Note the outcome of the plan of a trial, once it has one."""
        plan = self._plans.summary(tuning.plan)
        tuning = self.find(tuning.id)  # of a plan that is made by now it has the trial
        trial = tuning.trials[-1] if tuning.trials and tuning.trials[-1].plan == plan.id else None
        if plan.state in ("planning", "applying", "evaluating", "rolling_back"):
            return
        if trial is not None and plan.state == "failed" and plan.decision is None:  # the service ended before it began
            self._update(tuning.id, plan="", trials=tuning.trials[:-1])
            self._wait(tuning, plan.why, AGAIN_S)
            return
        if trial is None:  # none was worth it, or the plan could not be made
            self._update(tuning.id, plan="")
            if plan.state == "failed" and tuning.state == "running":
                self._end(tuning, "failed", plan.why)
            return
        if plan.state in ("planned", "proposed"):
            if tuning.dry_run:
                self._update(tuning.id, plan="")
                self._end(tuning, "done", "nothing is applied, as requested")
            elif tuning.state != "running":
                self._plans.transition(plan.id, "discarded", f"tuning {tuning.id} is {tuning.state}")
            elif not plan.auto_apply and not self._planner.waits_for_person:
                self._plans.transition(plan.id, "discarded", plan.why)
                self._update(tuning.id, plan="", trials=tuning.trials[:-1])
                self._wait(tuning, plan.why, AGAIN_S)
            return
        self._note_outcome(tuning, trial, self._plans.plan(plan.id))

    def _note_outcome(self, tuning: Tuning, trial: TuningTrial, plan: Plan) -> None:
        entries = [plan.decision, *(each.decision for each in self._plans.rollbacks_of(plan.id))]
        known = [entry for entry in entries if entry is not None]
        evaluations = {
            each.quantity: each
            for each in (self._journal.evaluations_of(known[0]).get(tuning.topology, []) if known else [])
        }
        found = multiple_of(tuning.aim, evaluations.values())
        measured = Range(value=found.measured, low=found.low, high=found.high) if found else None
        latency = evaluations[LATENCY].measured if LATENCY in evaluations else None
        self._waiting_since_s.pop(tuning.id, None)
        state: Literal["better", "taken back", "failed"] = "failed"
        if plan.state == "done":
            state = "better"
        elif plan.state == "rolled_back":
            state = "taken back"
        update = {
            "state": state,
            "why": "" if state == "better" else plan.why,
            "measured": measured,
            "latency": latency,
            "pause_s": sum(self._journal.pause_of(entry, tuning.topology) for entry in known),
        }
        trials = (*tuning.trials[:-1], trial.model_copy(update=update))
        self._update(tuning.id, trials=trials, plan="")
        if measured is not None and measured.value:
            self._learn(tuning, trial, measured)
        log.info("%s: trial %d of tuning %s: %s", tuning.name, len(trials), tuning.id, state)
        if state == "failed" and tuning.state == "running":
            self._end(tuning, "failed", f"a trial is {plan.state}: {plan.why}")

    def _learn(self, tuning: Tuning, trial: TuningTrial, measured: Range) -> None:
        low, high, value = measured.low, measured.high, measured.value or 1.0
        sd = (ln(high) - ln(low)) / 3.92 if low and high and low > 0 else None
        outcome = Outcome(tuning.name, trial.features, trial.modelled, value, sd, tuning.aim.quantity)
        with self._lock:
            self._outcomes = [*self._outcomes, outcome][-MAX_OUTCOMES:]
            self._storage.outcomes.save(_OUTCOMES.dump_json(self._outcomes).decode())

    def _wait(self, tuning: Tuning, why: str, seconds: float = 0.0) -> None:
        if tuning.why != why:
            self._update(tuning.id, why=why)
        self._not_before_s[tuning.id] = self._plans.clock.monotonic() + seconds

    def _end(self, tuning: Tuning, state: TuningState, why: str) -> None:
        log.info("%s: tuning %s is %s: %s", tuning.name, tuning.id, state, why)
        self._update(tuning.id, state=state, why=why)

    def _update(self, tuning: str, **changed: Any) -> None:
        with self._lock:
            self._save(self._tunings[tuning].model_copy(update=changed))

    def _save(self, tuning: Tuning) -> None:
        with self._lock:
            self._tunings[tuning.id] = tuning
            for old in list(self._tunings)[:-MAX_TUNINGS]:
                if not _is_active(self._tunings[old]):
                    del self._tunings[old]
            self._storage.tunings.save(_TUNINGS.dump_json(list(self._tunings.values())).decode())

    def recent(self, topology: str, since_ms: float) -> Sequence[Sample]:
        """Return the windows of a topology (id) since a time in ms since 1970."""
        return self._storage.recent(topology, since_ms)

    def _measured(self, topology: str) -> Sequence[Sample]:
        return self.recent(topology, 1000 * (self._plans.clock.time() - BEFORE_S))


def _is_active(tuning: Tuning) -> bool:
    """Return whether a tuning goes on, or has a trial that is not evaluated."""
    return tuning.state == "running" or bool(tuning.plan)


def _tried(tuning: Tuning) -> list[ConfigChange]:
    """Return the changes that were tried, each with those before it that stay."""
    found, base = [], ConfigChange()
    for trial in tuning.trials:
        change = base & ConfigChange(trial.executors, trial.conf, trial.placed)
        found.append(change)
        if trial.state == "better":
            base = ConfigChange(change.executors, change.conf)
    return found


def _latency(samples: Sequence[Sample]) -> Latency:
    means = [each.latency_ms for each in samples if each.latency_ms is not None]
    p99s = [each.p99_ms for each in samples if each.p99_ms is not None]
    return Latency(*(sum(each) / len(each) if each else None for each in (means, p99s)))


def _gain_text(candidate: Candidate, aim: TuningAim) -> str:
    found, name = candidate.range, "rate" if aim.quantity == "throughput" else "trees for its CPU"
    return f"{name} ×{found.value:.2f} expected, ×{found.low:.2f} to ×{found.high:.2f}"
