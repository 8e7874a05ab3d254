"""TOP-Storm: executors that communicate most share a worker, the largest workers go to the most powerful node."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from stormwright.model import UNPLACED, Assignment, LoadProfile, Problem, Supervisor, measured_traffic
from stormwright.schedulers.placement.placing import FreeResources, Placing, fill_empty
from stormwright.schedulers.templates.waiting import Rule, place_waiting
from stormwright.schedulers.toolkit.configured_values import node_values
from stormwright.schedulers.toolkit.params import ParameterSet, Params, param
from stormwright.schedulers.toolkit.traffic import Rates

#: Keys of `supervisor.scheduler.meta` that describe the node's processors.
PROCESSORS = SOCKETS, CORES, GHZ, FLOP_PER_CYCLE = ("sockets", "cores", "ghz", "flop.per.cycle")


@dataclass(frozen=True, kw_only=True)
class TopStormParams(Params):
    """Parameters of the scheduler."""

    alpha: float = param(0.8, "weight of processing speed against memory in a node's power", low=0, high=1)
    most: str = param(
        "algorithm",
        "executors in a worker; algorithm: what is left over goes round robin, past e_ps; table: e_ps at most",
        choices=("algorithm", "table"),
    )
    traffic: str = param(
        "measured",
        "what is taken for communication; dag: what the topology's streams alone say, also where it was measured",
        choices=("measured", "dag"),
    )


class TopStormScheduler:
    """Groups the most communicating executors up to a worker's share, and fills the most powerful node first.

    A. Muhammad, M. Aleem, M. A. Islam, "TOP-Storm: A topology-based resource-aware scheduler for Stream Processing
    Engine", Cluster Computing 24, 2021, https://doi.org/10.1007/s10586-020-03117-y; algorithms 1 to 3.

    The processors of a node come from its `supervisor.scheduler.meta` (``sockets``, ``cores``, ``ghz``,
    ``flop.per.cycle``); missing values follow from its CPU capacity, with one socket and one operation per cycle.

    Differences, and points that the paper leaves open:

    1. Pairs of executors are processed by their traffic, heaviest first. A group is closed when no free executor
       communicates with either of its first two; once there are as many groups as workers, executors are left over.
    2. The executor that communicates most with these two together, which is the traffic saved, joins a group; the
       paper's "source or destination" may also mean with either one.
    3. A node too full for a worker is skipped, so that CPU, memory and executors per worker hold; the paper considers
       only slots.
    4. A worker that would be empty gets the last executor of the fullest. So if there are as many executors as workers,
       each has a worker of its own; the paper still pairs them, which leaves workers empty.
    5. Table 2 calls e_ps the maximum of executors per slot, and algorithm 2 (lines 24 to 31) distributes the rest over
       all slots in turn, including full ones, so that some have more. Here it is as in the algorithm; with `most`
       ``table`` no worker gets more than e_ps.
    6. The paper reads the communicating pairs from the topology's DAG, which has no rates. Here measured traffic is
       used. With `traffic` ``dag``, and if nothing was measured, it follows from the streams alone: each spout executor
       emits 1 tuple/s, a bolt what it receives, spread as its grouping does.

    Of equally powerful nodes that with most free slots comes first. Other ties go to the lower index of executor,
    worker and node.

    When to use
    -----------
    Traffic was measured, nodes differ in power, and the cluster has free capacity: the most powerful node is filled
    first.

    Ignores
    -------
    Racks, streams, traffic between workers when they are assigned to nodes, and the present load of nodes; load, except
    as a constraint.

    Honours
    -------
    CPU, memory, executors per worker, traffic, processors

    Raises
    ------
    InputError
        On scheduling: a value of a node's processors is not a number or below 0; all faults at once.
    """

    params_type = TopStormParams
    variants: ClassVar[Mapping[str, ParameterSet]] = {
        "authors": ParameterSet(
            "alpha of algorithm 3, executors of algorithm 2, and traffic from the DAG, as the paper reads it; measured "
            "traffic is ours",
            {"alpha": 0.8, "most": "algorithm", "traffic": "dag"},
        )
    }

    def __init__(self, params: TopStormParams | None = None) -> None:
        self.params = params or TopStormParams()

    def schedule(self, problem: Problem) -> Assignment:
        """Place the executors without a slot; algorithm 1."""
        structure = problem.with_load(LoadProfile({})) if self.params.traffic == "dag" else problem
        rates = Rates.of(problem, measured_traffic(structure))
        node_values(problem, PROCESSORS)
        power = np.array([computation_power(node, self.params.alpha) for node in problem.supervisors])
        rank = np.unique(-power, return_inverse=True)[1]

        def make_rule(room: FreeResources) -> Rule:
            def place(placing: Placing) -> None:
                # Algorithm 3, lines 15 to 17; the slots move a node by less than one rank of power.
                turn = rank - room.slots / (room.slots.max(initial=0) + 1)
                groups = executor_groups(placing, rates, strict=self.params.most == "table")
                for group in sorted(groups, key=len, reverse=True):  # algorithm 3, lines 18 to 27
                    fits = placing.can_host(group)
                    first = int(np.argmin(np.where(fits, turn, math.inf)))
                    placing.put_worker(group, first if fits[first] else UNPLACED)

            return place

        return place_waiting(problem, "top_storm", self.params, make_rule)


def computation_power(node: Supervisor, alpha: float) -> float:
    """Return the computation power of a node; equations 1 and 2.

    Parameters
    ----------
    alpha
        Weight of the processing speed; its unit (GFLOP/s) and that of memory (GB) are added as in the paper.
    """
    meta = node.scheduler_meta or {}
    cores = float(meta.get(CORES, node.resources.get("cpu.pcore.percent", 100.0) / 100))
    ghz = float(meta.get(GHZ, node.cpu_hz / cores / 1e9 if cores and math.isfinite(node.cpu_hz) else 1.0))
    speed = float(meta.get(SOCKETS, 1)) * cores * ghz * float(meta.get(FLOP_PER_CYCLE, 1))  # equation 1
    memory_gb = node.memory_mb / 1024 if math.isfinite(node.memory_mb) else 0.0
    return alpha * speed + (1 - alpha) * memory_gb  # equation 2


def executor_groups(placing: Placing, rates: Rates, *, strict: bool = False) -> list[list[int]]:
    """Return the executors of every worker, none empty; algorithm 2.

    Parameters
    ----------
    strict
        Whether no worker may exceed the share, even by left-over executors.
    """
    executors, count = placing.executors, placing.wanted.workers
    share = min(math.ceil(len(executors) / count), placing.limit)  # line 5
    most = share if strict else placing.limit
    pairs = rates.within(placing.wanted.topology, placing.wanted.executors)
    neighbours = _rows(pairs.exchange())
    free = dict.fromkeys(range(len(executors)))
    groups: list[list[int]] = []
    for source, target in zip(pairs.source.tolist(), pairs.target.tolist(), strict=True):
        if len(groups) == count or share < 2:  # remarks 1 and 4
            break
        if source not in free or target not in free:  # line 9
            continue
        group = [source, target]
        del free[source], free[target]
        while len(group) < share:  # lines 15 to 20
            pull = {  # remark 2
                e: neighbours[source].get(e, 0.0) + neighbours[target].get(e, 0.0)
                for e in (*neighbours[source], *neighbours[target])
                if e in free
            }
            if not pull:
                break
            closest = min(pull, key=lambda e: (-pull[e], e))
            group.append(closest)
            del free[closest]
        groups.append(group)
    groups += [[] for _ in range(count - len(groups))]
    turn = 1
    for executor in free:  # lines 24 to 31
        roomy = (number % count for number in range(turn, turn + count) if len(groups[number % count]) < most)
        turn = next(roomy) + 1
        groups[turn - 1].append(executor)
    fill_empty(groups)  # remark 4
    return [[executors[member] for member in group] for group in groups]


def _rows(matrix: csr_array) -> list[dict[int, float]]:
    first, columns, values = matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist()
    return [dict(zip(columns[a:b], values[a:b], strict=True)) for a, b in pairwise(first)]
