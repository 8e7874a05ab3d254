"""Generic rules of scheduling, each declared by the rule that puts the executors of a topology on nodes.

Score rules put each executor on the node with the lowest score; round robins distribute workers in turn.

The survey "Task scheduling algorithms in distributed systems" (分布式系统中的任务调度算法) lists two more that are no
rules: adaptive scheduling, by which the assignment changes with how tasks run, without saying at what and to what; and
genetic algorithms, without an objective or operators. What is at hand of it ends there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stormwright.model import UNPLACED, Assignment, Problem
from stormwright.model.arrays import FloatArray
from stormwright.schedulers.placement.placing import FreeResources, Placing
from stormwright.schedulers.placement.scores import busy_with, in_cluster, part_used, weights_of
from stormwright.schedulers.templates.turns import SmoothTurns, Turns, deal
from stormwright.schedulers.templates.waiting import Rule, by_score, place_waiting
from stormwright.schedulers.toolkit.params import MAX_SEED, Params, param


@dataclass(frozen=True, kw_only=True)
class GenericParams(Params):
    """Parameters of a rule without parameters of its own."""


class GenericScheduler:
    """Base of the generic rules: places unplaced topologies by the rule of a subclass."""

    name: ClassVar[str]
    params_type: ClassVar[type[Params]] = GenericParams

    def __init__(self, params: Params | None = None) -> None:
        self.params = params or self.params_type()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot."""
        return place_waiting(problem, self.name, self.params, self.make_rule)

    def make_rule(self, room: FreeResources) -> Rule:
        """Return the rule for nodes with these free resources."""
        raise NotImplementedError


class BinpackScheduler(GenericScheduler):
    """Puts each executor on the fullest node with enough free resources, so that few nodes are used.

    Generic: best fit. The fullness of a node is the larger of its CPU and memory utilisation by all topologies.

    The requested workers may need more nodes than the executors would: if a node has no slot for a further worker, the
    rest goes elsewhere. Ties go to the lower index of node.

    When to use
    -----------
    Nodes should be freed, to switch them off or to reserve them for the next topology. The other nodes then run close
    to their limits, so loads should be well known.

    Ignores
    -------
    Traffic, streams, racks, and load balance.

    Honours
    -------
    CPU, memory, executors per worker
    """

    name = "binpack"
    quick_up_to = 20_000

    def make_rule(self, room: FreeResources) -> Rule:
        """Return the rule, see the class."""
        return by_score(_fullness)(room)


class EarliestAvailableScheduler(GenericScheduler):
    """Puts each executor on the node that is available first, regardless of the executor's own work.

    After T. D. Braun et al., "A comparison of eleven static heuristics for mapping a class of
    independent tasks onto heterogeneous distributed computing systems", Journal of Parallel and Distributed Computing
    61, 2001, https://doi.org/10.1006/jpdc.2000.1714, where it is called
    opportunistic load balancing.

    A node is available after the CPU of its executors, running or placed so far, divided by its capacity: the seconds
    that it takes for the work of one second. Ties go to the lower index of node.

    When to use
    -----------
    Nodes should be equally busy, and no executor is large compared with a node.

    Ignores
    -------
    Traffic, streams, racks, the size of the executor; memory, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker
    """

    name = "earliest_available"

    def make_rule(self, room: FreeResources) -> Rule:
        """Return the rule, see the class."""
        return by_score(_work_s)(room)


class LeastExecutorsScheduler(GenericScheduler):
    """Puts each executor on the node with fewest executors.

    Generic; rule 4 ("least task first") of the survey "Task scheduling algorithms in distributed systems"
    (分布式系统中的任务调度算法).

    1. The executors of a node are those of all topologies, running or placed so far.
    2. Once a topology has a node for each of its workers, no further node is used.

    Ties go to the lower index of node.

    When to use
    -----------
    Nothing was measured, and neither nodes nor executors differ much.

    Ignores
    -------
    Traffic, streams, racks, the speed of nodes; load, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker
    """

    name = "least_executors"

    def make_rule(self, room: FreeResources) -> Rule:
        """Return the rule, see the class."""
        return by_score(_executors)(room)


class MaxMinScheduler(GenericScheduler):
    """Takes the executor with the latest earliest completion next, and puts it where it completes first.

    After O. H. Ibarra, C. E. Kim, "Heuristic algorithms for scheduling independent tasks on nonidentical processors",
    Journal of the ACM 24, 1977, https://doi.org/10.1145/322003.322011, under the name used by M. Maheswaran et al.,
    "Dynamic mapping of a class of independent tasks onto heterogeneous computing systems", Journal of Parallel and
    Distributed Computing 59, 1999, https://doi.org/10.1006/jpdc.1999.1581.

    1. The completion time of an executor on a node is the time for one second's work of all executors there and of this
       one: their CPU divided by the node's.
    2. Of a topology the executor whose earliest completion is latest goes next. As nodes differ only in speed, that is
       the largest one.
    3. Topologies are placed one after the other, in the order set by ``--set order=``.

    Ties go to the lower index of executor and node.

    When to use
    -----------
    Few large executors among many small ones: the large ones are spread first, the small ones fill the gaps.

    Ignores
    -------
    Traffic, streams, racks; memory, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker
    """

    name = "max_min"

    def make_rule(self, room: FreeResources) -> Rule:
        """Return the rule, see the class."""
        return by_score(busy_with, -room.problem.executor_cpu_hz)(room)


class MinMinScheduler(GenericScheduler):
    """Takes the executor with the earliest completion next, and puts it where it completes first.

    After O. H. Ibarra, C. E. Kim, "Heuristic algorithms for scheduling independent tasks on nonidentical processors",
    Journal of the ACM 24, 1977, https://doi.org/10.1145/322003.322011, under the name used by M. Maheswaran et al.,
    "Dynamic mapping of a class of independent tasks onto heterogeneous computing systems", Journal of Parallel and
    Distributed Computing 59, 1999, https://doi.org/10.1006/jpdc.1999.1581.

    1. The completion time of an executor on a node is the time for one second's work of all executors there and of this
       one: their CPU divided by the node's.
    2. Of a topology the executor whose earliest completion is earliest goes next. As nodes differ only in speed, that
       is the smallest one.
    3. Topologies are placed one after the other, in the order set by ``--set order=``.

    Ties go to the lower index of executor and node.

    When to use
    -----------
    Many small executors and few large ones on unequal nodes: small ones get the fast nodes.

    Ignores
    -------
    Traffic, streams, racks; memory, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker
    """

    name = "min_min"

    def make_rule(self, room: FreeResources) -> Rule:
        """Return the rule, see the class."""
        return by_score(busy_with, room.problem.executor_cpu_hz)(room)


class NearestAverageLoadScheduler(GenericScheduler):
    """Puts each executor on the node whose resulting load is nearest to the mean load of the nodes.

    Generic; rule 2 of the second list ("nearest load first") in the survey "Task scheduling algorithms in distributed
    systems" (分布式系统中的任务调度算法), which leaves points 1 and 2 open.

    1. A node's load is its CPU utilisation; the mean is over nodes with a free slot or an executor.
    2. The mean is that before the executor is placed, recomputed for every executor.

    Ties go to the lower index of node.

    When to use
    -----------
    CPU was measured, and unequal nodes should be equally busy.

    Ignores
    -------
    Traffic, streams, racks; memory, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker
    """

    name = "nearest_average_load"
    quick_up_to = 20_000

    def make_rule(self, room: FreeResources) -> Rule:
        """Return the rule, see the class."""
        return by_score(_distance_from_mean)(room)


@dataclass(frozen=True, kw_only=True)
class RandomParams(Params):
    """Parameters of the scheduler."""

    seed: int = param(0, "seed of the random numbers", low=0, high=MAX_SEED)


class RandomScheduler(GenericScheduler):
    """Puts each executor on a random node among those with enough free resources.

    Generic; rule 2 of the survey "Task scheduling algorithms in distributed systems" (分布式系统中的任务调度算法).

    1. A node takes an executor if CPU, memory and executors per worker allow it and it has, or may open, a worker of
       the topology. Once the topology has a node for each of its workers, no further node is used.
    2. All such nodes are equally likely. The same problem and seed give the same answer.

    There are no ties.

    When to use
    -----------
    As a second baseline: a placement that is no better than chance is not worth a move.

    Ignores
    -------
    Traffic, streams, racks; load, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker
    """

    name = "random"
    params_type = RandomParams
    params: RandomParams

    def make_rule(self, _: FreeResources) -> Rule:
        """Return the rule, see the class."""
        rng = np.random.default_rng(self.params.seed)

        def place(placing: Placing) -> None:
            for executor in placing.executors:
                nodes = np.flatnonzero(placing.can_take(executor))
                placing.put(executor, int(rng.choice(nodes)) if len(nodes) else UNPLACED)

        return place


class ShortestProcessingTimeScheduler(GenericScheduler):
    """Puts each executor on the node that needs least time for its work, however busy the node is.

    After T. D. Braun et al., "A comparison of eleven static heuristics for mapping a class of
    independent tasks onto heterogeneous distributed computing systems", Journal of Parallel and Distributed Computing
    61, 2001, https://doi.org/10.1006/jpdc.2000.1714, where it is called minimum
    execution time; and rule 1 of the second list ("shortest job first") in the survey "Task scheduling algorithms in
    distributed systems" (分布式系统中的任务调度算法).

    1. Time for an executor's work is its CPU divided by the speed of a core of the node: an executor is one thread.
    2. That speed is the node's CPU divided by its cores (``cpu.pcore.percent``); that of the problem's cores if the
       node's number of cores is unknown.

    Nodes with fast cores are filled first. Ties go to the lower index of node.

    When to use
    -----------
    Cores differ in speed, the cluster has spare capacity, and a single slow executor delays its topology.

    Ignores
    -------
    Traffic, streams, racks, the present load of nodes, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker
    """

    name = "shortest_processing_time"

    def make_rule(self, room: FreeResources) -> Rule:
        """Return the rule, see the class."""
        core_hz = room.problem.node_core_hz

        def time_s(_: Placing, executor: int) -> FloatArray:
            time_s: FloatArray = room.problem.executor_cpu_hz[executor] / core_hz
            return time_s

        return by_score(time_s)(room)


def _fullness(placing: Placing, _: int) -> FloatArray:
    """Return minus the fuller of CPU and memory of every node, shape (N,)."""
    room = placing.room
    cpu, memory = part_used(room.capacity_hz, room.cpu_hz), part_used(room.capacity_mb, room.memory_mb)
    fullness: FloatArray = -np.maximum(cpu, memory)
    return fullness


def _work_s(placing: Placing, _: int) -> FloatArray:
    """Return the seconds that every node takes for the work of one, shape (N,)."""
    return part_used(placing.room.capacity_hz, placing.room.cpu_hz)


def _executors(placing: Placing, _: int) -> FloatArray:
    """Return the number of executors on every node, shape (N,)."""
    return placing.room.executors.astype(float)


def _distance_from_mean(placing: Placing, executor: int) -> FloatArray:
    """Return the distance of every node's load, with the executor, from the mean, shape (N,)."""
    room = placing.room
    counted = in_cluster(room)
    mean = float(part_used(room.capacity_hz, room.cpu_hz)[counted].mean()) if counted.any() else 0.0
    demand_hz = float(room.problem.executor_cpu_hz[executor])
    distance: FloatArray = np.abs(part_used(room.capacity_hz, room.cpu_hz, demand_hz) - mean)
    return distance


class RoundRobinScheduler(GenericScheduler):
    """Distributes workers over the nodes in turn.

    Generic; rule 1 of the survey "Task scheduling algorithms in distributed systems" (分布式系统中的任务调度算法).

    1. The executors of a topology go round robin over its workers.
    2. Each worker goes to the next node in order; a node too full for it is skipped. The next topology continues where
       the previous one stopped.

    The turns begin with the first node. There are no ties.

    When to use
    -----------
    Nodes are alike, workers are alike, and a predictable placement is worth more than a good one.

    Ignores
    -------
    Traffic, streams, racks, the present load of nodes, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker
    """

    name = "round_robin"

    def make_rule(self, room: FreeResources) -> Rule:
        """Return the rule, see the class."""
        return deal(Turns(room.num_nodes).take)


class WeightedRoundRobinScheduler(GenericScheduler):
    """Distributes workers over the nodes in turn, more to those with more CPU.

    Generic; rule 3 of the survey "Task scheduling algorithms in distributed systems" (分布式系统中的任务调度算法), in
    the smooth form of nginx.

    1. The executors of a topology go round robin over its workers.
    2. A node's weight is its CPU capacity; the turns are those of `SmoothTurns` among the nodes with room for the
       worker. The next topology continues where the previous one stopped.

    Ties go to the lower index of node.

    When to use
    -----------
    Nodes differ in CPU, the cluster is otherwise empty, and the traffic is unknown or light.

    Ignores
    -------
    Traffic, streams, racks, the present load of nodes, except as a constraint.

    Honours
    -------
    CPU, memory, executors per worker
    """

    name = "weighted_round_robin"

    def make_rule(self, room: FreeResources) -> Rule:
        """Return the rule, see the class."""
        turns, weights = SmoothTurns(room.num_nodes), weights_of(room.problem.node_cpu_hz)
        return deal(lambda can_host: turns.take(can_host, weights))


class DynamicWeightedScheduler(GenericScheduler):
    """Distributes workers over the nodes in turn, more to those with more CPU free at that moment.

    Generic; rule 3 of the second list in the survey "Task scheduling algorithms in distributed systems"
    (分布式系统中的任务调度算法), in the smooth form of nginx.

    1. The executors of a topology go round robin over its workers.
    2. A node's weight is its CPU capacity less the CPU of its executors, running or placed so far, recomputed for every
       worker; the turns are those of `SmoothTurns` among the nodes with room for the worker.

    Ties go to the lower index of node.

    When to use
    -----------
    Nodes differ or are partly used by other topologies, and the traffic is unknown or light.

    Ignores
    -------
    Traffic, streams, racks, and that workers of a topology may differ in load: each takes one turn. Memory, except as a
    constraint.

    Honours
    -------
    CPU, memory, executors per worker
    """

    name = "dynamic_weighted_round_robin"

    def make_rule(self, room: FreeResources) -> Rule:
        """Return the rule, see the class."""
        turns = SmoothTurns(room.num_nodes)
        return deal(lambda can_host: turns.take(can_host, weights_of(room.cpu_hz)))
