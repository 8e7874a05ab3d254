"""Executors in workers: who is where, and what that changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem
from stormwright.predict.flow.profile import Profile, correction_factors
from stormwright.predict.workers import nodes_of
from stormwright.simulator.engine import NOWHERE
from stormwright.simulator.kernel.arrays import records
from stormwright.simulator.kernel.shares import JOB, Shares
from stormwright.simulator.settings import Settings
from stormwright.simulator.storm.records import GONE, NONE, Cluster

# Sets ---------------------------------------------------------------------------------------------
# Sets of like tuples that are one event, for long runs.
#
# A set of m trees is begun at once, and what each executor handles, sends and acks are sets of m tuples: m times the
# work, the bytes and the time between them, in m times fewer events. Its work varies by m times less, as that of m
# tuples together does, and so do the times between sets. So what executors, cores and links have to do is the same,
# and near saturation so is for how long tuples wait (J. F. C. Kingman, The single server queue in heavy traffic,
# Proceedings of the Cambridge Philosophical Society 57(4), 1961, https://doi.org/10.1017/S0305004100036094). What
# differs:
#
# - An executor hands on a set once it has worked on all of it: latencies are longer, by up to m tuples' work at each
#   executor on the way.
# - A set goes to one executor where single tuples would go to several, whose queues grow and shrink by m.
# - What may be pending, and what queues hold, is rounded down to whole sets.
# - What it takes to wake a thread, where nodes have a quota, is paid once for a set: there CPU comes out too low.

#: So many sets may be pending and be in a queue at least, for executors to have work beside each other.
_LEAST_SETS = 8


def fitting(of: Cluster, most: int) -> int:
    """How many tuples are a set: `most`, or fewer where spouts may have few trees pending, or queues are short."""
    executors = int(of.run[0]["executors"])
    rooms = [*of.spouts["most"], *of.threads["limit"][: executors + int(of.run[0]["workers"])]]
    return max(min(most, int(min(rooms, default=0)) // _LEAST_SETS), 1)


def put_together(of: Cluster, count: int) -> None:
    """Have so many tuples be one in a cluster in which nothing has happened yet."""
    spouts, executors = of.spouts, int(of.run[0]["executors"])
    spouts["apart_s"] *= count
    spouts["comes"] *= count
    spouts["varies"] /= count
    spouts["most"] //= count
    of.threads["limit"][: executors + int(of.run[0]["workers"])] //= count
    of.routes["bytes"] *= count
    for name in ("overhead_bytes", "serialise_s", "send_s", "receive_s"):
        of.run[name] *= count
    np.maximum(spouts["most"], 1, out=spouts["most"])


# Placing ------------------------------------------------------------------------------------------

#: A worker: its topology and its slot.
Seat = tuple[int, int]


class Workers:
    """Workers by topology and slot, and what threads are on each node.

    Parameters
    ----------
    problem, profile
        With the nodes, and the load.
    settings
        With the costs.
    at_once
        How many tuples are one.
    """

    def __init__(self, problem: Problem, profile: Profile, settings: Settings, at_once: int = 1) -> None:
        self.problem, self.costs = problem, settings.costs
        self.cycles = at_once * profile.work_cycles(settings.costs, settings.corrections)
        self.idle_hz = profile.idle_hz()
        self.nodes = nodes_of(problem)
        self.message_factors = correction_factors(problem, settings.corrections)[1]
        self.varies = settings.varies / at_once
        self._numbers: dict[Seat, int] = {}

    def seats(self, slots: NDArray[np.int32]) -> dict[Seat, tuple[int, ...]]:
        """Executors of every worker of a placement."""
        found: dict[Seat, list[int]] = defaultdict(list)
        placed = np.flatnonzero(slots != NOWHERE)
        topology = self.problem.executor_topology[placed]
        for executor, of, slot in zip(placed.tolist(), topology.tolist(), slots[placed].tolist(), strict=True):
            found[of, slot].append(executor)
        return {seat: tuple(executors) for seat, executors in found.items()}

    def number(self, seat: Seat) -> int:
        """The number of a worker."""
        return self._numbers[seat]

    def take(self, seat: Seat) -> int:
        """A number for a new worker, the lowest that is free."""
        taken = set(self._numbers.values())
        self._numbers[seat] = next(number for number in range(len(taken) + 1) if number not in taken)
        return self._numbers[seat]

    def free(self, seat: Seat) -> None:
        """A worker is no more."""
        del self._numbers[seat]

    def in_slot(self, slot: int) -> list[int]:
        """Workers in a slot."""
        return sorted(number for (_, at), number in self._numbers.items() if at == slot)

    def on_node(self, of: Cluster, node: int) -> list[int]:
        """Workers on a node."""
        return sorted(number for number in self._numbers.values() if of.workers["node"][number] == node)

    def seat_of(self, worker: int) -> Seat:
        """Topology and slot of a worker."""
        return next(seat for seat, number in self._numbers.items() if number == worker)


def freed(of: Cluster, worker: int, executors: Sequence[int]) -> None:
    """A worker that has stopped is no more, and its executors are nowhere."""
    run = of.run[0]
    threads = [*executors, run["executors"] + worker, run["executors"] + run["workers"] + worker]
    of.threads["worker"][threads] = of.threads["node"][threads] = of.threads["core"][threads] = NONE


def seated(of: Cluster, workers: Workers, come: Sequence[tuple[int, tuple[int, ...]]]) -> Cluster:
    """The cluster with workers that are new, none of them up yet.

    Parameters
    ----------
    of
        The cluster.
    workers
        All that are there.
    come
        Number and executors of those that are new.
    """
    run, problem, reference_hz = of.run[0], workers.problem, workers.problem.core_hz
    for worker, executors in come:
        topology, slot = workers.seat_of(worker)
        node = int(problem.slot_node[slot])
        of.workers[worker] = (topology, node, slot, False, False)
        ends = [run["executors"] + worker, run["executors"] + run["workers"] + worker]
        threads = [*executors, *ends]
        of.threads["worker"][threads], of.threads["node"][threads] = worker, node
        of.threads["state"][threads], of.threads["topology"][threads] = GONE, topology
        factor = workers.message_factors[topology] * reference_hz / workers.nodes.core_hz[node]
        of.threads["message_factor"][threads] = factor
        of.threads["core"][threads] = _cores_for(of, node, len(threads))
        own = list(executors)
        of.threads["work_s"][own] = workers.cycles[own] / workers.nodes.core_hz[node]
        of.threads["varies"][own] = workers.varies
    _take_cores(of, workers)
    return of._replace(shares=_with_room(of))


def _cores_for(of: Cluster, node: int, threads: int) -> NDArray[np.int64]:
    """Cores of a node for threads that are new on it: one after the other, that with the fewest threads.

    Where all cores have enough to do threads stay where they are, and those with a quota always do: Linux balances no
    load between cores that are held.
    """
    each = int(of.run[0]["cores"]) // int(of.run[0]["nodes"])
    first, core = node * each, of.threads["core"]
    on = np.bincount(core[(core >= first) & (core < first + each)] - first, minlength=each)
    found = np.empty(threads, np.int64)
    for number in range(threads):
        found[number] = first + on.argmin()
        on[found[number] - first] += 1
    return found


def _take_cores(of: Cluster, workers: Workers) -> None:
    """What nodes have no longer because workers are there, and executors that work whatever their rate."""
    executors, nodes = int(of.run[0]["executors"]), int(of.run[0]["nodes"])
    own = of.threads[:executors]
    there = np.flatnonzero((own["node"] != NONE) & (workers.idle_hz > 0))
    taken = np.bincount(own["node"][there], workers.idle_hz[there], nodes) / workers.nodes.core_hz
    senders = of.threads["node"][executors : executors + int(of.run[0]["workers"])]
    taken += np.bincount(senders[senders != NONE], minlength=nodes) * workers.costs.worker_cores
    (of.quotas if len(of.quotas) else of.shares.cores)["taken"] = taken


def _with_room(of: Cluster) -> Shares:
    """Heaps of jobs with room for all threads of each core."""
    cores, old = of.shares
    room = np.bincount(of.threads["core"][of.threads["core"] != NONE], minlength=len(cores))
    first = np.cumsum([0, *room])
    jobs = records(int(first[-1]), JOB)
    for number in np.flatnonzero(cores["count"]):
        at, count, size = (int(cores[name][number]) for name in ("first", "count", "room"))
        places = (int(cores["head"][number]) + np.arange(count)) % size  # heaps have theirs at the beginning
        jobs[first[number] : first[number] + count] = old[at + places]
    cores["first"], cores["room"], cores["head"] = first[:-1], room, 0
    return Shares(cores, jobs)
