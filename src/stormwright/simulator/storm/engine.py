"""The virtual cluster's engine that follows every tuple."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem
from stormwright.predict.flow.profile import Profile
from stormwright.simulator.engine import NOWHERE, EngineCounts
from stormwright.simulator.settings import Settings
from stormwright.simulator.storm.counting import TakenCounts, counted
from stormwright.simulator.storm.events import LOOK, NOTHING, PLACED, SPEED, START, STOP, go_on_until
from stormwright.simulator.storm.placing import Workers, fitting, freed, put_together, seated
from stormwright.simulator.storm.start import start, with_room


class Events:
    """A virtual Storm cluster, tuple by tuple (`stormwright.simulator.engine.Engine`).

    Parameters
    ----------
    problem
        With nodes, and a load.
    slots
        Slot of every executor, `NOWHERE` for those that do not run, shape (E,); their workers are up at once.
    settings
        What else is taken for given; by default with the costs that come with the problem.
    profile
        Of the load, where that was measured under another placement or on other nodes than `problem` has.

    Attributes
    ----------
    at_once
        How many tuples are one event: as many as the settings say, or fewer where so many do not fit.

    Raises
    ------
    InputError
        What comes with the problem's load are no costs.
    """

    def __init__(
        self,
        problem: Problem,
        slots: NDArray[np.int32],
        settings: Settings | None = None,
        profile: Profile | None = None,
    ) -> None:
        self.problem, self.settings = problem, settings or Settings.of(problem)
        self._profile = profile or Profile.of(problem)
        self.cluster = start(problem, self.settings, self._profile)
        self.at_once = fitting(self.cluster, self.settings.tuples_at_once)
        put_together(self.cluster, self.at_once)
        self._rates = np.ones(len(problem.topologies))
        self._apart_s = self.cluster.spouts["apart_s"].copy()
        self._down = np.zeros(len(problem.supervisors), dtype=bool)
        self._slots = np.full(problem.num_executors, NOWHERE, np.int32)
        self._workers = Workers(problem, self._profile, self.settings, self.at_once)
        self._taken = self.seen
        self._place(slots, startup_s=0.0)

    @property
    def now_s(self) -> float:
        """The instant that was reached."""
        return float(self.cluster.run[0]["now"])

    @property
    def hops(self) -> int:
        """Tuples that executors have handled so far."""
        return self.at_once * int(self.cluster.run[0]["hops"])

    def until(self, time_s: float) -> None:
        """Go on to an instant."""
        self._tell(NOTHING, until_s=float(time_s))

    def take(self) -> EngineCounts:
        """What was counted since this was last asked for."""
        self._taken, found = counted(self.cluster, self._taken, self.seen)
        return found

    @property
    def seen(self) -> TakenCounts:
        """What was counted so far, with what `take` does not tell."""
        return TakenCounts.of(self.cluster, self.at_once)

    @property
    def pending(self) -> NDArray[np.int64]:
        """Trees of every topology that are under way, shape (T,)."""
        spouts, count = self.cluster.spouts, len(self.problem.topologies)
        topology = np.array(self.cluster.threads["topology"][spouts["thread"]])
        return self.at_once * np.bincount(topology, spouts["pending"], count).astype(np.int64)

    @property
    def queue_peaks(self) -> NDArray[np.int64]:
        """Most tuples that were in the receive queue of every executor so far, shape (E,)."""
        return self.at_once * np.array(self.cluster.seen["most"][: self.problem.num_executors])

    @property
    def queue_limits(self) -> NDArray[np.int64]:
        """How many there may be, shape (E,)."""
        return self.at_once * np.array(self.cluster.threads["limit"][: self.problem.num_executors])

    def place(self, slots: NDArray[np.int32]) -> None:
        """Executors' slots from now on; workers that are new or whose executors change start up."""
        self._place(slots, self.settings.startup_s)

    def activate(self, topology: int, active: bool) -> None:
        """Whether a topology's spouts begin trees."""
        self.cluster.topologies["active"][topology] = active
        self._tell(LOOK, topology)

    def rate(self, topology: int, factor: float) -> None:
        """Spouts of a topology are offered as many trees as at first, times a factor."""
        spouts = self.cluster.spouts
        own = np.flatnonzero(self.cluster.threads["topology"][spouts["thread"]] == topology)
        for number in own:
            first_s, old_s = self._apart_s[number], spouts["apart_s"][number]
            if not 0 < first_s < np.inf:
                continue
            new_s = first_s / factor if factor > 0 else np.inf
            # The part of the time until the next tree that is left stays.
            left = (spouts["comes"][number] - self.now_s) / old_s if old_s < np.inf else 1.0
            spouts["apart_s"][number] = new_s
            spouts["comes"][number] = self.now_s + left * new_s if new_s < np.inf else np.inf
        self._tell(LOOK, topology)

    def kill(self, slot: int) -> None:
        """The workers in a slot die; their supervisor starts them again."""
        for worker in self._workers.in_slot(slot):
            self._tell(STOP, worker)
            self._start(worker, self.settings.startup_s)

    def node(self, node: int, up: bool) -> None:
        """A node goes down, with all that runs there, or comes back and starts its workers."""
        if up != self._down[node]:
            return
        self._down[node] = not up
        for worker in self._workers.on_node(self.cluster, node):
            if up:
                self._start(worker, self.settings.startup_s)
            else:
                self._tell(STOP, worker)

    def slow(self, node: int, factor: float) -> None:
        """A node's cores have their speed times a factor."""
        each = len(self.cluster.shares.cores) // len(self._down)
        for core in range(node * each, (node + 1) * each):
            self._tell(SPEED, core, max(factor, 1e-9))

    def _place(self, slots: NDArray[np.int32], startup_s: float) -> None:
        before, after = self._workers.seats(self._slots), self._workers.seats(slots)
        gone = [seat for seat, executors in before.items() if after.get(seat) != executors]
        come = [seat for seat, executors in after.items() if before.get(seat) != executors]
        for seat in gone:
            worker = self._workers.number(seat)
            self._tell(STOP, worker)
            freed(self.cluster, worker, before[seat])
            self._workers.free(seat)
        started = [self._workers.take(seat) for seat in come]
        self.cluster = seated(
            self.cluster, self._workers, list(zip(started, (after[seat] for seat in come), strict=True))
        )
        self._slots = np.array(slots, np.int32)
        self._tell(PLACED)
        for worker in started:
            self._start(worker, startup_s)

    def _start(self, worker: int, startup_s: float) -> None:
        if not self._down[self.cluster.workers["node"][worker]]:
            self._tell(START, worker, self.now_s + startup_s)

    def _tell(self, what: int, which: int = 0, amount: float = 0.0, until_s: float = -1.0) -> None:
        go_on_until(self.cluster, what, int(which), float(amount), until_s if what == NOTHING else self.now_s)
        while self.cluster.run[0]["full"]:
            tuples, trees = len(self.cluster.tuples), len(self.cluster.trees)
            short = int(self.cluster.run[0]["tuples_left"]) < int(self.cluster.run[0]["most_sent"])
            needed = max(tuples, int(self.cluster.run[0]["most_sent"]))
            self.cluster = with_room(self.cluster, needed if short else 0, 0 if short else trees)
            go_on_until(self.cluster, NOTHING, 0, 0.0, until_s if what == NOTHING else self.now_s)
