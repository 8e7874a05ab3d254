"""Constraint: limits of all topologies of one user together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from stormwright.model.arrays import FloatArray, IndexArray
from stormwright.model.assignment import UNPLACED
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE, PlacedExecutors, Violation
from stormwright.model.humanize import amount_of
from stormwright.model.tenancy_config import EVERYBODY, LIMITED, Users, read_users

if TYPE_CHECKING:
    from stormwright.model.problem import Problem
    from stormwright.model.topology import Topology

#: Key of a topology's configuration in which Storm keeps who submitted it.
SUBMITTER: Final = "topology.submitter.user"

#: Units that nouns are, of which there are whole numbers.
_COUNTS: Final = frozenset({"executors", "slots"})


def user_of(topology: Topology) -> str:
    """Return who submitted a topology; empty if unknown."""
    return topology.owner or str(topology.conf.get(SUBMITTER) or "")


def allowed_of(users: Users, user: str) -> Mapping[str, float]:
    """Return the limits of a user; those of everybody where there are none of his own."""
    return {**users.get(EVERYBODY, {}), **users.get(user, {})}


def amounts_of(problem: Problem) -> FloatArray:
    """Return the usage of every topology for each limit, in the order of `LIMITED`, shape (4, T).

    A running topology with more workers than requested counts with these.
    """
    requested = [min(topology.num_workers, topology.num_executors) for topology in problem.topologies]
    slots = np.maximum(slots_of(problem, problem.current_slot), np.array(requested, float))
    return _amounts(problem, np.ones(problem.num_executors), slots)


def _amounts(problem: Problem, counts: FloatArray, slots: FloatArray) -> FloatArray:
    """Return amounts by topology, shape (4, T), from the executors that count, shape (E,), and slots, shape (T,)."""
    count, owner = len(problem.topologies), problem.executor_topology
    return np.stack(
        [
            np.bincount(owner, counts, count),
            slots,
            np.bincount(owner, counts * problem.executor_cpu_hz, count) * (100 / problem.core_hz),
            np.bincount(owner, counts * problem.executor_memory_mb, count),
        ]
    )


def slots_of(problem: Problem, slots: IndexArray) -> FloatArray:
    """Return the number of slots of every topology, shape (T,)."""
    there = slots != UNPLACED
    pairs = np.unique(np.stack([problem.executor_topology[there], slots[there]]), axis=1)
    return np.bincount(pairs[0], minlength=len(problem.topologies)).astype(float)


def amount_text(name: str, used: float, allowed: float) -> str:
    """``12 of 10 executors``, ``450 of 400 % of CPU``, ``600 of 512 MB of memory``."""
    unit = LIMITED[name]
    return amount_of(used, allowed, unit) + ("" if unit in _COUNTS else f" of {name.replace('cpu', 'CPU')}")


@dataclass(frozen=True, kw_only=True)
class UserLimitExceeded(Violation):
    """A user whose topologies together exceed a limit.

    Parameters
    ----------
    user
        Name of the user.
    name
        Name of the limit, one of `LIMITED`.
    """

    limit: ClassVar[str] = "users"

    user: str
    name: str

    def __str__(self) -> str:
        return f"user {self.user}: {amount_text(self.name, self.amount, self.allowed)}"


class UserLimits:
    """The topologies of a user together stay within ``stormwright.users`` of the cluster's configuration.

    Running executors may continue, and recover lost ones: only new usage beyond a limit is a violation.
    """

    def allowed(self, problem: Problem) -> Users:
        """Return user → name of a limit → its value."""
        return read_users(problem.conf)[0]

    def violations(self, placed: PlacedExecutors) -> Iterator[UserLimitExceeded]:
        """Yield users with new usage beyond a limit, in the order of their first topologies."""
        problem = placed.problem
        users = self.allowed(problem)
        if not users:
            return
        count, owner = len(problem.topologies), problem.executor_topology
        ran = np.bincount(owner, problem.current_slot != UNPLACED, count) > 0
        has = _amounts(problem, placed.placed.astype(float), slots_of(problem, placed.slots))
        own: dict[str, list[int]] = {}
        for index, topology in enumerate(problem.topologies):
            own.setdefault(user_of(topology), []).append(index)
        for user, topologies in own.items():
            if not np.any((has[0, topologies] > 0) & ~ran[topologies]):
                continue
            most = allowed_of(users, user)
            for name, used in zip(LIMITED, has[:, topologies].sum(axis=1).tolist(), strict=True):
                if name in most and used > most[name] * (1 + RELATIVE_TOLERANCE):
                    yield UserLimitExceeded(user=user, name=name, amount=used, allowed=most[name], unit=LIMITED[name])
