"""Order of waiting topologies: priority, launch time, size, fair shares of users, or the pools of Storm."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace

import numpy as np

from stormwright.model import UNPLACED, Problem
from stormwright.model.arrays import FloatArray
from stormwright.model.constraints.users import allowed_of, user_of
from stormwright.model.tenancy_config import WEIGHT_OF_USER, read_pools, read_users
from stormwright.model.topology_config import PRIORITY, WEIGHT
from stormwright.schedulers.toolkit.configured_values import topology_values

#: Storm's default priority.
_PRIORITY = 29


def in_order(problem: Problem, waiting: Sequence[int], order: str) -> list[int]:
    """Return `waiting` topologies (by index) in the given order; ties keep their order.

    - ``given``: as in the problem.
    - ``priority``: lowest ``topology.priority`` first, as Storm counts it (0 is the most urgent, 29 by default).
    - ``first_come``: by launch time.
    - ``shortest_first``: least CPU first, divided by ``stormwright.weight`` of the topology: W. E. Smith, "Various
      optimizers for single-stage production", Naval Research Logistics Quarterly 3, 1956,
      https://doi.org/10.1002/nav.3800030106.
    - ``fair_share``: of the user with the least CPU so far (running or ahead in the queue) for his weight, the most
      urgent. A topology's CPU counts divided by its ``stormwright.weight``, a user's by ``weight`` in
      ``stormwright.users``: A. Demers, S. Keshav, S. Shenker, "Analysis and simulation of a fair queueing algorithm",
      SIGCOMM 1989, https://doi.org/10.1145/75246.75248.
    - ``pools``: as by Storm's ResourceAwareScheduler (``DefaultSchedulingPriorityStrategy`` of 2.8.3): of the user who
      would exceed the guarantee in ``resource.aware.scheduler.user.pools`` least, relative to the free resources, the
      most urgent, then the oldest.

    Raises
    ------
    InputError
        Invalid priorities or weights, if they are used; all faults at once.
    """
    topologies = problem.topologies
    if order == "priority":
        priority = topology_values(problem, PRIORITY, _PRIORITY)
        return sorted(waiting, key=lambda index: int(priority[index]))
    if order == "first_come":
        return sorted(waiting, key=lambda index: topologies[index].launch_time)
    if order == "shortest_first":
        weighted = _cpu_hz(problem) / np.array(topology_values(problem, WEIGHT, 1.0), float)
        return sorted(waiting, key=lambda index: float(weighted[index]))
    if order == "fair_share":
        return _fair_share(problem, waiting)
    return _pools(problem, waiting) if order == "pools" else list(waiting)


def _cpu_hz(problem: Problem) -> FloatArray:
    """Return the CPU of every topology, shape (T,)."""
    return np.bincount(problem.executor_topology, problem.executor_cpu_hz, len(problem.topologies)).astype(float)


def _by_user(problem: Problem, urgent_first: Sequence[int]) -> dict[str, list[int]]:
    own: dict[str, list[int]] = {}
    for index in urgent_first:
        own.setdefault(user_of(problem.topologies[index]), []).append(index)
    return own


def _fair_share(problem: Problem, waiting: Sequence[int]) -> list[int]:
    weight, users = topology_values(problem, WEIGHT, 1.0), read_users(problem.conf)[0]
    weighted = _cpu_hz(problem) / np.array(weight, float)
    runs = np.bincount(problem.executor_topology, problem.current_slot != UNPLACED, len(problem.topologies)) > 0
    share: dict[str, float] = {}
    for index, topology in enumerate(problem.topologies):
        user = user_of(topology)
        share[user] = share.get(user, 0.0) + (float(weighted[index]) if runs[index] else 0.0)
    worth = {user: allowed_of(users, user).get(WEIGHT_OF_USER, 1.0) for user in share}
    own = _by_user(problem, in_order(problem, waiting, "priority"))
    place = {index: number for number, index in enumerate(waiting)}
    # Only the share of the served user grows.
    heads = [(share[user] / worth[user], place[theirs[0]], user, 0) for user, theirs in own.items()]
    heapify(heads)
    queue = []
    while heads:
        _, _, user, number = heads[0]
        queue.append(own[user][number])
        share[user] += float(weighted[queue[-1]])
        if number + 1 < len(own[user]):
            heapreplace(heads, (share[user] / worth[user], place[own[user][number + 1]], user, number + 1))
        else:
            heappop(heads)
    return queue


def _pools(problem: Problem, waiting: Sequence[int]) -> list[int]:
    """Return the queue of `pools`; running topologies take turns, too, as in Storm, but are not returned."""
    topologies, pools = problem.topologies, read_pools(problem.conf)
    count, priority = len(topologies), topology_values(problem, PRIORITY, _PRIORITY)
    requested = np.stack(
        [_cpu_hz(problem), np.bincount(problem.executor_topology, problem.executor_memory_mb, count)], axis=1
    )
    left = problem.node_capacity[:2].sum(axis=1)
    percent_hz = problem.core_hz / 100
    urgent = sorted(range(count), key=lambda t: (int(priority[t]), topologies[t].launch_time, topologies[t].id))
    own = sorted(_by_user(problem, urgent).items())
    guaranteed = [pools.get(user, {}) for user, _ in own]
    above = np.array(
        [[-guarantee.get("cpu", 0.0) * percent_hz, -guarantee.get("memory", 0.0)] for guarantee in guaranteed]
    )
    rest = [theirs[::-1] for _, theirs in own]
    above = above.reshape(-1, 2) + requested[np.array([theirs[-1] for theirs in rest], int)]  # with the next one
    queue, live = list[int](), np.arange(len(own))
    while len(live):
        # The first by name at equal scores.
        at = int(np.argmin(np.max(above[live] / left, axis=1))) if np.all(left > 0) else 0
        user = live[at]
        queue.append(rest[user].pop())
        left = left - requested[queue[-1]]
        if rest[user]:
            above[user] += requested[rest[user][-1]]
        else:
            live = np.delete(live, at)
    wanted = set(waiting)
    return [index for index in queue if index in wanted]
