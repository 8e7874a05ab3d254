"""Engine of the virtual cluster that follows every tuple."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import Record, compiled, inner, often
from stormwright.jit.random_numbers import draw, draw_below
from stormwright.model import Problem
from stormwright.predict.flow.profile import Profile
from stormwright.simulator.engine import NOWHERE, EngineCounts
from stormwright.simulator.kernel.arrays import NEVER
from stormwright.simulator.kernel.clock import first_of, set_time
from stormwright.simulator.kernel.quotas import account, begin, count_throttled, give_back, serve
from stormwright.simulator.kernel.shares import drop_of, has_done, take_first
from stormwright.simulator.kernel.turns import (
    end_turn,
    finish,
    give_way,
    has_finished,
    is_over,
    run_on,
    withdraw,
)
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.carrying import link_done
from stormwright.simulator.storm.counting import EngineTotals, counted, ends_of
from stormwright.simulator.storm.placing import SimulatedWorkers, combine_tuples, freed, seated
from stormwright.simulator.storm.queues import call_waiting, end_tuple, lose, note_lost, take
from stormwright.simulator.storm.records import (
    ASLEEP,
    BLOCKED,
    GONE,
    NONE,
    SENDER,
    SPOUT,
    WORKS,
    ClusterState,
)
from stormwright.simulator.storm.routes import look_at_loads, place_shuffles
from stormwright.simulator.storm.start import most_at_once, start, with_room
from stormwright.simulator.storm.threads import rouse, step
from stormwright.simulator.storm.trees import end_tree, time_out
from stormwright.simulator.storm.warm_up import STEP_S, WarmingWorkers
from stormwright.simulator.storm.working import divide_cores, pass_time, set_core, set_speed, stop_alone

#: Commands: none; executors moved; a worker opens its port at a time; a worker stops; spouts check whether they may
#: begin trees; cores change speed.
NOTHING, PLACED, START, STOP, LOOK, SPEED = range(6)

#: Interval of load checks, in seconds.
_LOOKS_S = 1.0

#: Events after which Python gets a turn, to look at signals: virtual time may hardly advance.
_TURN = 200_000


@compiled
def go_on_until(cluster: ClusterState, command: int, which: int, amount: float, until: float) -> None:
    """Apply a command, then advance to a time, or until it is Python's turn, or there is no space for tuples or trees.

    Parameters
    ----------
    cluster
        Records of the cluster, which command and events change.
    command, which, amount
        Command, its target, and a time or factor.
    until
        Time to advance to.
    """
    run = cluster.run[0]
    if command != NOTHING:
        _command(cluster, command, which, amount, run.now)
    run.full = run.paused = False
    events = 0
    while True:
        who = first_of(cluster.clock)
        now = cluster.clock.when[who]
        if now > until:
            run.now = until
            return
        if events == _TURN:
            run.paused = True
            return
        events += 1
        if run.tuples_left < run.most_sent or run.trees_left < 1:
            run.full = True
            return
        run.now = now
        if who < run.first_link:
            _thread_or_core(cluster, who, now)
        elif who < run.first_spouts:
            link_done(cluster, who - run.first_link, now)
        elif who < run.first_quota:
            number = who - run.first_spouts
            time_out(cluster, number, now)
            topology = cluster.threads[cluster.spouts[number].thread].topology
            set_time(cluster.clock, who, now + cluster.topologies[topology].timeout_s)
        elif who < run.first_quota + len(cluster.quotas):
            _serve(cluster, who, now)
        else:
            look_at_loads(cluster)
            set_time(cluster.clock, who, now + _LOOKS_S)


@often
def _thread_or_core(cluster: ClusterState, who: int, now: float) -> None:
    """Handle an event of a thread or a core, usually the completion of a job."""
    run, jobs = cluster.run[0], cluster.shares.jobs
    if who < run.threads:
        number, goes_on = NONE, who if _wakes(cluster, who, now) else NONE
    else:
        number = who - run.threads
        goes_on = _finished(cluster, cluster.shares.cores[number], now)
    if goes_on != NONE:
        step(cluster, goes_on, now)
    if number == NONE:
        if cluster.threads[who].state != WORKS or cluster.threads[who].alone:
            return
        number, goes_on = cluster.threads[who].core, NONE
    core = cluster.shares.cores[number]
    if core.quota >= 0:
        if goes_on != NONE:
            end_turn(core, jobs)
            if core.count == 0:
                give_back(cluster.quotas[core.quota], core, now)
        _account(cluster, core, now)
    set_core(cluster, number)


@inner
def _finished(cluster: ClusterState, core: Record, now: float) -> int:
    """Return the thread that has completed its work on a core, if any; else switch turns."""
    jobs = cluster.shares.jobs
    pass_time(cluster, core, now)
    if core.quota < 0:
        return take_first(core, jobs) if has_done(core, jobs) else NONE
    if has_finished(core, jobs):
        return finish(core, jobs)
    if is_over(core):
        give_way(core, jobs)
    return NONE


@inner
def _wakes(cluster: ClusterState, who: int, now: float) -> bool:
    """Return whether a thread continues at its time: not while it wakes, and not when it has only begun to."""
    thread = cluster.threads[who]
    if thread.state == ASLEEP and thread.wakes_s > 0.0:
        rouse(cluster, who, now)
        return False
    if thread.state == ASLEEP or (thread.state == WORKS and thread.alone):
        return True
    set_time(cluster.clock, who, NEVER)
    if thread.state == GONE and thread.kind == SENDER:
        _start_up(cluster, who, thread.worker, now)
    return bool(thread.state == BLOCKED)


@inner
def _account(cluster: ClusterState, core: Record, now: float) -> None:
    quota = cluster.quotas[core.quota]
    account(quota, core, now)
    if core.held:
        set_time(cluster.clock, cluster.run[0].first_quota + core.quota, quota.ends)


@inner
def _serve(cluster: ClusterState, who: int, now: float) -> None:
    """Begin a period of a quota: release throttled cores, as far as it lasts."""
    quota = cluster.quotas[who - cluster.run[0].first_quota]
    begin(quota, now)
    while True:
        held = count_throttled(quota, cluster.shares.cores)
        number = serve(quota, cluster.shares.cores, draw_below(cluster, held))
        if number < 0:
            set_time(cluster.clock, who, quota.ends if held > 0 else NEVER)
            return
        run_on(cluster.shares.cores[number], cluster.shares.jobs, now)
        set_core(cluster, number)


@inner
def _command(cluster: ClusterState, command: int, which: int, amount: float, now: float) -> None:
    if command == PLACED:
        place_shuffles(cluster)
        divide_cores(cluster, now)
    elif command == START:
        cluster.topologies[cluster.workers[which].topology].starting += 1
        set_time(cluster.clock, cluster.run[0].executors + which, amount)
    elif command == STOP:
        _stop(cluster, which, now)
    elif command == LOOK:
        _look_of_spouts(cluster, which, now)
    elif command == SPEED:
        set_speed(cluster, which, amount, now)


@inner
def _start_up(cluster: ClusterState, who: int, worker: int, now: float) -> None:
    """Open the port of a worker, behind which messages wait for its executors; later start these."""
    here = cluster.workers[worker]
    here.port_open = True
    if here.comes_up > now:
        set_time(cluster.clock, who, here.comes_up)
    else:
        _up(cluster, worker, now)


@inner
def _up(cluster: ClusterState, worker: int, now: float) -> None:
    """Start the threads of a worker."""
    here, run = cluster.workers[worker], cluster.run[0]
    here.up = True
    for who in range(run.threads):
        thread = cluster.threads[who]
        if thread.worker == worker:
            thread.state = ASLEEP
            if thread.kind == SPOUT:
                # Storm's timer of timeouts begins with the executor.
                cluster.spouts[thread.spout].looked = now
                set_time(
                    cluster.clock, run.first_spouts + thread.spout, now + cluster.topologies[here.topology].timeout_s
                )
            if thread.count > 0:
                set_time(cluster.clock, who, now)
            elif thread.polls:
                set_time(cluster.clock, who, now + draw(cluster) * thread.sleeps_s)
    _started(cluster, here.topology, now)


@inner
def _started(cluster: ClusterState, topology: int, now: float) -> None:
    """Record the start of a worker of a topology; once all its executors run, its spouts begin.

    They begin without some of them if they ran at the beginning: what is sent to those is lost.
    """
    here = cluster.topologies[topology]
    here.starting -= 1
    if here.starting == 0 and (now == 0.0 or _is_whole(cluster, topology)):
        for each in range(len(cluster.workers)):
            worker = cluster.workers[each]
            if worker.topology == topology and worker.up:
                worker.ready = True
        _look_of_spouts(cluster, topology, now)


@inner
def _is_whole(cluster: ClusterState, topology: int) -> bool:
    """Return whether all executors of a topology have a worker.

    A worker of Storm waits for its connections to all others of its topology before its spouts begin.
    """
    for who in range(cluster.run[0].executors):
        thread = cluster.threads[who]
        if thread.topology == topology and thread.worker == NONE:
            return False
    return True


@inner
def _look_of_spouts(cluster: ClusterState, topology: int, now: float) -> None:
    for each in range(len(cluster.spouts)):
        who = cluster.spouts[each].thread
        thread = cluster.threads[who]
        if thread.topology == topology and thread.state == ASLEEP:
            set_time(cluster.clock, who, now)


@inner
def _stop(cluster: ClusterState, worker: int, now: float) -> None:
    """Stop a worker with everything in it; tuples sent to it are lost until its port is open again."""
    here, run = cluster.workers[worker], cluster.run[0]
    starting = not here.up and cluster.clock.when[run.executors + worker] != NEVER
    here.port_open = here.up = here.ready = False
    if starting:
        _started(cluster, here.topology, now)
    for who in range(run.threads):
        if cluster.threads[who].worker == worker:
            _end_thread(cluster, who, now)


@inner
def _end_thread(cluster: ClusterState, who: int, now: float) -> None:
    thread, jobs = cluster.threads[who], cluster.shares.jobs
    if thread.state == WORKS and thread.alone:
        stop_alone(cluster, who, now)
    elif thread.state == WORKS:
        core = cluster.shares.cores[thread.core]
        pass_time(cluster, core, now)
        if core.quota >= 0:
            withdraw(core, jobs, who)
        else:
            drop_of(core, jobs, who)
        set_core(cluster, thread.core)
    elif thread.state == BLOCKED:
        _wait_no_more(cluster, who)
    if thread.tuple != NONE:
        note_lost(cluster, cluster.tuples[thread.tuple].tree, cluster.tuples[thread.tuple].use)
        end_tuple(cluster, thread.tuple)
        thread.tuple = NONE
    while thread.count > 0:
        lose(cluster, take(cluster, thread))
    if thread.kind == SPOUT:
        spout = cluster.spouts[thread.spout]
        while spout.first != NONE:
            if not cluster.trees[spout.first].lost:
                cluster.topologies[thread.topology].lost += 1
            end_tree(cluster, spout.first)
        spout.again = 0
        set_time(cluster.clock, cluster.run[0].first_spouts + thread.spout, NEVER)
    while thread.waiting != NONE:
        call_waiting(cluster, thread, now)
    thread.state, thread.debt_s = GONE, 0.0
    set_time(cluster.clock, who, NEVER)


@inner
def _wait_no_more(cluster: ClusterState, who: int) -> None:
    """Remove a thread from a waiting list."""
    for each in range(cluster.run[0].threads):
        _leave_list(cluster, cluster.threads[each], who)
    for each in range(len(cluster.links)):
        _leave_list(cluster, cluster.links[each], who)


@inner
def _leave_list(cluster: ClusterState, queue: Record, who: int) -> None:
    before, each = NONE, queue.waiting
    while each != NONE and each != who:
        before, each = each, cluster.threads[each].next
    if each == NONE:
        return
    if before == NONE:
        queue.waiting = cluster.threads[who].next
    else:
        cluster.threads[before].next = cluster.threads[who].next
    if queue.last_waiting == who:
        queue.last_waiting = before
    cluster.threads[who].next = NONE


class Events:
    """Virtual Storm cluster, tuple by tuple (`stormwright.simulator.engine.Engine`).

    Parameters
    ----------
    problem
        Problem with nodes and a load.
    slots
        Slot of every executor, `NOWHERE` for those that do not run, shape (E,); their workers are up at once.
    settings
        Other settings; by default with the costs of the problem's load.
    profile
        Profile of the load, if it was measured under another placement or on other nodes.

    Attributes
    ----------
    at_once
        Number of tuples per event, at most that of the settings.

    Raises
    ------
    InputError
        The costs of the problem's load are invalid, or an executor sends too many tuples for one that it handles.
    """

    def __init__(
        self,
        problem: Problem,
        slots: NDArray[np.int32],
        settings: SimulatorSettings | None = None,
        profile: Profile | None = None,
    ) -> None:
        self.problem, self.settings = problem, settings or SimulatorSettings.of(problem)
        self._profile = profile or Profile.of(problem)
        self.cluster = start(problem, self.settings, self._profile)
        self.at_once = max(min(self.settings.tuples_at_once, most_at_once(problem, self._profile)), 1)
        combine_tuples(self.cluster, self.at_once)
        self._rates = np.ones(len(problem.topologies))
        self._apart_s = self.cluster.spouts["apart_s"].copy()
        self._down = np.zeros(len(problem.supervisors), dtype=bool)
        self._slots = np.full(problem.num_executors, NOWHERE, np.int32)
        self._workers = SimulatedWorkers(problem, self._profile, self.settings, self.at_once)
        self._warming = WarmingWorkers(self.settings.warm_up)
        self._taken_counts, self._ends = self.counts, ends_of(self.cluster)
        self._place(slots, startup_s=0.0)

    @property
    def now_s(self) -> float:
        """Present time."""
        return float(self.cluster.run[0]["now"])

    @property
    def hops(self) -> int:
        """Number of tuples handled by executors so far."""
        return self.at_once * int(self.cluster.run[0]["hops"])

    def until(self, time_s: float, turn: Callable[[], None] | None = None) -> None:
        """Advance to a time.

        Parameters
        ----------
        time_s
            Virtual time, in seconds, to advance to.
        turn
            Called after some 100,000 events each, as virtual time may hardly advance; may raise to end the simulation.
        """
        while self._warming:
            self._warming.step(self.cluster)
            if self.now_s + STEP_S >= time_s:
                break
            self._command(NOTHING, until_s=self.now_s + STEP_S, turn=turn)
        self._command(NOTHING, until_s=float(time_s), turn=turn)

    def take(self) -> EngineCounts:
        """Return the counts since the last call."""
        self._taken_counts, found = counted(self.cluster, self._taken_counts, self.counts, self._ends)
        return found

    @property
    def counts(self) -> EngineTotals:
        """All counts so far, including those that `take` leaves out."""
        return EngineTotals.of(self.cluster, self.at_once)

    @property
    def lost(self) -> NDArray[np.int64]:
        """Trees of every topology that have lost a tuple so far, shape (T,)."""
        return self.at_once * np.array(self.cluster.topologies["lost"])

    @property
    def pending(self) -> NDArray[np.int64]:
        """Pending trees of every topology, shape (T,)."""
        spouts, count = self.cluster.spouts, len(self.problem.topologies)
        topology = np.array(self.cluster.threads["topology"][spouts["thread"]])
        return self.at_once * np.bincount(topology, spouts["pending"], count).astype(np.int64)

    @property
    def queue_peaks(self) -> NDArray[np.int64]:
        """Peak length of every executor's receive queue so far, shape (E,)."""
        return self.at_once * np.array(self.cluster.queue_loads["most"][: self.problem.num_executors])

    @property
    def queue_limits(self) -> NDArray[np.int64]:
        """Capacity of every executor's receive queue, shape (E,)."""
        return self.at_once * np.array(self.cluster.threads["limit"][: self.problem.num_executors])

    def place(self, slots: NDArray[np.int32], started_s: float = 0.0) -> None:
        """Set the executors' slots; workers that are new or whose executors change began to start `started_s` ago."""
        self._place(slots, self.settings.startup_s, started_s)

    def activate(self, topology: int, active: bool) -> None:
        """Set whether a topology's spouts begin trees."""
        self.cluster.topologies["active"][topology] = active
        self._command(LOOK, topology)

    def rate(self, topology: int, factor: float) -> None:
        """Scale the initial offered rate of a topology's spouts."""
        spouts = self.cluster.spouts
        own = np.flatnonzero(self.cluster.threads["topology"][spouts["thread"]] == topology)
        for number in own:
            first_s, old_s = self._apart_s[number], spouts["apart_s"][number]
            if not 0 < first_s < np.inf:
                continue
            new_s = first_s / factor if factor > 0 else np.inf
            # The remaining fraction of the time until the next tree is preserved.
            left = (spouts["comes"][number] - self.now_s) / old_s if old_s < np.inf else 1.0
            spouts["apart_s"][number] = new_s
            spouts["comes"][number] = self.now_s + left * new_s if new_s < np.inf else np.inf
        self._command(LOOK, topology)

    def kill(self, slot: int) -> None:
        """Kill the workers in a slot; their supervisor restarts them."""
        for worker in self._workers.in_slot(slot):
            self._command(STOP, worker)
            self._start(worker, self.settings.startup_s)

    def node(self, node: int, up: bool) -> None:
        """Stop a node with everything that runs there, or bring it back with its workers."""
        if up != self._down[node]:
            return
        self._down[node] = not up
        for worker in self._workers.on_node(self.cluster, node):
            if up:
                self._start(worker, self.settings.startup_s)
            else:
                self._command(STOP, worker)

    def slow(self, node: int, factor: float) -> None:
        """Scale the speed of a node's cores."""
        each = len(self.cluster.shares.cores) // len(self._down)
        for core in range(node * each, (node + 1) * each):
            self._command(SPEED, core, max(factor, 1e-9))

    def _place(self, slots: NDArray[np.int32], startup_s: float, started_s: float = 0.0) -> None:
        before, after = self._workers.seats(self._slots), self._workers.seats(slots)
        gone = [seat for seat, executors in before.items() if after.get(seat) != executors]
        come = [seat for seat, executors in after.items() if before.get(seat) != executors]
        for seat in gone:
            worker = self._workers.number(seat)
            self._command(STOP, worker)
            self._warming.stop(self.cluster, worker)
            freed(self.cluster, worker, before[seat])
            self._workers.free(seat)
        started = [self._workers.take(seat) for seat in come]
        self.cluster = seated(
            self.cluster, self._workers, list(zip(started, (after[seat] for seat in come), strict=True))
        )
        self._slots = np.array(slots, np.int32)
        self._command(PLACED)
        for worker in started:
            self._start(worker, startup_s, started_s)

    def _start(self, worker: int, startup_s: float, started_s: float = 0.0) -> None:
        if not self._down[self.cluster.workers["node"][worker]]:
            if startup_s > 0:
                self._warming.start(self.cluster, worker)
            began_s = self.now_s - started_s
            self.cluster.workers["comes_up"][worker] = began_s + startup_s
            opens_s = began_s + min(startup_s, self.settings.port_opens_s)
            self._command(START, worker, max(opens_s, self.now_s))

    def _command(
        self,
        command: int,
        which: int = 0,
        amount: float = 0.0,
        until_s: float = -1.0,
        turn: Callable[[], None] | None = None,
    ) -> None:
        end_s = until_s if command == NOTHING else self.now_s
        go_on_until(self.cluster, command, int(which), float(amount), end_s)
        while True:
            run = self.cluster.run[0]
            if run["full"]:
                tuples, trees = len(self.cluster.tuples), len(self.cluster.trees)
                short = int(run["tuples_left"]) < int(run["most_sent"])
                needed = max(tuples, int(run["most_sent"]))
                self.cluster = with_room(self.cluster, needed if short else 0, 0 if short else trees)
            elif not run["paused"]:
                return
            elif turn:
                turn()
            go_on_until(self.cluster, NOTHING, 0, 0.0, end_s)
