"""Placement of executors in workers, and its changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from stormwright.model import Problem
from stormwright.predict.flow.profile import Factors, Profile
from stormwright.predict.workers import nodes_of
from stormwright.simulator.engine import NOWHERE
from stormwright.simulator.kernel.arrays import records
from stormwright.simulator.kernel.shares import JOB, Shares
from stormwright.simulator.settings import SimulatorSettings
from stormwright.simulator.storm.records import GONE, NONE, ClusterState

#: A worker: its topology and its slot.
Seat = tuple[int, int]


# Sets of equal tuples that form one event, for long runs.
#
# A set of m trees is begun at once, and each executor handles, sends and acks sets of m tuples: m times the work, the
# bytes and the time between them, in m times fewer events. Its work varies by m times less, like that of m tuples
# together, and so do the times between sets. So the load of executors, cores and links is the same, and near saturation
# so are waiting times (J. F. C. Kingman, The single server queue in heavy traffic, Proceedings of the Cambridge
# Philosophical Society 57(4), 1961, https://doi.org/10.1017/S0305004100036094). Differences:
#
# - An executor passes a set on once it has processed all of it: latencies are longer, by up to m tuples' work at each
#   executor on the way.
# - A set goes to one executor where single tuples would go to several, whose queues grow and shrink by m.
# - Limits of pending trees and capacities of queues are rounded down to whole sets.
# - Waking a thread of a node with a quota is charged once per set: there CPU is too low.
def combine_tuples(cluster: ClusterState, count: int) -> None:
    """Combine `count` tuples into one in a cluster without events so far."""
    spouts, executors = cluster.spouts, int(cluster.run[0]["executors"])
    spouts["apart_s"] *= count
    spouts["comes"] *= count
    spouts["varies"] /= count
    spouts["most"] //= count
    cluster.threads["limit"][: executors + int(cluster.run[0]["workers"])] //= count
    cluster.routes["bytes"] *= count
    for name in ("overhead_bytes", "serialise_s", "send_s", "receive_s"):
        cluster.run[name] *= count
    np.maximum(spouts["most"], 1, out=spouts["most"])


class SimulatedWorkers:
    """Workers by topology and slot, and the threads of each node.

    Parameters
    ----------
    problem, profile
        Problem with the nodes, and profile of the load.
    settings
        Settings with the costs.
    at_once
        Number of equal tuples that one event stands for.
    """

    def __init__(self, problem: Problem, profile: Profile, settings: SimulatorSettings, at_once: int = 1) -> None:
        self.problem, self.costs = problem, settings.costs
        self.cycles = at_once * profile.work_cycles(settings.costs, settings.corrections)
        self.idle_hz = profile.idle_hz()
        self.nodes = nodes_of(problem)
        factors = Factors.of(problem, settings.corrections)
        self.message_factors = factors.messages * factors.scale
        self.varies = settings.varies / at_once
        self._numbers: dict[Seat, int] = {}
        self._seats: dict[int, Seat] = {}
        self._free: list[int] = []

    def seats(self, slots: NDArray[np.int32]) -> dict[Seat, tuple[int, ...]]:
        """Return the executors of every worker of a placement."""
        found: dict[Seat, list[int]] = defaultdict(list)
        placed = np.flatnonzero(slots != NOWHERE)
        topology = self.problem.executor_topology[placed]
        for executor, number, slot in zip(placed.tolist(), topology.tolist(), slots[placed].tolist(), strict=True):
            found[number, slot].append(executor)
        return {seat: tuple(executors) for seat, executors in found.items()}

    def number(self, seat: Seat) -> int:
        """Return the number of a worker."""
        return self._numbers[seat]

    def take(self, seat: Seat) -> int:
        """Return the lowest free number for a new worker."""
        number = heappop(self._free) if self._free else len(self._numbers)
        self._numbers[seat], self._seats[number] = number, seat
        return number

    def free(self, seat: Seat) -> None:
        """Release the number of a worker."""
        number = self._numbers.pop(seat)
        del self._seats[number]
        heappush(self._free, number)

    def in_slot(self, slot: int) -> list[int]:
        """Return the workers in a slot."""
        return sorted(number for (_, at), number in self._numbers.items() if at == slot)

    def on_node(self, cluster: ClusterState, node: int) -> list[int]:
        """Return the workers on a node."""
        return sorted(number for number in self._numbers.values() if cluster.workers["node"][number] == node)

    def seat_of(self, worker: int) -> Seat:
        """Return topology and slot of a worker."""
        return self._seats[worker]


def freed(cluster: ClusterState, worker: int, executors: Sequence[int]) -> None:
    """Remove a stopped worker; its executors are nowhere."""
    run = cluster.run[0]
    threads = [*executors, run["executors"] + worker, run["executors"] + run["workers"] + worker]
    cluster.threads["worker"][threads] = cluster.threads["node"][threads] = cluster.threads["core"][threads] = NONE


def seated(
    cluster: ClusterState, workers: SimulatedWorkers, come: Sequence[tuple[int, tuple[int, ...]]]
) -> ClusterState:
    """Return the cluster with new workers, none of them up yet.

    Parameters
    ----------
    cluster
        Records of the cluster.
    workers
        Numbers, topologies and slots of all workers, with the new ones.
    come
        Number and executors of new ones.
    """
    run, problem, reference_hz = cluster.run[0], workers.problem, workers.problem.core_hz
    for worker, executors in come:
        topology, slot = workers.seat_of(worker)
        node = int(problem.slot_node[slot])
        cluster.workers[worker] = (0.0, topology, node, slot, False, False, False)
        ends = [run["executors"] + worker, run["executors"] + run["workers"] + worker]
        threads = [*executors, *ends]
        cluster.threads["worker"][threads], cluster.threads["node"][threads] = worker, node
        cluster.threads["state"][threads], cluster.threads["topology"][threads] = GONE, topology
        factor = workers.message_factors[topology] * reference_hz / workers.nodes.core_hz[node]
        cluster.threads["message_factor"][threads] = factor
        cluster.threads["core"][threads] = _cores_for(cluster, node, len(threads))
        own = list(executors)
        cluster.threads["work_s"][own] = workers.cycles[own] / workers.nodes.core_hz[node]
        cluster.threads["varies"][own] = workers.varies
    _take_cores(cluster, workers)
    return cluster._replace(shares=_with_room(cluster))


def _cores_for(cluster: ClusterState, node: int, threads: int) -> NDArray[np.int64]:
    """Return cores of a node for new threads: each gets the one with the fewest threads.

    Threads stay on their cores if all are busy, and always with a quota: Linux does not balance load between throttled
    cores.
    """
    each = int(cluster.run[0]["cores"]) // int(cluster.run[0]["nodes"])
    first, core = node * each, cluster.threads["core"]
    on = np.bincount(core[(core >= first) & (core < first + each)] - first, minlength=each)
    found = np.empty(threads, np.int64)
    for number in range(threads):
        found[number] = first + on.argmin()
        on[found[number] - first] += 1
    return found


def _take_cores(cluster: ClusterState, workers: SimulatedWorkers) -> None:
    """Set the constant CPU usage of nodes by workers, and by executors that poll."""
    executors, nodes = int(cluster.run[0]["executors"]), int(cluster.run[0]["nodes"])
    own = cluster.threads[:executors]
    there = np.flatnonzero((own["node"] != NONE) & (workers.idle_hz > 0))
    taken = np.bincount(own["node"][there], workers.idle_hz[there], nodes) / workers.nodes.core_hz
    senders = cluster.threads["node"][executors : executors + int(cluster.run[0]["workers"])]
    taken += np.bincount(senders[senders != NONE], minlength=nodes) * workers.costs.worker_cores
    (cluster.quotas if len(cluster.quotas) else cluster.shares.cores)["taken"] = taken


def _with_room(cluster: ClusterState) -> Shares:
    """Return shares with heaps for all threads of each core."""
    cores, old = cluster.shares
    room = np.bincount(cluster.threads["core"][cluster.threads["core"] != NONE], minlength=len(cores))
    first = np.cumsum([0, *room])
    jobs = records(int(first[-1]), JOB)
    for number in np.flatnonzero(cores["count"]):
        at, count, size = (int(cores[name][number]) for name in ("first", "count", "room"))
        places = (int(cores["head"][number]) + np.arange(count)) % size  # heaps start at 0
        jobs[first[number] : first[number] + count] = old[at + places]
    cores["first"], cores["room"], cores["head"] = first[:-1], room, 0
    return Shares(cores, jobs)
