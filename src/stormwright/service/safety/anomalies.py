"""Anomalies: detected, reported, and handled as far as the modes allow."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from stormwright.base.documents import read_or_default
from stormwright.client.shapes import Anomalies, Anomaly, DrainRequest
from stormwright.controller.safety.capacities import wrong_capacities
from stormwright.controller.safety.holds import Hold
from stormwright.controller.safety.slowness import SlowNode, SlowNodes, WorkWindows
from stormwright.errors import StormwrightError
from stormwright.model import Problem
from stormwright.plans.modes import AUTO, FIX, IGNORE, AnomalyKind, response_to
from stormwright.plans.states import PlanState
from stormwright.service.notifications.notifier import ServiceEvent
from stormwright.service.plans.guard import Guard
from stormwright.service.plans.store import PlanStore
from stormwright.service.safety.nodes import NodeService
from stormwright.service.storage.database import State

log = logging.getLogger(__name__)

#: States of a plan in which a person has to look at it.
_REPORTED: tuple[PlanState, ...] = ("waiting", "stopped", "failed", "proposed")

#: Reasons why nothing moves that are reported: that a service has just started is not.
_HOLDS = ("missing", "rebalancing", "silent", "stale")

#: Seconds from one look to the next, and for which a node may be away before that is an anomaly.
EVERY_S, LOST_S = 5.0, 30.0

#: A slow node that a service before this one has found counts for this many seconds: its records are lost.
SLOW_NODE_EXPIRY_S = 3600.0

#: Author of automatic drains, and the maximum part of all nodes that they drain, at least one.
ITSELF, MAX_DRAINED = "stormwright", 0.1

_NAME = "anomalies"


class EventNotifier:
    """Checks each second for events to report.

    Parameters
    ----------
    plans
        Plans and their states.
    hold
        Why nothing moves; None where things may.
    notify
        Called with each new event; returns at once.
    """

    def __init__(
        self, plans: PlanStore, hold: Callable[[], Hold | None], notify: Callable[[ServiceEvent], None]
    ) -> None:
        self._plans, self._hold, self._notify = plans, hold, notify
        # What stood so before the service started was told by the one before.
        self._known = {(plan, state) for plan, state, _ in plans.states(_REPORTED)}
        self._held = ""

    def look(self) -> None:
        """Report new events."""
        stand = self._plans.states(_REPORTED)
        for plan, state, why in stand:
            if (plan, state) not in self._known:
                log.info("plan %s is %s: %s", plan, state, why)
                self._notify(ServiceEvent("plan", f"plan {plan}", f"it is {state}: {why}"))
        self._known = {(plan, state) for plan, state, _ in stand}
        hold = self._hold()
        code = hold.code if hold and hold.code in _HOLDS else ""
        if code != self._held:
            if self._held:
                log.info("things may move again")
                self._notify(ServiceEvent("hold", self._held, "things may move again", over=True))
            if hold and code:
                log.warning("nothing moves: %s", hold.why)
                self._notify(ServiceEvent("hold", code, hold.why))
            self._held = code


#: Relative change of a node's CPU quota from which its past is no reference any more.
OTHER_QUOTA = 0.1


class SlowNodeMonitor:
    """Finds slow nodes in records as they come; safe to use from several threads.

    A node with another CPU quota is another node: work under less of it takes longer, which is an anomaly of its own.
    """

    def __init__(self) -> None:
        self._work, self._nodes, self._lock = WorkWindows(), SlowNodes(), threading.Lock()
        self._millicores: dict[str, int] = {}

    def count(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Take records that were not taken before."""
        with self._lock:
            records = list(records)
            self._nodes.forget(list(self._with_other_quota(records)))
            self._work.count(records)
            for window in self._work.over():
                self._nodes.take(window)

    def slow(self) -> dict[str, SlowNode]:
        """Node → why it is slow."""
        with self._lock:
            return dict(self._nodes.slow)

    def _with_other_quota(self, records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Yield the nodes whose quota has changed noticeably."""
        for record in records:
            node, millicores = record["worker"]["supervisor"], (record.get("node") or {}).get("millicores")
            if not millicores:
                continue
            before = self._millicores.get(node)
            if before is None or abs(millicores / before - 1) > OTHER_QUOTA:
                self._millicores[node] = millicores
                if before is not None:
                    yield node

    def forget(self, nodes: Iterable[str]) -> None:
        """Forget the references of nodes that are gone."""
        with self._lock:
            self._nodes.forget(list(nodes))


class AnomalyMonitor:
    """Records anomalies and handles them; `look` runs on the thread of the control loop.

    An anomaly is acted on as long as it is open, not as it comes: one that came while that was not allowed is acted on
    once it is.

    Parameters
    ----------
    guard, nodes
        Limits of what is allowed, and the nodes to drain.
    problem
        What runs now; None where that is not known.
    slow
        Monitor that reports slow nodes from the records of workers.
    notify
        Takes events for the outside; returns at once.
    state
        Keeps what was found over restarts.
    """

    def __init__(
        self,
        guard: Guard,
        nodes: NodeService,
        problem: Callable[[], Problem | None],
        slow: SlowNodeMonitor,
        notify: Callable[[ServiceEvent], None],
        state: State,
    ) -> None:
        self._guard, self._nodes, self._problem, self._slow, self._notify = guard, nodes, problem, slow, notify
        self._state, self._looked_s = state, float("-inf")
        stored = read_or_default(
            state.document(_NAME),
            Anomalies.model_validate_json,
            lambda: Anomalies(anomalies=()),
            "open anomalies are found again",
        )
        self._open = {(each.kind, each.supervisor or each.node): each for each in stored.anomalies}
        self._before = {key: each.text for key, each in self._open.items() if each.kind == "slow-node"}
        self._begun_s = self._state.clock.time()

    def all(self) -> Anomalies:
        """Return the open anomalies."""
        return Anomalies(anomalies=tuple(sorted(self._open.values(), key=lambda each: (each.since_ms, each.node))))

    def look(self) -> None:
        """Detect anomalies and handle them; cheap enough for each second."""
        now_s = self._state.clock.time()
        if 0 <= now_s - self._looked_s < EVERY_S or (problem := self._problem()) is None:
            return
        self._looked_s = now_s
        found, before = self._found(problem, now_s), self._open
        opened = {
            key: before[key].model_copy(update={"text": text}) if key in before else self._begun(*key, text, now_s)
            for key, text in found.items()
        }
        self._open = {key: self._respond(problem, each) for key, each in opened.items()}
        for key in self._open.keys() - before.keys():
            self._notify_of(self._open[key], over=False)
        for key in before.keys() - self._open.keys():
            self._notify_of(before[key], over=True)
        if self._open != before:
            self._save()

    def _found(self, problem: Problem, now_s: float) -> dict[tuple[AnomalyKind, str], str]:
        """Return the text of each anomaly by kind and node."""
        nodes, name = problem.node_index, self._guard.holds.names.of
        slow, lost = self._slow.slow(), self._guard.holds.lost(problem, now_s, LOST_S)
        if gone := slow.keys() - nodes.keys():
            self._slow.forget(gone)
        if now_s - self._begun_s > SLOW_NODE_EXPIRY_S:
            self._before = {}
        found: dict[tuple[AnomalyKind, str], str] = {key: text for key, text in self._before.items() if key[1] in nodes}
        found |= {("slow-node", node): f"{name(node)}: {why}" for node, why in slow.items() if node in nodes}
        found |= {
            ("node-lost", node): f"{name(node)} has been away for {away_s:.0f} s" for node, away_s in lost.items()
        }
        found |= {("capacity", each.supervisor): str(each) for each in wrong_capacities(problem)}
        return found

    def _begun(self, kind: AnomalyKind, node: str, text: str, now_s: float) -> Anomaly:
        name, since_ms = self._guard.holds.names.of(node), round(now_s * 1000)
        return Anomaly(kind=kind, node=name, supervisor=node, text=text, since_ms=since_ms, response=FIX)

    def _respond(self, problem: Problem, anomaly: Anomaly) -> Anomaly:
        """Return the anomaly after handling it."""
        response = response_to(self._guard.modes, anomaly.kind)
        update: dict[str, str] = {"response": response, "waits": ""}
        if anomaly.kind == "slow-node":
            host = problem.supervisors[problem.node_index[anomaly.supervisor or anomaly.node]].host
            if host in self._guard.drains.hosts:
                update["action"] = anomaly.action or f"{host} is drained"
            elif response == FIX and not anomaly.action:
                update |= self._drain(problem, host, anomaly.text)
        return anomaly.model_copy(update=update)

    def _drain(self, problem: Problem, host: str, why: str) -> dict[str, str]:
        try:
            if why_not := self._why_not(problem, host):
                return {"waits": why_not}
            self._nodes.drain(host, DrainRequest(by=ITSELF, reason=f"it is slow: {why}"))
        except StormwrightError as error:
            return {"waits": error.line}
        return {"action": f"{host} was drained"}

    def _why_not(self, problem: Problem, host: str) -> str:
        mode, why = self._guard.allowed(problem, host)
        if mode != AUTO:
            return why
        drained = sum(each.by == ITSELF for each in self._guard.drains.all())
        if drained >= max(1, int(MAX_DRAINED * len(problem.supervisors))):
            return f"{drained} are drained like this already: a person has to look"
        return ""

    def _notify_of(self, anomaly: Anomaly, *, over: bool) -> None:
        if anomaly.response == IGNORE:
            return
        text = anomaly.text + (f"; {more}" if (more := anomaly.action or anomaly.waits) else "")
        log.warning("%s %s: %s", anomaly.kind, anomaly.node, "is over" if over else text)
        at_ms = round(self._state.clock.time() * 1000)
        self._notify(ServiceEvent(anomaly.kind, anomaly.node, "is over" if over else text, over=over, at_ms=at_ms))

    def _save(self) -> None:
        self._state.document(_NAME).save(self.all().model_dump_json())
