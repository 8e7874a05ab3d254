"""What wants a place, what of it the cluster has room for, and the counted reasons for the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.schedulers.support.apart import apart_shortages
from stormwright.schedulers.support.draft import Draft
from stormwright.schedulers.support.joining import MayJoin, anybody, join_running
from stormwright.schedulers.support.limits import max_executors_per_worker, num_workers
from stormwright.schedulers.support.staying import running_workers


@dataclass(frozen=True)
class Wanted:
    """Executors of a topology (by index) that want as many workers as `workers` says."""

    topology: int
    executors: IndexArray
    workers: int


def find_wanted(draft: Draft, keep_running: bool, may_join: MayJoin = anybody) -> list[Wanted]:
    """Which executors want workers; of topologies that run first, then in the problem's order.

    To keep what runs, live workers are fixed in the draft, and a topology that lost executors wants only these placed:
    in as many workers as it lacks. What these do not take joins live workers that it `may_join`, or the topology is
    left out but for what runs.
    """
    problem = draft.problem
    running = running_workers(problem)
    first: list[Wanted] = []
    then: list[Wanted] = []
    for index, topology in enumerate(problem.topologies):
        own = problem.executors_of(index)
        executors = np.arange(own.start, own.stop)
        slots = problem.current_slot[executors]
        live = np.unique(slots[slots != UNPLACED]).tolist()
        kept = live if keep_running else []
        for slot in kept:
            draft.add_worker(index, running[slot], int(problem.slot_node[slot]), fixed=True)
        waiting = executors[slots == UNPLACED] if keep_running else executors
        workers = min(max(num_workers(topology) - len(kept), 0), len(waiting))
        if len(waiting):
            (first if live else then).append(Wanted(index, waiting, workers))
    return list(_joined(draft, first, may_join)) + then


def _joined(draft: Draft, wanted: Iterable[Wanted], may_join: MayJoin) -> Iterator[Wanted]:
    """What is still wanted once live workers have taken what new ones do not."""
    for group in wanted:
        waiting = join_running(draft, group.topology, group.executors, group.workers, may_join)
        if waiting is not None and len(waiting):
            yield replace(group, executors=waiting)


def admit(draft: Draft, wanted: Iterable[Wanted], *, backfill: bool = True) -> list[Wanted]:
    """Those of `wanted`, in order, that the cluster as a whole has room for; the draft notes why not the others.

    With `backfill` one that fits goes ahead of one that does not; without, it waits.
    """
    left = np.maximum(draft.capacity - draft.node_use(), 0)[:, draft.usable].sum(axis=1)
    admitted: list[Wanted] = []
    for group in wanted:
        reasons = tuple(_shortages(draft, group, left))
        if reasons:
            draft.reasons[group.topology] = (*reasons, *_unusable(draft))
        elif draft.reasons and not backfill:
            first = draft.problem.topologies[next(iter(draft.reasons))].id
            draft.reasons[group.topology] = (
                f"waits behind {len(draft.reasons)} topologies, the first of them {first}",
            )
        else:
            left = left - _demand(draft.problem, group)
            admitted.append(group)
    return admitted


def _demand(problem: Problem, wanted: Wanted) -> FloatArray:
    cpu_hz, memory_mb = problem.executor_cpu_hz[wanted.executors], problem.executor_memory_mb[wanted.executors]
    return np.array([cpu_hz.sum(), memory_mb.sum(), wanted.workers])


def _shortages(draft: Draft, wanted: Wanted, left: FloatArray) -> Iterator[str]:
    problem = draft.problem
    limit = max_executors_per_worker(problem.topologies[wanted.topology])
    if wanted.workers * limit < len(wanted.executors):
        yield f"{wanted.workers} workers of at most {limit} executors do not take {len(wanted.executors)}"
    cpu_hz, memory_mb, slots = _demand(problem, wanted).tolist()
    nodes = f"on {np.count_nonzero(draft.usable)} usable nodes together"
    if slots > left[2]:
        yield f"{slots:.0f} worker slots wanted, {int(left[2])} free {nodes}"
    if cpu_hz > left[0]:
        yield f"CPU short by {cpu_hz - left[0]:.4g} Hz {nodes}"
    if memory_mb > left[1]:
        yield f"memory short by {memory_mb - left[1]:.4g} MB {nodes}"
    for what, unit, demand, most in (
        ("CPU", "Hz", problem.executor_cpu_hz, draft.largest[0]),
        ("memory", "MB", problem.executor_memory_mb, draft.largest[1]),
    ):
        most_asked = demand[wanted.executors].max()
        if most_asked > most:
            yield f"one executor asks for {most_asked:.4g} {unit} of {what}, the largest usable node has {most:.4g}"
    yield from apart_shortages(draft, wanted.topology, wanted.executors, wanted.workers)


def _unusable(draft: Draft) -> Iterator[str]:
    """Nodes ruled out, counted by why."""
    total = len(draft.usable)
    for why, count in sorted(
        Counter(_why_unusable(draft, node) for node in np.flatnonzero(~draft.usable).tolist()).items()
    ):
        yield f"{count} of {total} nodes: {why}"


def _why_unusable(draft: Draft, node: int) -> str:
    host = draft.problem.supervisors[node].host
    return "blacklisted" if host in draft.problem.blacklisted_hosts else "greylisted"


def leave_out(draft: Draft, topology: int) -> None:
    """Take a topology out of the draft and note what the nodes lack for its largest worker, counted."""
    problem = draft.problem
    workers = [w for w, t in enumerate(draft.topology) if t == topology and not draft.fixed[w]]
    sums = np.stack([draft.worker_sum(problem.executor_cpu_hz), draft.worker_sum(problem.executor_memory_mb)])
    cpu_hz, memory_mb = sums[:, max(workers, key=lambda w: sums[0, w])].tolist()
    draft.take_out(topology)
    room = (draft.capacity - draft.node_use())[:, draft.usable]
    full = room[2] < 1
    short_of_cpu = ~full & (room[0] < cpu_hz)
    short_of_memory = ~full & ~short_of_cpu & (room[1] < memory_mb)
    fits = ~full & ~short_of_cpu & ~short_of_memory
    counts = [
        (full, "no free worker slot"),
        (short_of_cpu, f"CPU short by at least {(cpu_hz - room[0])[short_of_cpu].min(initial=np.inf):.4g} Hz"),
        (
            short_of_memory,
            f"memory short by at least {(memory_mb - room[1])[short_of_memory].min(initial=np.inf):.4g} MB",
        ),
        (fits, f"room for its largest worker, but not for all {len(workers)} together"),
    ]
    of_nodes = f"of {len(draft.usable)} nodes"
    found = [f"{np.count_nonzero(nodes)} {of_nodes}: {why}" for nodes, why in counts if nodes.any()]
    draft.reasons[topology] = (*found, *_unusable(draft))
