"""Monitor of the cluster's health: watches everything in threads of its own, and returns findings on demand."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self
from urllib.parse import quote

from stormwright.base.clock import WALL, Clock
from stormwright.client.shapes import Concern, Level
from stormwright.model import Problem, Topology
from stormwright.model.batches import BatchFault, batch_faults
from stormwright.service.health.machine import TICK_S, ClockWatch, LoadWatch, StandstillWatch
from stormwright.service.health.nimbus import (
    NimbusWatch,
    PolledNimbus,
    SilentSupervisor,
    rest_of_sentence,
    supervisor_texts,
)
from stormwright.service.health.worker_texts import NAMED, failing_texts, warming_texts, worker_texts
from stormwright.service.health.workers import WorkerReports
from stormwright.service.on_change import OnChange

log = logging.getLogger(__name__)

#: Seconds for which findings are not made again.
FRESH_S = 0.5


class HealthMonitor:
    """Findings about faults of the cluster; a context manager that watches while it is open.

    Parameters
    ----------
    workers
        Arrival of the records of workers.
    snapshot
        Returns the newest placement of Nimbus; None before the first.
    load_age_s
        Returns the seconds since the newest load was measured; None if there is none.
    storing_error
        Returns why records cannot be stored; empty if they can.
    node
        Returns the display name of a node by the id of its supervisor.
    clock
        Clock of the service.
    """

    def __init__(
        self,
        workers: WorkerReports,
        snapshot: Callable[[], Problem | None],
        load_age_s: Callable[[], float | None],
        storing_error: Callable[[], str],
        node: Callable[[str], str],
        clock: Clock = WALL,
    ) -> None:
        self._snapshot, self._load_age_s, self._storing_error = snapshot, load_age_s, storing_error
        self._workers, self._node, self._clock = workers, node, clock
        self._clocks, self._standstill, self._loads = ClockWatch(clock), StandstillWatch(clock), LoadWatch(clock)
        self._nimbus: NimbusWatch | None = None
        self._stop, self._log_changed = threading.Event(), OnChange(log.warning)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._found: tuple[float, tuple[Concern, ...]] = (float("-inf"), ())

    def watch(self, nimbus: PolledNimbus) -> Self:
        """Return this monitor, with the gateway that it polls from its start on."""
        self._nimbus = NimbusWatch(nimbus, self._clock)
        return self

    def __enter__(self) -> Self:
        self._standstill = StandstillWatch(self._clock)
        for name, work in (("health", self.tick), ("health-nimbus", self.poll)):
            thread = threading.Thread(target=self._repeat, args=[work], name=f"stormwright-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stop.set()
        # A poll in progress ends with the gateway.
        self._threads[0].join(5)

    def _repeat(self, work: Callable[[], float]) -> None:
        """Repeat work, which returns the seconds until the next time; a failure affects none of the other findings."""
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            try:
                wait_s = work()
            except Exception as error:  # such as an answer of another form
                self._log_changed(f"the health of the cluster is not complete: {type(error).__name__}: {error}")
                log.debug("what failed", exc_info=error)
                wait_s = TICK_S

    def poll(self) -> float:
        """Poll Nimbus once, and return the seconds until the next poll."""
        return self._nimbus.poll() if self._nimbus else TICK_S

    def tick(self) -> float:
        """Note the clock, the placement and the age of loads, and return the seconds until the next time."""
        self._standstill.tick()
        self._clocks.tick()
        self._loads.tick(self._load_age_s(), self._workers.heard_s, self._workers.interval_s)
        if (problem := self._snapshot()) is not None:
            self._workers.expect(problem)
        return TICK_S

    def findings(self) -> Sequence[Concern]:
        """Return all findings, worst first; none unless it watches."""
        if self._nimbus is None:
            return ()
        with self._lock:
            now_s = self._clock.monotonic()
            if not 0 <= now_s - self._found[0] < FRESH_S:
                found = sorted(self._made(self._nimbus), key=lambda each: each.level != "bad")
                self._found = now_s, tuple(found)
            return self._found[1]

    def _made(self, nimbus: NimbusWatch) -> list[Concern]:
        found: list[Concern] = []

        def add(level: Level, text: str, page: str) -> None:
            found.append(Concern(level=level, text=text, page=page))

        problem, since_s = self._snapshot(), self._standstill.since_s
        faults, silence = self._workers.faults(since_s, nimbus.statuses), nimbus.silence()
        silent = [] if silence else nimbus.supervisors.silent(self._clock.monotonic(), since_s)
        if error := self._storing_error():
            add("bad", f"Records cannot be stored: {error}", "/timeline")
            faults.silent.clear()
        if silence and faults.all_silent:
            newest_s = min(each.number for each in faults.silent)
            text = f"Neither Nimbus nor any probe has reached this service for {newest_s:.0f} s: is its link down?"
            add("bad", text, "/cluster")
            faults.silent.clear()
        elif silence:
            add("bad", silence, "/cluster")
        names = {each.id: each.name for each in problem.topologies} if problem else {}
        supervisors = {each.id: rest_of_sentence(each) for each in silent}
        named = set()
        failing = self._workers.failing()
        of_trees = failing_texts(failing, names)
        for each in (*worker_texts(faults, names, self._node, supervisors), *of_trees):
            page = _topology(each.topology) if each.topology else _node(each.supervisor)
            add("bad" if each.is_bad else "warn", each.text, page)
            named |= {each.supervisor} if each.is_bad and each.supervisor else set()
        stuck = {each.topology for each in failing}
        for topology, fault in _batch_faults(problem) if problem else ():
            is_bad = fault.ends_workers or topology.id in stuck
            add("bad" if is_bad else "warn", f"{topology.name}: {fault.text}", _topology(topology.id))
        for text, supervisor in self._supervisors(silent, nimbus.supervisors.count, named):
            add("warn", text, _node(supervisor.id))
        for each in warming_texts(faults, names):
            add("note", each.text, _topology(each.topology))
        own = (self._clocks.text(), self._standstill.text(), self._loads.text())
        for text in filter(None, own):
            add("warn", text, "/timeline")
        return found

    def _supervisors(
        self, silent: list[SilentSupervisor], count: int, named: set[str]
    ) -> list[tuple[str, SilentSupervisor]]:
        """Return sentences about the first silent supervisors, without those of nodes that are named."""
        texts = [each for each in supervisor_texts(silent, count, self._node) if each[1].id not in named]
        return texts[:NAMED]


def _batch_faults(problem: Problem) -> Iterator[tuple[Topology, BatchFault]]:
    for topology in problem.topologies:
        for fault in batch_faults(topology, problem.conf):
            yield topology, fault


def _node(supervisor: str) -> str:
    return f"/cluster/nodes/{quote(supervisor, safe='')}" if supervisor else "/cluster"


def _topology(topology: str) -> str:
    return f"/topologies/{quote(topology, safe='')}"
