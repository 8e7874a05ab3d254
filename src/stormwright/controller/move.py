"""The safe move: a topology changes its placement without losing a tuple.

Storm itself, told to change an assignment, ends workers with tuples in flight; these time out half a minute later
and are lost or replayed. Here the spouts are paused first, the tuple trees under way are let finish, and only then
are the workers exchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from stormwright.controller.plan import TopologyMove
from stormwright.controller.tally import Tally
from stormwright.errors import MoveError
from stormwright.model import WorkerSlot
from stormwright.storm.bridge import Bridge, Order


class Nimbus(Protocol):
    """The calls to Nimbus that a move makes."""

    def activate(self, name: str) -> None: ...

    def deactivate(self, name: str) -> None: ...

    def rebalance(self, name: str, wait_s: int) -> None: ...


@dataclass(frozen=True)
class MoveLimits:
    """How long each step of a move may take, in seconds.

    Parameters
    ----------
    drain_s
        For the pending tuple trees to be acked; past it the move is given up and the topology runs on. More than
        twice Storm's message timeout of 30 s, so that a tree that was lost before has failed by then.
    swap_s
        For the new workers to report; past it the spouts are resumed all the same, and the move says so.
    """

    drain_s: float = 75.0
    swap_s: float = 60.0


@dataclass(frozen=True)
class MoveReport:
    """What a move did and how long each step took, in seconds."""

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
    limits: MoveLimits,
    say: Callable[[str], None],
) -> MoveReport:
    """Pause the spouts, wait until the pending tuple trees are acked, swap the workers, resume.

    Workers whose slot and executors do not change keep running.

    Raises
    ------
    MoveError
        Tuple trees were still pending after `MoveLimits.drain_s`: nothing was moved, the spouts emit again.
    NimbusError
        Nimbus refused a call; the spouts are resumed before it is passed on.
    """
    topology = move.topology
    started_ms, begin = _now_ms(), time.monotonic()
    say(f"{topology.name}: pausing spouts")
    nimbus.deactivate(topology.name)
    try:
        _drain(move, tally, begin, limits.drain_s)
        drained = time.monotonic()
        say(f"{topology.name}: drained in {drained - begin:.1f} s, swapping {len(move.started_workers)} workers")
        bridge.order(topology.id, Order(move.after, reason))
        nimbus.rebalance(topology.name, wait_s=0)
        complete = _await_workers(move, tally, drained, limits.swap_s)
        swapped = time.monotonic()
    finally:
        # Whatever went wrong, a topology is never left paused.
        nimbus.activate(topology.name)
    resumed = time.monotonic()
    say(f"{topology.name}: resumed after {resumed - begin:.1f} s")
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


def _drain(move: TopologyMove, tally: Tally, since: float, limit_s: float) -> None:
    topology = move.topology.id
    live = [(slot.supervisor, slot.port) for slot in move.before.slots]
    deadline = since + limit_s
    while not (tally.quiet(topology, live, since) and tally.pending(topology) == 0):
        left = deadline - time.monotonic()
        if left <= 0:
            raise MoveError(
                f"{topology}: {tally.pending(topology)} tuple trees still pending after {limit_s:g} s without new "
                "ones; nothing was moved. A bolt may hold tuples unacked: raise the drain limit or move it by hand"
            )
        tally.wait(min(left, 1.0))


def _await_workers(move: TopologyMove, tally: Tally, since: float, limit_s: float) -> bool:
    """Whether every started worker reports with all its tasks within `limit_s`."""
    deadline = since + limit_s
    expected = _tasks_by_slot(move)
    while True:
        missing = [
            slot
            for slot in move.started_workers
            if not tally.reports(move.topology.id, slot.supervisor, slot.port, expected[slot], since)
        ]
        left = deadline - time.monotonic()
        if not missing or left <= 0:
            return not missing
        tally.wait(min(left, 1.0))


def _tasks_by_slot(move: TopologyMove) -> dict[WorkerSlot, frozenset[int]]:
    tasks: dict[WorkerSlot, set[int]] = {slot: set() for slot in move.after.slots}
    topology = move.topology
    for executor, slot in enumerate(move.after.slot_of_executor):
        first, last = topology.executor_start_task[executor], topology.executor_end_task[executor]
        tasks[move.after.slots[slot]].update(range(int(first), int(last) + 1))
    return {slot: frozenset(members) for slot, members in tasks.items()}


def _now_ms() -> int:
    return round(time.time() * 1000)
