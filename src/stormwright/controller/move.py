"""Safe moves: one or several topologies change their slots without losing a tuple.

Storm's own rebalance ends workers with tuples in flight; these time out half a minute later and are lost or replayed.
Here the spouts are paused first, pending tuple trees complete, and only then are the workers exchanged. The spouts are
activated again once every old worker has ended.

How a topology is drained depends on its kind (`stormwright.controller.safety.move_kinds`): stateful bolts need a
checkpoint, and trees in windows may be left to be replayed.

Topologies that change places are paused and drained together. Nimbus gets all their placements in one answer, which
frees all their slots before assigning any; so either all of them have moved or none has.

A topology whose configuration changes has no worker for a moment. A supervisor that has the topology would start its
workers with the configuration of before, and again with the new one once it finds that out
(``AsyncLocalizer.requestDownloadBaseTopologyBlobs`` and ``updateBlobs`` of Storm): so all of them end first, and start
once every supervisor has had the time to find it out. The spouts wait until every worker reports the new one.

A supervisor that had the topology some time ago still has that configuration, and looks for a newer one only while a
worker needs it (``LocallyCachedBlob.requiresUpdate``): there a worker starts twice. Others have connected to its first
life, and find out within half a minute only that it is gone (``Client`` of Storm); what they send until then is lost.
So as soon as that shows, all workers are exchanged once more. That takes such a supervisor less than the three seconds
that workers are waited for where blobs are polled every two; where they are polled less often, the whole period.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from stormwright.controller.draining import USUAL, Draining, DrainPolicy, SpoutControl, drain
from stormwright.controller.reconfigure import fetch_s
from stormwright.controller.reports import MoveLimits, MoveReport, log_reports, move_report
from stormwright.controller.safety.pauses import Pauses
from stormwright.controller.tally import Tally
from stormwright.errors import MoveError, MoveStoppedError, NimbusError, StormwrightError
from stormwright.formats.document.problem import problem_from_dict
from stormwright.model import UNPLACED, Problem, Supervisor, Topology, TopologyAssignment, WorkerSlot
from stormwright.plans.plan import Leg, Move, TopologyMove
from stormwright.predict.changes import with_executors
from stormwright.storm.bridge import Bridge
from stormwright.storm.occupancy import Order

log = logging.getLogger(__name__)

#: Storm's status of a topology whose spouts emit, and of one that is being rebalanced.
ACTIVE, REBALANCING = "ACTIVE", "REBALANCING"

#: Maximum seconds between checks, and minimum seconds between calls to Nimbus.
_POLL_S = 1.0
_PAUSE_S = 0.2

#: Key of the period in which workers poll the addresses of others, Storm's default in seconds, and the key of the
#: longest pause between attempts to connect (``storm.messaging.netty.max_wait_ms``).
REFRESH_POLL = "task.refresh.poll.secs"
_REFRESH_POLL_S, _CONNECT_S = 10.0, 1.0

#: Seconds after an order from which a deviating placement counts as Storm's own, made without a timely answer from
#: here, and the number of times the order is repeated.
_LATE_S, _AGAIN = 3.0, 3

#: Seconds without a record after which an old worker counts as ended although its last record never came. Supervisors
#: poll their assignments every 10 s and then stop the worker. With a shorter limit, an old worker that still runs, but
#: whose records are late, would count as ended, and would emit again once its topology is activated.
_ENDED_AFTER_S = 15.0

#: The same of workers that have started in this move, report four times a second, and have never emitted.
_YOUNG_ENDED_S = 4.0

#: Seconds for which a supervisor still fetches the configuration of a topology after its worker was to end.
_HELD_S = 3.0

#: Longest wait for standby workers before a topology is paused: a node loads the next one 20 s after it has used one,
#: and takes half a minute for it where it has a part of a core, a minute and a half if its workers use all of that.
_STANDBYS_S = 120.0

#: Seconds after its start in which a service hears of every worker that lives, and between two checks of the placement.
_HEARD_S, _LOOK_S = 2.0, 0.5


class Nimbus(SpoutControl, Protocol):
    """The calls to Nimbus that a move makes."""

    def cluster(self) -> Mapping[str, Any]: ...

    def problem(self) -> Mapping[str, Any]: ...

    def configuration(self, topology_id: str) -> str:
        """Return the digest of the stored configuration of a topology; it takes `topology_id`."""
        ...

    def rebalance(
        self,
        name: str,
        wait_s: int,
        num_workers: int | None = None,
        executors: Mapping[str, int] | None = None,
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        """Schedule a topology again; it takes `name`, `wait_s`, `num_workers`, `executors` and `conf`."""
        ...

    def release(self, topology_id: str, supervisor: Supervisor) -> bool: ...


class Mover:
    """Executor of moves on a cluster.

    Parameters
    ----------
    nimbus
        Pauses, rebalances and resumes topologies.
    bridge
        Scheduling bridge that passes the wanted slots to Nimbus at its next request.
    tally
        Counts the records of the workers; its clock is used for all waits.
    pauses
        Persistent record of paused topologies.
    limits
        Time limits of the steps of a move.
    policy
        Returns how a topology is drained.
    """

    def __init__(
        self,
        nimbus: Nimbus,
        bridge: Bridge,
        tally: Tally,
        pauses: Pauses,
        limits: MoveLimits,
        policy: Callable[[Topology], DrainPolicy] = lambda _: USUAL,
    ) -> None:
        self._nimbus = nimbus
        self._bridge = bridge
        self._tally = tally
        self._pauses = pauses
        self._limits = limits
        self._policy = policy
        #: The cluster when the move began.
        self._problem: Problem
        #: Hosts whose supervisors have not answered.
        self._unreached: set[str] = set()

    def move(self, step: Move, reason: str, stop: threading.Event | None = None) -> list[MoveReport]:
        """Pause the spouts, wait until the pending tuple trees are acked, swap the workers, resume.

        Workers whose slot and executors do not change keep running. Several topologies complete each step together
        before the next one begins.

        Raises
        ------
        MoveError
            A topology is gone or not active, tuple trees were still pending after `MoveLimits.drain_s`, or Nimbus did
            not take the placements: nothing was moved, or only to spare slots, and the spouts are in their previous
            state.
        MoveStoppedError
            As for MoveError, because `stop` was set before the trees were complete.
        NimbusError
            Nimbus refused a call; the spouts are resumed before it is passed on.
        """
        moves, names = step.moves, step.names
        stop = stop or threading.Event()
        self._problem = self._newest_problem(moves)
        broken = {move.topology for move in moves if step.returns and self._is_broken(move)}
        self._check_movable(moves, broken, stop)
        if not step.returns and self._await_standbys(moves, stop):
            self._problem = self._newest_problem(moves)
            self._check_movable(moves, broken, stop)
        clock = self._tally.clock
        started_ms, begin = _ms(clock.time()), clock.monotonic()
        log.info("%s: pausing spouts", names)
        # Whatever goes wrong, a topology is never left paused.
        with self._pauses.around([move.name for move in moves], self._nimbus.activate):
            replayed = self._drain(moves, broken, stop)
            drained = clock.monotonic()
            workers = sum(len(move.started_workers) for move in moves)
            log.info("%s: drained in %.1f s, swapping %d workers", names, drained - begin, workers)
            swapping, complete = self._exchange(moves, reason)
            swapped = clock.monotonic()
        reports = []
        for move in moves:
            up = self._await_reports(move, swapping)
            times = (drained - begin, swapped - drained, clock.monotonic() - swapped)
            span_ms, trees = (started_ms, _ms(clock.time())), replayed[move.topology]
            reports.append(move_report(move, times, span_ms, complete and up, trees))
        log_reports(reports, names, clock.monotonic() - begin)
        return reports

    def resume(self) -> list[str]:
        """Activate the topologies that an earlier service left paused, and return their names.

        First, for at most `MoveLimits.settle_s` seconds and the time in which supervisors fetch a configuration, wait
        until their workers run as Nimbus has placed and configured them: one that is about to end would emit into
        closing connections, and a new one may not be connected yet.
        """
        if self._pauses.names:
            clock = self._tally.clock
            until = clock.monotonic() + self._limits.settle_s + self._fetched_s()
            try:
                while clock.monotonic() < until and not self._are_settled(self._pauses.names):
                    clock.sleep(_LOOK_S)
            except StormwrightError as error:
                log.info("where paused topologies run is unknown: %s", error)
        return self._pauses.resume(self._nimbus.activate)

    def _are_settled(self, names: Collection[str]) -> bool:
        """Return whether the workers of topologies run as placed; nodes that others should leave are notified."""
        if self._tally.clock.monotonic() < self._tally.began_s + _HEARD_S or self._is_rebalanced(names):
            return False
        problem, settled = problem_from_dict(self._nimbus.problem(), "Nimbus"), True
        for topology in problem.topologies:
            if topology.name not in names:
                continue
            placed = problem.current.get(topology.id)
            wanted = _tasks_by_slot(topology, placed) if placed else {}
            reporting = self._tally.reporting(topology.id)
            left = {slot.supervisor for slot in reporting} - {slot.supervisor for slot in wanted}
            for node in left:
                if node in problem.node_index:
                    self._released(topology.id, problem.supervisors[problem.node_index[node]])
            # A worker with other tasks than placed is about to end, even in a slot that the topology still has; and so
            # is one with another configuration, as soon as its supervisor has the new one. A topology without slots,
            # between the two legs of a new configuration, is about to have workers.
            settled &= bool(placed) and reporting == wanted and self._is_configured(topology.id, wanted) is True
        return settled

    def _is_rebalanced(self, names: Collection[str]) -> bool:
        """Return whether a topology is being rebalanced: then its placement is about to change."""
        topologies = self._nimbus.cluster()["topologies"]
        return any(each["status"] == REBALANCING for each in topologies if each["name"] in names)

    def _newest_problem(self, moves: Sequence[TopologyMove]) -> Problem:
        problem = self._bridge.snapshot() or problem_from_dict(self._nimbus.problem(), "Nimbus")
        if gone := [move.topology for move in moves if move.topology not in problem.topology_index]:
            raise MoveError(f"{', '.join(gone)}: gone; nothing was moved")
        return problem

    def _topology(self, topology: str, executors: Mapping[str, int] | None = None) -> Topology:
        """Return a topology as it was before the move, or with other numbers of executors."""
        known = self._problem.topologies[self._problem.topology_index[topology]]
        return with_executors(known, executors) if executors else known

    def _vacated(self, leg: Leg) -> list[Supervisor]:
        """Return the nodes that a leg leaves entirely; the workers of one that is gone end by themselves."""
        known = self._problem.node_index
        return [self._problem.supervisors[known[node]] for node in leg.vacated if node in known]

    def _check_movable(self, moves: Sequence[TopologyMove], broken: set[str], stop: threading.Event) -> None:
        status = self._status()
        for move in moves:
            name = move.topology
            if status.get(name, "gone") != ACTIVE:
                # Another client has paused or is moving it, and has to resume it.
                raise MoveError(f"{name} is {status.get(name, 'gone')}, only what is {ACTIVE} is moved")
            if name not in broken and (unheard := self._unheard(move, stop)):
                # Without reports, completion of its tuple trees cannot be observed.
                all_workers = len(move.before.slots)
                raise MoveError(f"{name}: {len(unheard)} of {all_workers} workers do not report; nothing was moved")

    def _await_standbys(self, moves: Sequence[TopologyMove], stop: threading.Event) -> bool:
        """Wait until the nodes on which workers start have standby workers for them, as a cold start takes longer.

        Returns
        -------
        bool
            Whether it has waited.
        """
        known, clock = self._problem.node_index, self._tally.clock
        nodes = [slot.supervisor for move in moves for leg in move.legs for slot in leg.started_workers]
        starts = Counter(self._problem.supervisors[known[node]].host for node in nodes if node in known)
        until = clock.monotonic() + _STANDBYS_S
        missing = self._tally.missing_standbys(starts)
        if missing:
            log.info("waiting for standby workers on %s", ", ".join(missing))
        while self._tally.missing_standbys(starts) and clock.monotonic() < until:
            if clock.stopped(stop, _LOOK_S):
                break
        return bool(missing)

    def _is_broken(self, move: TopologyMove) -> bool:
        """Return whether a topology's workers crash or hang, so that it neither completes trees nor can be drained."""
        crashes = self._tally.crashes(move.topology, move.before.slots)
        # Trees in windows complete together, after any time.
        waits = self._policy(self._topology(move.topology)).windows
        broken = crashes or (not waits and self._tally.stalls(move.topology, move.before.slots))
        if broken:
            why = "its workers crash and" if crashes else "trees are pending and"
            log.warning("%s: %s no tuple tree completes; it goes back without a drain", move.name, why)
        return broken

    def _status(self) -> dict[str, str]:
        """Return Storm's status of each topology id."""
        return {topology["id"]: topology["status"] for topology in self._nimbus.cluster()["topologies"]}

    def _unheard(self, move: TopologyMove, stop: threading.Event) -> list[tuple[str, int]]:
        """Return workers that do not report; a service that has just started waits for them."""
        until = self._tally.began_s + self._limits.heard_s
        while unheard := self._tally.unheard(move.topology, move.before.slots):
            if stop.is_set() or self._tally.clock.monotonic() >= until:
                break
            self._tally.wait(_POLL_S)
        return unheard

    def _drain(self, moves: Sequence[TopologyMove], broken: set[str], stop: threading.Event) -> dict[str, int]:
        """Drain topologies; return the number of pending trees by topology (id), which are replayed.

        Broken ones are paused only, as their trees complete no more.
        """
        limit_s = self._limits.drain_s
        paused = [
            Draining(move.topology, move.name, move.before.slots, policy=self._policy(self._topology(move.topology)))
            for move in moves
        ]
        for each in paused:
            if each.id in broken:
                each.pause(self._nimbus, self._tally.clock)
        left = drain([each for each in paused if each.id not in broken], self._nimbus, self._tally, limit_s, stop)
        if not left:
            pending = {each.id: each.pending(self._tally) for each in paused}
            for topology, trees in pending.items():
                if trees:
                    log.info("%s: moved with %d tuple trees pending, which are replayed", topology, trees)
            return pending
        topology = left[0].id
        if stop.is_set():
            raise MoveStoppedError(f"{topology}: nothing was moved, the service is being stopped")
        trees = left[0].pending(self._tally)
        waited_s = max(limit_s, *(each.policy.limit_s or 0.0 for each in paused))
        raise MoveError(
            f"{topology}: {trees} tuple trees still pending after {waited_s:g} s without "
            "new ones; nothing was moved. A bolt may hold tuples unacked: move it by hand"
        )

    def _exchange(self, moves: Sequence[TopologyMove], reason: str) -> tuple[float, bool]:
        """Exchange workers leg by leg; return when the last one began, and whether all went well.

        Where a worker has started with an earlier configuration its supervisor has the newest one soon: then once more,
        up to `_AGAIN` times.
        """
        clock = self._tally.clock
        since, complete = clock.monotonic(), True
        for turn in range(1 + _AGAIN):
            for number in range(max(len(move.legs) for move in moves)):
                since = clock.monotonic()
                complete &= self._swap([(move, move.legs[number]) for move in moves], reason, first=turn == 0)
            if not any(self._is_outdated(move, since) for move in moves):
                return since, complete
            log.info("%s: a supervisor had an earlier configuration; once more", ", ".join(move.name for move in moves))
            moves = [_again(move) for move in moves]
        return since, False

    def _swap(self, legs: Sequence[tuple[TopologyMove, Leg]], reason: str, *, first: bool) -> bool:
        """Exchange the workers; return True once topologies may be activated, False after `MoveLimits.swap_s`.

        No old worker may live then: it would emit into connections that are being closed. New workers need not be up:
        Storm lets one emit only when it is connected to all others. But a running worker emits at once, so if there is
        any, all new ones of its topology must report first, and it must have had the time to find them.
        """
        clock = self._tally.clock
        since = clock.monotonic()
        old = [life for move, leg in legs for life in self._tally.lives(move.topology, leg.stopped_workers)]
        # Workers of the leg before may live and not have reported yet: once active, they would begin trees.
        unheard = {(move.topology, slot) for move, leg in legs for slot in leg.stopped_workers}
        unheard -= {(life.topology, WorkerSlot(life.supervisor, life.port)) for life in old}
        self._order(legs, reason, first=first)
        left = [(move.topology, supervisor) for move, leg in legs for supervisor in self._vacated(leg)]
        # Nimbus may ask while it is called, so before an order is over.
        known, stored_s, order_begin, ordered, again = None, None, since, clock.monotonic(), _AGAIN
        left_s = ordered
        limit_s = self._limits.swap_s + max(self._fetched_s() if move.conf else 0.0 for move, _ in legs)
        silent_s = _ENDED_AFTER_S if first else _YOUNG_ENDED_S
        # Else a supervisor fetches a configuration only while a worker runs, so an outdated one has to start again.
        quick = self._fetched_s() <= _HELD_S
        while clock.monotonic() < since + limit_s:
            clock.sleep(_PAUSE_S)
            if again and (shown := self._strayed(legs, ordered)):
                again -= 1
                for move, leg in legs:
                    strays, vacated = _astray(move.topology, leg, shown)
                    old += self._tally.lives(move.topology, strays)
                    left += [(move.topology, supervisor) for supervisor in vacated]
                order_begin = clock.monotonic()
                self._order(legs, reason, first=first)
                known, stored_s, ordered = None, None, clock.monotonic()
            if left:
                left = [each for each in left if not self._released(*each)]
                left_s = clock.monotonic()
            if unheard and clock.monotonic() >= left_s + _YOUNG_ENDED_S:
                unheard.clear()
            ended = not (left or unheard) and all(self._tally.has_ended(life, silent_s) for life in old)
            # Where Nimbus had no answer, workers end as well, and new ones run elsewhere.
            if self._is_placed(legs, order_begin):
                stored_s = stored_s or clock.monotonic()
                # Workers end by the new placement, so that is out now.
                known = known or (clock.monotonic() + self._connected_s() if ended else None)
                fetched = clock.monotonic() >= stored_s + min(self._fetched_s(), _HELD_S)
                if known and all(self._may_go_on(move, leg, since, known, fetched=fetched) for move, leg in legs):
                    return True
                if quick and any(leg is move.legs[-1] and self._is_outdated(move, since) for move, leg in legs):
                    return True
            self._tally.wait(_POLL_S)
        self._require_placed(legs, since)
        return False

    def _order(self, legs: Sequence[tuple[TopologyMove, Leg]], reason: str, *, first: bool) -> None:
        ids = [move.topology for move, _ in legs]
        together = frozenset(ids) if len(ids) > 1 else frozenset()
        orders = {
            move.topology: Order(leg.after, reason, together, move.before_leg(move.legs.index(leg)))
            for move, leg in legs
        }
        self._bridge.order_all(orders)
        try:
            for move, leg in legs:
                # One would be enough, as the others leave their slots in the same answer; but each needs its own
                # numbers of workers and executors, and configuration, which is stored once: each time is a new version.
                conf = (move.conf or None) if first and leg is move.legs[0] else None
                if move is legs[0][0] or move.changes_topology:
                    self._nimbus.rebalance(move.name, 0, move.num_workers, move.executors or None, conf)
        except NimbusError:
            self._bridge.withdraw(ids)  # it may have taken the call and not been able to say so
            raise

    def _strayed(self, legs: Sequence[tuple[TopologyMove, Leg]], ordered: float) -> Problem | None:
        """Return Nimbus's state if, some time after an order, a topology is elsewhere and nothing is under way."""
        shown = self._bridge.wait_for_snapshot(ordered + _LATE_S, 0.0)
        wanted = {move.topology: leg.after for move, leg in legs}
        strays = [name for name, after in wanted.items() if shown and shown.current.get(name, after) != after]
        if not strays:
            return None
        try:
            status = self._status()
        except NimbusError:
            return None
        if any(status.get(name) == REBALANCING for name in wanted):
            return None
        log.warning("%s: Nimbus had no answer in time and placed it elsewhere; ordered again", ", ".join(strays))
        return shown

    def _is_placed(self, legs: Sequence[tuple[TopologyMove, Leg]], order_begin: float) -> bool:
        """Return whether Nimbus has been answered since an order, and has all topologies as ordered."""
        newest = self._bridge.wait_for_snapshot(order_begin, 0.0)
        return newest is not None and all(_runs(newest, move.topology, leg.after) for move, leg in legs)

    def _released(self, topology: str, supervisor: Supervisor) -> bool:
        try:
            released = self._nimbus.release(topology, supervisor)
        except NimbusError as error:
            if supervisor.host not in self._unreached:  # it is called twice a second
                log.warning(
                    "%s: the stop request to the supervisor failed; it stops the worker when it synchronizes: %s",
                    supervisor.host,
                    error,
                )
            self._unreached.add(supervisor.host)
            return True
        self._unreached.discard(supervisor.host)
        return released

    def _require_placed(self, legs: Sequence[tuple[TopologyMove, Leg]], since: float) -> None:
        """Raise MoveError if Nimbus has not polled or placed topologies elsewhere; a later poll moves nothing."""
        ids = [move.topology for move, _ in legs]
        self._bridge.withdraw(ids)
        newest = self._bridge.wait_for_snapshot(since, 0.0)
        if newest is None:
            begun = "without workers" if any(move.conf for move, _ in legs) else "in spare slots, half way"
            where = "not moved" if all(leg is move.legs[0] for move, leg in legs) else begun
            raise MoveError(
                f"{', '.join(ids)}: Nimbus has not polled the service for {self._limits.swap_s:g} s; active, {where}"
            )
        elsewhere = [m.topology for m, leg in legs if not _runs(newest, m.topology, leg.after)]
        if elsewhere:
            raise MoveError(f"{', '.join(elsewhere)}: not placed as ordered, slots could not be had; active again")

    def _connected_s(self) -> float:
        """Return the seconds within which a running worker connects to new ones."""
        newest = self._bridge.snapshot()
        poll_s = newest.conf.get(REFRESH_POLL) if newest else None
        return (poll_s if isinstance(poll_s, int | float) else _REFRESH_POLL_S) + _CONNECT_S

    def _fetched_s(self) -> float:
        newest = self._bridge.snapshot()
        return fetch_s(newest.conf if newest else {})

    def _may_go_on(self, move: TopologyMove, leg: Leg, since: float, known: float, *, fetched: bool) -> bool:
        """Return whether a topology may be activated, or go on to its next leg.

        Running workers know the new ones from `known` on; `fetched` is whether supervisors have a new configuration.
        """
        if move.conf:
            return self._all_report(move, leg, since) if leg is move.legs[-1] else fetched
        if not leg.unchanged_workers:
            return True
        if not self._all_report(move, leg, since):
            return False
        detour = leg is not move.legs[-1]
        return detour or self._all_connected(move.topology, leg) or self._tally.clock.monotonic() >= known

    def _all_connected(self, topology: str, leg: Leg) -> bool:
        """Return whether every other worker has a connection to each new one; probes may not report it."""
        others = len(leg.after.slots) - 1
        return all(self._tally.connections(topology, slot) >= others for slot in leg.started_workers)

    def _await_reports(self, move: TopologyMove, since: float) -> bool:
        """Return whether every started worker reports all its tasks within `MoveLimits.swap_s` of `since`."""
        clock, deadline = self._tally.clock, since + self._limits.swap_s
        while not (up := self._all_report(move, move.legs[-1], since)) and clock.monotonic() < deadline:
            self._tally.wait(_POLL_S)
        return up

    def _all_report(self, move: TopologyMove, leg: Leg, since: float) -> bool:
        """Return whether every started worker reports all its tasks, and its new configuration if it has one."""
        tasks = _tasks_by_slot(self._topology(move.topology, move.executors), leg.after)
        if not all(
            self._tally.reports(move.topology, slot.supervisor, slot.port, tasks[slot], since)
            for slot in leg.started_workers
        ):
            return False
        if not move.conf:
            return True
        # One that a supervisor has started with that of before ends as soon as the supervisor has the new one.
        return self._is_configured(move.topology, leg.started_workers) is True

    def _is_outdated(self, move: TopologyMove, since: float) -> bool:
        """Return whether a worker of the last leg reports an earlier configuration, or has started more than once."""
        if not move.conf:
            return False
        starts = self._tally.starts(move.topology, move.legs[-1].started_workers, since)
        return any(count > 1 for count in starts.values()) or self._is_configured(move.topology, starts) is False

    def _is_configured(self, topology: str, slots: Iterable[tuple[str, int]]) -> bool | None:
        """Return whether workers (supervisor, port) report the stored configuration, or none; None if it is unknown."""
        found = {self._tally.configuration(topology, slot) for slot in slots} - {""}
        if not found:
            return True
        try:
            stored = self._nimbus.configuration(topology)
        except NimbusError:  # such as a new leader: it is looked at again
            return None
        return all(_is_same(each, stored) for each in found)


def _again(move: TopologyMove) -> TopologyMove:
    """Return the exchange of all workers of a topology that has arrived, with its configuration."""
    last = move.legs[-1]
    nowhere = TopologyAssignment((), (UNPLACED,) * len(last.after.slot_of_executor))
    left = tuple(sorted({slot.supervisor for slot in last.started_workers}))
    return replace(move, before=move.after, legs=(Leg(nowhere, last.started_workers, (), (), left), last))


def _is_same(one: str, other: str) -> bool:
    """Return whether two configurations, ``DIGEST`` or ``DIGEST.VERSION``, are the same as far as is known."""
    (content, _, version), (other_content, _, other_version) = one.partition("."), other.partition(".")
    return content == other_content and (not version or not other_version or version == other_version)


def _runs(problem: Problem, topology: str, placed: TopologyAssignment) -> bool:
    """Return whether a topology runs in a placement; one without slots is in none."""
    return problem.current.get(topology) == placed if placed.slots else topology not in problem.current


def _tasks_by_slot(topology: Topology, placed: TopologyAssignment) -> dict[WorkerSlot, frozenset[int]]:
    """Return the tasks that a placement has in each of its slots."""
    tasks: dict[WorkerSlot, set[int]] = {slot: set() for slot in placed.slots}
    runs = zip(topology.executor_start_task.tolist(), topology.executor_end_task.tolist(), strict=True)
    for slot, (first, last) in zip(placed.slot_of_executor, runs, strict=True):
        if slot != UNPLACED:
            tasks[placed.slots[slot]].update(range(first, last + 1))
    return {slot: frozenset(each) for slot, each in tasks.items()}


def _astray(topology: str, leg: Leg, shown: Problem) -> tuple[set[WorkerSlot], list[Supervisor]]:
    """Return slots that a topology holds against its order, and their nodes that it has to leave."""
    placed = shown.current.get(topology)
    strays = set(placed.slots if placed else ()) - set(leg.after.slots)
    hosts = {slot.supervisor for slot in strays} - {slot.supervisor for slot in leg.after.slots}
    return strays, [supervisor for supervisor in shown.supervisors if supervisor.id in hosts]


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
