"""The safe move: a topology changes its placement without losing a tuple.

Storm itself, told to change an assignment, ends workers with tuples in flight; these time out half a minute later
and are lost or replayed. Here the spouts are paused first, the tuple trees under way are let finish, and only then
are the workers exchanged. They are activated again once every old worker has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from stormwright.controller.pauses import Pauses
from stormwright.controller.plan import Leg, TopologyMove
from stormwright.controller.tally import Tally, WorkerId
from stormwright.errors import MoveError, NimbusError
from stormwright.model import Supervisor, Topology, WorkerSlot
from stormwright.storm.bridge import Bridge, Order

#: Storm's status of a topology whose spouts emit.
ACTIVE = "ACTIVE"

#: Nothing is waited for longer without looking again, in seconds; and Nimbus is not asked more often than this.
_POLL_S = 1.0
_PAUSE_S = 0.2


class Nimbus(Protocol):
    """The calls to Nimbus that a move makes."""

    def cluster(self) -> Mapping[str, Any]: ...

    def activate(self, name: str) -> None: ...

    def deactivate(self, name: str) -> None: ...

    def rebalance(self, name: str, wait_s: int) -> None: ...

    def release(self, topology_id: str, supervisor: Supervisor) -> bool: ...


@dataclass(frozen=True)
class MoveLimits:
    """How long each step of a move may take, in seconds.

    Parameters
    ----------
    drain_s
        For the pending tuple trees to be acked; past it the move is given up and the topology runs on. More than
        twice Storm's message timeout of 30 s, so that a tree that was lost before has failed by then.
    swap_s
        For the old workers to end and the new ones to report; past it the spouts are resumed all the same, and the
        report says so.
    """

    drain_s: float = 75.0
    swap_s: float = 60.0


@dataclass(frozen=True)
class MoveReport:
    """What a move did and how long each step took, in seconds.

    `swap_s` lasts until the spouts may emit again, `resume_s` from there until all new workers report.
    """

    topology: str
    moved_executors: int
    started_workers: int
    stopped_workers: int
    kept_workers: int
    drain_s: float
    swap_s: float
    resume_s: float
    started_ms: int
    ended_ms: int
    complete: bool

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def safe_move(
    move: TopologyMove,
    reason: str,
    nimbus: Nimbus,
    bridge: Bridge,
    tally: Tally,
    pauses: Pauses,
    limits: MoveLimits,
    say: Callable[[str], None],
    stop: threading.Event | None = None,
) -> MoveReport:
    """Pause the spouts, wait until the pending tuple trees are acked, swap the workers, resume.

    Workers whose slot and executors do not change keep running.

    Raises
    ------
    MoveError
        The topology is not active, tuple trees were still pending after `MoveLimits.drain_s`, or `stop` was set before
        that: nothing was moved, and the spouts do what they did before.
    NimbusError
        Nimbus refused a call; the spouts are resumed before it is passed on.
    """
    topology = move.topology
    _check_movable(move, nimbus, tally)
    started_ms, begin = _now_ms(), time.monotonic()
    say(f"{topology.name}: pausing spouts")
    # Whatever goes wrong, a topology is never left paused.
    with pauses.around(topology.name, nimbus.activate):
        nimbus.deactivate(topology.name)
        _drain(move, tally, begin, limits.drain_s, stop or threading.Event())
        drained = time.monotonic()
        say(f"{topology.name}: drained in {drained - begin:.1f} s, swapping {len(move.started_workers)} workers")
        complete = True
        for leg in move.legs[:-1]:
            complete &= _swap(move.topology, leg, reason, nimbus, bridge, tally, limits.swap_s, say)
        last, swapping = move.legs[-1], time.monotonic()
        complete &= _swap(move.topology, last, reason, nimbus, bridge, tally, limits.swap_s, say)
        swapped = time.monotonic()
    complete &= _await_reports(move.topology, last, tally, swapping, limits.swap_s)
    resumed = time.monotonic()
    if complete:
        say(f"{topology.name}: runs again after {resumed - begin:.1f} s")
    else:
        say(f"{topology.name}: active again, but after {resumed - begin:.1f} s not all of its new workers report")
    return MoveReport(
        topology=topology.id,
        moved_executors=move.moved_executors,
        started_workers=len(move.started_workers),
        stopped_workers=len(move.stopped_workers),
        kept_workers=len(move.kept_workers),
        drain_s=drained - begin,
        swap_s=swapped - drained,
        resume_s=resumed - swapped,
        started_ms=started_ms,
        ended_ms=_now_ms(),
        complete=complete,
    )


def _check_movable(move: TopologyMove, nimbus: Nimbus, tally: Tally) -> None:
    name = move.topology.id
    status = next((t["status"] for t in nimbus.cluster()["topologies"] if t["id"] == name), "gone")
    if status != ACTIVE:
        # Somebody else has paused or is moving it; to resume it is theirs as well.
        raise MoveError(f"{name} is {status}, only what is {ACTIVE} is moved")
    unheard = tally.unheard(name, move.before.slots)
    if unheard:
        # It could not be seen whether its tuple trees are through.
        raise MoveError(f"{name}: {len(unheard)} of {len(move.before.slots)} workers do not report; nothing was moved")


def _drain(move: TopologyMove, tally: Tally, since: float, limit_s: float, stop: threading.Event) -> None:
    topology = move.topology.id
    live = move.before.slots
    deadline = since + limit_s
    while not (tally.quiet(topology, live, since) and tally.pending(topology, live) == 0):
        left = deadline - time.monotonic()
        if stop.is_set():
            raise MoveError(f"{topology}: nothing was moved, the service is being stopped")
        if left <= 0:
            raise MoveError(
                f"{topology}: {tally.pending(topology, live)} tuple trees still pending after {limit_s:g} s without "
                "new ones; nothing was moved. A bolt may hold tuples unacked: move it by hand"
            )
        tally.wait(min(left, _POLL_S))


def _swap(
    topology: Topology,
    leg: Leg,
    reason: str,
    nimbus: Nimbus,
    bridge: Bridge,
    tally: Tally,
    limit_s: float,
    say: Callable[[str], None],
) -> bool:
    """Exchange the workers; return when the topology may be activated, or False after `limit_s`.

    No old worker may live then: it would emit into connections that are being closed. New workers need not be up:
    Storm lets one emit only when it is connected to all others. But one that keeps running has no such scruple, so
    if there is any, all new ones must report first.
    """
    since, old = time.monotonic(), tally.lives(topology.id, leg.stopped_workers)
    bridge.order(topology.id, Order(leg.after, reason))
    try:
        nimbus.rebalance(topology.name, wait_s=0)
    except NimbusError:
        bridge.withdraw(topology.id)
        raise
    left = {supervisor.id: supervisor for supervisor in leg.vacated}
    while time.monotonic() < since + limit_s:
        time.sleep(_PAUSE_S)
        for supervisor in list(left.values()):
            try:
                released = nimbus.release(topology.id, supervisor)
            except NimbusError as error:
                say(f"{supervisor.host} could not be told to end its worker and will find out by itself: {error}")
                released = True
            if released:
                del left[supervisor.id]
        if not left and _ended(old, tally) and (not leg.kept_workers or _all_report(topology, leg, tally, since)):
            return True
        tally.wait(_POLL_S)
    return False


def _ended(workers: Sequence[WorkerId], tally: Tally) -> bool:
    return all(tally.silent(worker) for worker in workers)


def _await_reports(topology: Topology, leg: Leg, tally: Tally, since: float, limit_s: float) -> bool:
    """Whether every started worker reports with all its tasks within `limit_s`."""
    while not (up := _all_report(topology, leg, tally, since)) and time.monotonic() < since + limit_s:
        tally.wait(_POLL_S)
    return up


def _all_report(topology: Topology, leg: Leg, tally: Tally, since: float) -> bool:
    tasks: dict[WorkerSlot, set[int]] = {slot: set() for slot in leg.after.slots}
    runs = zip(topology.executor_start_task.tolist(), topology.executor_end_task.tolist(), strict=True)
    for slot, (first, last) in zip(leg.after.slot_of_executor, runs, strict=True):
        tasks[leg.after.slots[slot]].update(range(first, last + 1))
    return all(
        tally.reports(topology.id, slot.supervisor, slot.port, frozenset(tasks[slot]), since)
        for slot in leg.started_workers
    )


def _now_ms() -> int:
    return round(time.time() * 1000)
