"""Kinds of moves: how the code and the configuration of a topology allow it to be moved, before anything moves.

While spouts are paused (Storm 2.8):

1. Bolts ack tuples: all tuple trees end, and nothing is lost (``drain``). Without ackers no tree is tracked, and a
   topology is drained once no tuple is queued.
2. ``StatefulBoltExecutor`` acks a tuple when a checkpoint that contains it is committed. So no tree is pending exactly
   when all state is committed (``checkpoint``). State that its provider has in the memory of the worker is lost
   (``never``).
3. ``WindowedBoltExecutor`` acks a tuple when it leaves the window. Windows of a duration that slide by a duration end
   without new tuples, after the sum of the two: that is waited for (``drain``, or ``window`` if it is longer than the
   usual wait). Windows of a number of tuples, windows that slide by a number (the default is 1), and windows of event
   time advance with new tuples only: the trees that they contain are replayed (``window``), or, where nothing is
   acked, lost (``replay``).
4. ``PersistentWindowedBoltExecutor`` acks with the checkpoint and stores the window in it: ``checkpoint``.
   ``StatefulWindowedBoltExecutor`` acks with the checkpoint after a tuple has left the window, and expects the others
   to be replayed: ``window``. So do stateful bolts in the same topology as other windows: a turn for a checkpoint
   begins new windows.
5. Trident's ``MasterBatchCoordinator`` begins no batch while it is inactive, but commits the current one, on acks:
   it rests between two batches (``batch``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import ceil, isfinite
from typing import Any, Final, get_args

import numpy as np

from stormwright.controller.reports import MoveLimits
from stormwright.model import Component, Topology
from stormwright.model.batches import MAX_SPOUT_PENDING, PRODUCER_BATCH
from stormwright.model.humanize import counted
from stormwright.model.requests import CHECKPOINT_SPOUT
from stormwright.model.topology_config import MOVE
from stormwright.plans.modes import MoveKind
from stormwright.plans.plan import TopologyMove
from stormwright.predict.changes import with_executors

DRAIN: Final = "drain"
CHECKPOINT: Final = "checkpoint"
WINDOW: Final = "window"
BATCH: Final = "batch"
REPLAY: Final = "replay"
NEVER: Final = "never"
KINDS: Final[tuple[MoveKind, ...]] = get_args(MoveKind)

_ACKER, _ACKERS = "__acker", "topology.acker.executors"
_STATE_PROVIDER, _IN_MEMORY = "topology.state.provider", "org.apache.storm.state.InMemoryKeyValueStateProvider"
_LENGTH, _SLIDING = "topology.bolts.window.length.", "topology.bolts.window.sliding.interval."
_COUNT, _MS = "count", "duration.ms"
#: Keys that only windows of event time have.
_EVENT_TIME = ("topology.bolts.tuple.timestamp.", "topology.bolts.watermark.", "topology.bolts.late.tuple.")

_INTERVAL_MS, _INTERVAL_DEFAULT_MS = "topology.state.checkpoint.interval.ms", 1000.0

_TRIDENT_SPOUT = "$mastercoord-"
_PERSISTENT = "org.apache.storm.topology.PersistentWindowedBoltExecutor"
_STATEFUL = "org.apache.storm.topology.StatefulBoltExecutor"
_COORDINATOR = "org.apache.storm.trident.topology.MasterBatchCoordinator"
_KAFKA = "org.apache.storm.kafka.spout.KafkaSpout"
_UNTRACKED = ("AT_MOST_ONCE", "NO_GUARANTEE")

#: Seconds of tuples that arrive between the last checkpoint before a swap and the pause after it: the checkpoint spout
#: runs only together with the others, and is observed by the records of workers. Measured by
#: ``benchmarks/storm/move_kinds.py``.
CHECKPOINT_GAP_S: Final = 1.1

#: Seconds beyond the interval of checkpoints within which one is completed.
CHECKPOINT_LIMIT_S: Final = 20.0

#: Seconds beyond the end of windows until workers have reported it.
DRAIN_SLACK_S: Final = 15.0

#: Maximum number of bolts in a reason.
_MAX_NAMED = 3


@dataclass(frozen=True)
class MoveSafety:
    """How a topology can be moved.

    Parameters
    ----------
    kind
        Kind of the move.
    reason
        Why, in one sentence without a full stop.
    wait_s
        Maximum time in seconds after the pause until its windows are empty; 0 without windows, None if they never are.
    replayed, lost
        Predicted number of tuple trees that are replayed, and of tuples that are lost; None if unknown.
    checkpoint_s
        Maximum time for a checkpoint in seconds; None without one.
    """

    kind: MoveKind
    reason: str
    wait_s: float | None = 0.0
    replayed: int | None = 0
    lost: int | None = 0
    checkpoint_s: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the same as JSON."""
        return {
            "kind": self.kind,
            "reason": self.reason,
            "wait_s": self.wait_s,
            "replayed": self.replayed,
            "lost": self.lost,
        }


@dataclass(frozen=True)
class _Window:
    """A windowed bolt: the time until it is empty while spouts are paused, and the tuples in it on average, if known.

    Between two slides it has those of its length, and on average half of those of its sliding interval.
    """

    bolt: str
    wait_s: float | None
    held_s: float | None
    held: int | None
    is_stateful: bool


def move_safety(
    topology: Topology,
    rate_tps: float | None = None,
    restarts: Mapping[str, float] | None = None,
    *,
    drain_s: float | None = None,
    max_wait_s: float | None = None,
) -> MoveSafety:
    """Return how a topology can be moved.

    Parameters
    ----------
    topology
        The topology; without the code of its components, their configuration decides alone.
    rate_tps
        Measured tuple trees/s; None if unknown.
    restarts
        Share of the tasks of each component that restart (`restarted_shares`); None for all of them.
    drain_s
        Usual maximum time for a drain; None for the default of `MoveLimits`.
    max_wait_s
        Maximum time to wait for windows; longer ones are replayed. None for no limit.
    """
    if topology.conf.get(MOVE) is False:
        return MoveSafety(NEVER, f"{MOVE} is false in its configuration")
    spouts = [each for each in topology.components if each.type == "spout"]
    if any(each.id.startswith(_TRIDENT_SPOUT) or _is(each, _COORDINATOR) for each in spouts):
        return MoveSafety(BATCH, "Trident commits its current batches while paused, so it is moved between two of them")
    stateful = any(each.id == CHECKPOINT_SPOUT for each in spouts)
    spouts = [each for each in spouts if each.id != CHECKPOINT_SPOUT]
    if stateful and (volatile := _volatile(topology)):
        return MoveSafety(NEVER, f"a move loses the state of {_names(volatile)}, which is in the memory of workers")
    usual_s = MoveLimits().drain_s if drain_s is None else drain_s
    most = _most_pending(topology, spouts)
    tracked = _is_acked(topology) and not any(each.code and each.code.guarantee in _UNTRACKED for each in spouts)
    windows = list(_windows(topology, stateful=stateful))
    if windows:
        restarted = _Restarted.of(topology, [each.bolt for each in windows], restarts)
        return _windowed(topology, windows, rate_tps, usual_s, max_wait_s, most, spouts, restarted, tracked=tracked)
    if stateful:
        bolts = [each.id for each in topology.components if each.type == "bolt"]
        known = [each.id for each in topology.components if _is(each, _STATEFUL)]
        return _stateful(topology, rate_tps, most, _Restarted.of(topology, known or bolts, restarts), tracked=tracked)
    if (batched := _batched(topology, most)) is not None:
        return batched
    unknown = "" if any(each.code for each in topology.components) else "; the classes of its components are unknown"
    if not _is_acked(topology):
        return MoveSafety(DRAIN, f"nothing is acked, so its spouts are paused until no tuple is queued{unknown}")
    return MoveSafety(DRAIN, f"its spouts are paused until all tuple trees are acked{unknown}")


def restarted_shares(topology: Topology, moves: Sequence[TopologyMove]) -> dict[str, float]:
    """Return the share of the tasks of each component whose worker is exchanged by moves of a topology."""
    if resizes := [move.executors for move in moves if move.executors]:
        topology = with_executors(topology, resizes[-1])
    tasks = topology.executor_end_task - topology.executor_start_task + 1
    restarts = np.zeros(topology.num_executors, np.bool_)
    for move in moves:
        unchanged = np.array([slot in move.unchanged_workers for slot in move.after.slots], np.bool_)
        restarts |= ~unchanged[np.array(move.after.slot_of_executor)]
    every = np.bincount(topology.executor_component, tasks, len(topology.components))
    restarted = np.bincount(topology.executor_component, tasks * restarts, len(topology.components))
    return {
        component.id: float(some / number) if number else 0.0
        for component, some, number in zip(topology.components, restarted, every, strict=True)
    }


def _batched(topology: Topology, most: int | None) -> MoveSafety | None:
    """Return how a topology with batches and several workers can be moved (`stormwright.model.batches`); else None."""
    batch = _positive(topology.conf, PRODUCER_BATCH) or 1.0
    if batch <= 1 or topology.num_workers < 2:
        return None
    receivers = np.array([each.type != "spout" for each in topology.components])[topology.executor_component]
    waiting = ceil(batch - 1) * int(np.count_nonzero(receivers))
    why = f"tuples from other workers wait until a batch of {batch:,.0f} ({PRODUCER_BATCH}) is full: of the last"
    if not _is_acked(topology):
        return MoveSafety(REPLAY, f"{why}, up to {waiting:,} are lost", lost=waiting)
    trees = _least(waiting, most)
    return MoveSafety(REPLAY, f"{why} tuple trees, up to {trees:,} are replayed", replayed=trees)


@dataclass(frozen=True)
class _Restarted:
    """Share of pending trees that are replayed, and of tuples in bolts that are lost, if some workers restart."""

    trees: float
    tuples: float

    @classmethod
    def of(cls, topology: Topology, bolts: Sequence[str], shares: Mapping[str, float] | None) -> _Restarted:
        """Return the shares for trees that are pending in bolts.

        One is replayed if its spout, its bolt or its acker restarts: without the acker, it times out.
        """
        if shares is None:
            return cls(1.0, 1.0)
        tasks = _tasks(topology)
        spouts = [each.id for each in topology.components if each.type == "spout" and each.id != CHECKPOINT_SPOUT]
        number = sum(tasks.get(each, 1) for each in spouts) or 1
        spout = sum(shares.get(each, 1.0) * tasks.get(each, 1) for each in spouts) / number
        stays = (1 - spout) * (1 - shares.get(_ACKER, 0.0))
        held = [shares.get(each, 1.0) for each in bolts] or [1.0]
        return cls(*(sum(each) / len(held) for each in ([1 - stays * (1 - one) for one in held], held)))


def _stateful(
    topology: Topology, rate_tps: float | None, most: int | None, restarted: _Restarted, *, tracked: bool
) -> MoveSafety:
    """Return how a topology with stateful bolts and without other windows can be moved."""
    interval_s = (_positive(topology.conf, _INTERVAL_MS) or _INTERVAL_DEFAULT_MS) / 1000
    if not tracked:
        lost = _part(_tuples(rate_tps, interval_s), restarted.tuples)
        why = f"without acking, stateful bolts lose {_about(lost, 'tuples')} that came after the last checkpoint"
        return MoveSafety(REPLAY, why, lost=lost)
    later = _part(_least(_tuples(rate_tps, CHECKPOINT_GAP_S), most), restarted.trees)
    why = (
        "a checkpoint is completed before its workers are exchanged, and restored after it; "
        f"{_about(later, 'tuple trees')} that arrive meanwhile are replayed"
    )
    return MoveSafety(CHECKPOINT, why, replayed=later, checkpoint_s=interval_s + CHECKPOINT_LIMIT_S)


def _windowed(
    topology: Topology,
    windows: Sequence[_Window],
    rate_tps: float | None,
    usual_s: float,
    max_wait_s: float | None,
    most: int | None,
    spouts: Sequence[Component],
    restarted: _Restarted,
    *,
    tracked: bool,
) -> MoveSafety:
    """Return how a topology with windows can be moved."""
    names = _names([each.bolt for each in windows])
    held = _sum([_least(each.held, _tuples(rate_tps, each.held_s)) for each in windows])
    if not tracked:
        held = _part(held, restarted.tuples)
        why = f"without acking, {_about(held, 'tuples')} in the windows of {names} are lost"
        return MoveSafety(REPLAY, why, None, lost=held)
    wait_s = _longest_wait(topology, {each.bolt: each.wait_s for each in windows})
    if wait_s is not None and (max_wait_s is None or wait_s <= max(usual_s, max_wait_s)):
        why = f"its spouts are paused until the windows of {names} are empty, for at most {wait_s:,.0f} s"
        return MoveSafety(DRAIN if wait_s <= usual_s else WINDOW, why, wait_s)
    held = _part(_least(held, most), restarted.trees)
    if any(each.is_stateful for each in windows):
        why = f"the tuples in the windows of {names} are acked by a checkpoint after they leave it"
    elif wait_s is None:
        why = f"the windows of {names} end with new tuples only"
    else:
        why = f"the windows of {names} are empty after {wait_s:,.0f} s, which is too long to wait for"
    by = "" if all(_is(each, _KAFKA) for each in spouts) else ", as far as its spouts repeat failed tuples"
    return MoveSafety(WINDOW, f"{why}, so {_about(held, 'tuple trees')} are replayed{by}", None, held)


def _sum(numbers: Sequence[int | None]) -> int | None:
    """Return the sum; None if a number is unknown."""
    known = [each for each in numbers if each is not None]
    return sum(known) if len(known) == len(numbers) else None


def _windows(topology: Topology, *, stateful: bool) -> Iterator[_Window]:
    tasks = _tasks(topology)
    for component in topology.components:
        conf = component.conf
        if component.type != "bolt" or _is(component, _PERSISTENT):
            continue
        length, length_ms = _positive(conf, _LENGTH + _COUNT), _positive(conf, _LENGTH + _MS)
        if length is None and length_ms is None:
            continue
        sliding, sliding_ms = _positive(conf, _SLIDING + _COUNT), _positive(conf, _SLIDING + _MS)
        by_event = (component.code is not None and component.code.event_time) or any(
            key.startswith(_EVENT_TIME) for key in conf
        )
        held_s = None if length_ms is None else (length_ms + (sliding_ms or 0.0) / 2) / 1000
        wait_s = None if length_ms is None else (length_ms + (sliding_ms or 0.0)) / 1000
        ends = length_ms is not None and sliding_ms is not None and not by_event and not stateful
        held = None if length is None else ceil(length + (sliding or 1) / 2) * tasks.get(component.id, 1)
        yield _Window(component.id, wait_s if ends else None, held_s, held, stateful)


def _longest_wait(topology: Topology, wait_s: Mapping[str, float | None]) -> float | None:
    """Return the longest sum of waits along a path: a tree in several windows ends when it has left the last one.

    In a topology with a loop it is the sum over all windows.
    """
    if any(each is None for each in wait_s.values()):
        return None
    sources = {each.id: {grouping.source for grouping in each.inputs} for each in topology.components}
    until: dict[str, float] = {}
    try:
        for component in TopologicalSorter(sources).static_order():
            before = max((until[source] for source in sources.get(component, ())), default=0.0)
            until[component] = before + (wait_s.get(component) or 0.0)
    except CycleError:
        return sum(each or 0.0 for each in wait_s.values())
    return max(until.values(), default=0.0)


def _volatile(topology: Topology) -> list[str]:
    """Return stateful bolts with state in the memory of their worker; without their classes, ``its bolts``."""
    stateful = [each for each in topology.components if _is(each, _STATEFUL)]
    every = topology.conf.get(_STATE_PROVIDER) or _IN_MEMORY
    if not stateful:
        return ["its bolts"] if every == _IN_MEMORY else []
    return [each.id for each in stateful if (each.conf.get(_STATE_PROVIDER) or every) == _IN_MEMORY]


def _is(component: Component, name: str) -> bool:
    return component.code is not None and name in component.code.classes


def _is_acked(topology: Topology) -> bool:
    return _ACKER in topology.component_index or topology.conf.get(_ACKERS) != 0


def _most_pending(topology: Topology, spouts: Sequence[Component]) -> int | None:
    """Return the maximum number of pending trees; None without a limit."""
    tasks, most = _tasks(topology), list[int | None]()
    for spout in spouts:
        limit = _positive(spout.conf, MAX_SPOUT_PENDING) or _positive(topology.conf, MAX_SPOUT_PENDING)
        most.append(None if limit is None else int(limit) * tasks.get(spout.id, 1))
    return _sum(most)


def _tasks(topology: Topology) -> dict[str, int]:
    found: dict[str, int] = {}
    for run in topology.executor_runs:
        name = topology.components[run.component].id
        found[name] = found.get(name, 0) + run.count * run.tasks_per_executor
    return found


def _positive(conf: Mapping[str, Any], key: str) -> float | None:
    """Return a number above 0; None for any other value, which its user has written."""
    value = conf.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if isfinite(value) and value > 0 else None


def _tuples(rate_tps: float | None, seconds: float | None) -> int | None:
    return None if rate_tps is None or seconds is None else ceil(round(rate_tps * seconds, 6))


def _least(*numbers: int | None) -> int | None:
    return min((each for each in numbers if each is not None), default=None)


def _part(number: int | None, share: float) -> int | None:
    return None if number is None else ceil(number * share)


def _about(number: int | None, noun: str) -> str:
    return f"an unknown number of {noun}" if number is None else f"about {number:,} {noun}"


def _names(bolts: Sequence[str]) -> str:
    more = len(bolts) - _MAX_NAMED
    return ", ".join(bolts[:_MAX_NAMED]) + (f" and {counted(more, 'more bolt')}" if more > 0 else "")
