"""Autopilots: topologies with an objective get the capacity that it needs, and no more."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from stormwright.controller.autopilot import Autopilot, AutopilotSettings, Observed, Slo, WantedCapacity
from stormwright.controller.description import FigureSources
from stormwright.controller.objectives.placements import Placements
from stormwright.controller.requests import NoPlan
from stormwright.controller.sizing import sized
from stormwright.errors import ConflictError, NotFoundError, StormwrightError
from stormwright.history.evaluation.window import Sample
from stormwright.model import Problem
from stormwright.plans.plan import SERVICE, Plan
from stormwright.plans.states import FINAL_STATES, HALTED_STATES
from stormwright.plans.tuning import TuningAim
from stormwright.predict.fixed_point import waiting
from stormwright.predict.flow.layout import FlowLayout
from stormwright.service.plans.own_plans import OwnPlan, Planner
from stormwright.service.plans.store import PlanStore

log = logging.getLogger(__name__)

#: Seconds from one look to the next, and after a plan that has changed nothing.
LOOK_S, AGAIN_S = 10.0, 300.0

#: Seconds over which it is taken how much arrives.
SPAN_S = 30.0


def arriving(samples: Sequence[Sample]) -> float | None:
    """Return the trees/s that a source got in windows that follow each other, after the first one of them.

    None if a window is missing or has no backlog. A backlog may be some seconds old, so half of `SPAN_S` are needed.
    """
    waiting = [sample.backlog for sample in samples if sample.backlog is not None]
    if len(waiting) < len(samples) or samples[-1].start_ms - samples[0].start_ms < 500 * SPAN_S:
        return None
    if any(after.start_ms - one.start_ms > 1500 * after.length_s for one, after in itertools.pairwise(samples)):
        return None
    later = samples[1:]
    done = sum(sample.acked for sample in later) + waiting[-1] - waiting[0]
    return max(done / sum(sample.length_s for sample in later), 0.0)


def _nodes(problem: Problem, topology: str) -> frozenset[str]:
    placed = problem.current.get(topology)
    return frozenset(slot.supervisor for slot in placed.slots) if placed else frozenset()


class AutopilotService:
    """Watches topologies with an objective in mode auto; `advance` is called each second by one thread.

    Parameters
    ----------
    planner
        Makes and starts plans.
    plans
        Stored plans, for their states.
    recent
        Returns the windows of a topology since a time in ms since 1970.
    busy
        Returns topologies (ids) that something else decides about now, such as a tuning.
    settings
        Limits of changes; None for the defaults.
    """

    def __init__(
        self,
        planner: Planner,
        plans: PlanStore,
        recent: Callable[[str, float], Sequence[Sample]],
        busy: Callable[[], Mapping[str, str]] = dict,
        settings: AutopilotSettings | None = None,
    ) -> None:
        self._planner, self._plans, self._recent, self._busy = planner, plans, recent, busy
        self._settings = settings
        #: Objectives by topology (id) of those in mode auto: replaced as a whole, as several threads read it.
        self._objectives: Mapping[str, Slo] = {}
        #: The rest belongs to the thread that makes plans.
        self._pilots: dict[str, Autopilot] = {}
        #: Topology → the end of its last window in ms since 1970, and its plan that is not done yet.
        self._windows_ms: dict[str, float] = {}
        self._last: dict[str, deque[Sample]] = {}
        self._plan_of: dict[str, str] = {}
        #: Nodes before a smaller size: by its plan, and by topology once it has that size.
        self._smaller: dict[str, frozenset[str]] = {}
        self._had_nodes: dict[str, frozenset[str]] = {}
        #: Topology → seconds before which nothing is changed.
        self._not_before_s: dict[str, float] = {}
        self._next_s = float("-inf")
        self._looking = threading.Lock()

    def held(self) -> dict[str, str]:
        """Return topologies (ids) that nothing else moves, with the reason."""
        return dict.fromkeys(self._objectives, "its objective decides about its size")

    def advance(self) -> None:
        """Have it decided about all topologies with an objective; cheap where there are none."""
        now_s = self._plans.clock.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_S
        try:
            problem = self._planner.now()
        except ConflictError:
            return
        objectives = {each.id: slo for each in problem.topologies if (slo := Slo.of(each.conf)) is not None}
        closed = {**self._planner.not_automatic(problem), **self._busy()} if objectives else {}
        self._objectives = {topology: slo for topology, slo in objectives.items() if topology not in closed}
        if self._objectives and self._looking.acquire(blocking=False):
            self._planner.run_later(partial(self._look, problem, self._objectives))

    def _observe(self, topology: str, pending_limit: float) -> None:
        pilot, minute_ms = self._pilots[topology], 1000 * (self._plans.clock.time() - 60)
        for sample in self._recent(topology, self._windows_ms.get(topology, minute_ms)):
            # By its begin: what its workers cover may be some ms more than it is long.
            self._windows_ms[topology] = sample.start_ms + 1
            end_ms = sample.start_ms + 1000 * max(sample.length_s, 1.0)
            known = sample.pending is not None and np.isfinite(pending_limit)
            part = np.array((sample.pending or 0.0) / pending_limit if known else np.nan)
            last = self._last.setdefault(topology, deque())
            last.append(sample)
            while last[0].start_ms < sample.start_ms - 1000 * SPAN_S:
                last.popleft()
            comes, late = arriving(list(last)), float(waiting(part))
            pilot.observe(Observed(end_ms / 1000, sample.acked_tps, late, sample.p99_ms, comes, sample.backlog))

    def _end_plans(self) -> None:
        for topology, plan in list(self._plan_of.items()):
            try:
                found = self._plans.summary(plan)
            except NotFoundError:  # it is too old
                del self._plan_of[topology]
                continue
            if found.state not in (*FINAL_STATES, *HALTED_STATES):
                continue
            del self._plan_of[topology]
            before = self._smaller.pop(plan, None)
            if found.state == "done" and found.step_count and topology in self._pilots:
                self._pilots[topology].changed(self._plans.clock.time())
                if before is not None:
                    self._had_nodes[topology] = before
            else:
                self._not_before_s[topology] = self._plans.clock.monotonic() + AGAIN_S

    def _note_taken_back(self, problem: Problem, topology: str) -> None:
        """Note that a smaller size was taken back, which is a plan of its own: its nodes are those of before again."""
        if topology in self._had_nodes and _nodes(problem, topology) == self._had_nodes[topology]:
            del self._had_nodes[topology]
            self._pilots[topology].taken_back(self._plans.clock.time())

    def _look(self, problem: Problem, objectives: Mapping[str, Slo]) -> None:
        """Observe topologies, and decide about them."""
        try:
            self._pilots = {
                topology: self._pilots.get(topology) or Autopilot(slo, self._settings)
                for topology, slo in objectives.items()
            }
            for topology, pilot in self._pilots.items():
                pilot.slo = objectives[topology]  # it may be another one now
            self._end_plans()
            limits = FlowLayout.of(problem).pending
            for topology in objectives:
                self._observe(topology, float(limits[problem.topology_index[topology]]))
                self._note_taken_back(problem, topology)
            now_s, wall_s = self._plans.clock.monotonic(), self._plans.clock.time()
            ready = [
                topology
                for topology, pilot in self._pilots.items()
                if topology not in self._plan_of
                and now_s >= self._not_before_s.get(topology, now_s)
                and pilot.is_ready(wall_s)
            ]
            predicted = Placements(problem).predicted(problem.current_slot).topologies if ready else ()
            for topology in ready:
                index = problem.topology_index[topology]
                capacity_tps = predicted[index].reachable_tps.value
                if wanted := self._pilots[topology].wanted(wall_s, capacity_tps):
                    self._change(problem, index, wanted, objectives[topology])
        except StormwrightError as error:
            log.info("the size of topologies cannot be decided now: %s", error)
        except Exception:  # other plans do not wait for it
            log.exception("the size of topologies cannot be decided")
        finally:
            self._looking.release()

    def _change(self, problem: Problem, index: int, wanted: WantedCapacity, slo: Slo) -> None:
        topology = problem.topologies[index]

        def make(_: str, problem: Problem, sources: FigureSources) -> Plan | NoPlan:
            if topology.id not in problem.topology_index:
                return NoPlan("nothing_to_do", f"{topology.name} does not run any more")
            inputs = self._planner.plan_inputs(problem, sources)
            index = problem.topology_index[topology.id]
            found = sized(problem, index, wanted, slo, self._planner.sizing_scheduler, inputs)
            if isinstance(found, NoPlan) or wanted.is_more:
                return found
            # With less capacity it is slower: it goes back only where its objective is not held.
            return found.model_copy(update={"aim": TuningAim("cores", p99_ms=slo.p99_ms)})

        requested = OwnPlan("service", "nodes", SERVICE, f"{topology.name}: {wanted.why}", {"topology": topology.id})
        try:
            self._plan_of[topology.id] = self._planner.add_made(requested, make)
            self._had_nodes.pop(topology.id, None)
            if not wanted.is_more:
                self._smaller[self._plan_of[topology.id]] = _nodes(problem, topology.id)
        except ConflictError as error:
            log.info("%s: %s; but not now: %s", topology.name, wanted.why, error)
