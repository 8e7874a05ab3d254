"""Shares of users: their usage, and the topologies in the queue that exceed their limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.model.constraints.constraint import RELATIVE_TOLERANCE
from stormwright.model.constraints.users import allowed_of, amount_text, amounts_of, slots_of, user_of
from stormwright.model.humanize import counted
from stormwright.model.tenancy_config import LIMITED, USERS, Users, read_users
from stormwright.schedulers.toolkit.queue_rules import OPTION_OF

#: Topology index → reasons why it waits.
Reasons = dict[int, tuple[str, ...]]


class UserShares:
    """Usage and limits of users.

    Parameters
    ----------
    problem
        Problem with the topologies of the users.
    users
        User → name of an amount → its limit; empty for no limits.
    running
        Topologies that run, at least in part: their usage counts.
    """

    def __init__(self, problem: Problem, users: Users, running: Sequence[int]) -> None:
        self._problem = problem
        self._user = [user_of(topology) for topology in problem.topologies]
        self._limited = bool(users)
        self._amounts = amounts_of(problem) if users else np.zeros((len(LIMITED), len(self._user)))
        self._most = {
            user: np.array([allowed_of(users, user).get(name, np.inf) for name in LIMITED]) for user in self._user
        }
        self._running = {user: np.zeros(len(LIMITED)) for user in self._user}
        for index in running:
            self._running[self._user[index]] = self._running[self._user[index]] + self._amounts[:, index]

    def admitted(self, queue: Sequence[int], backfill: bool) -> tuple[list[int], Reasons]:
        """Return the topologies of a queue within their users' limits, in order, and reasons for the others.

        Without `backfill` one that exceeds its user's limits blocks all later ones of this user only.
        """
        has, admitted, over = dict(self._running), [], Reasons()
        first: dict[str, int] = {}
        for index in queue:
            user, wanted = self._user[index], self._amounts[:, index]
            whole = has[user] + wanted
            if np.any(whole > self._most[user] * (1 + RELATIVE_TOLERANCE)):
                over[index] = tuple(self._why(index, has[user]))
                first.setdefault(user, index)
            elif user in first and not backfill:
                name = self._problem.topologies[first[user]].id
                over[index] = (f"waits behind 1 topology of the same user, {name}, which is beyond a limit",)
            else:
                has[user] = whole
                admitted.append(index)
        return admitted, over

    def learn(self, slots: IntArray, topologies: Sequence[int]) -> bool:
        """Record the actual number of slots of these topologies; return whether that exceeds a user's limit.

        Some rules give a topology more workers than requested.
        """
        if not self._limited:
            return False
        taken, row = slots_of(self._problem, slots), list(LIMITED).index("slots")
        more = [index for index in topologies if taken[index] > self._amounts[row, index]]
        self._amounts[row, more] = taken[more]
        return bool(more) and bool(self.admitted(topologies, backfill=True)[1])

    def shared(self, topologies: Collection[int], others: Collection[int]) -> bool:
        """Return whether a user has topologies in both groups."""
        return not {self._user[index] for index in topologies}.isdisjoint(self._user[index] for index in others)

    def _why(self, index: int, has: FloatArray) -> list[str]:
        user, why = self._user[index], list[str]()
        who, configured = f'user "{user}"' if user else "topologies of no user", read_users(self._problem.conf)[0]
        for name, had, wanted, most in zip(
            LIMITED, has.tolist(), self._amounts[:, index].tolist(), self._most[user].tolist(), strict=True
        ):
            if had + wanted > most * (1 + RELATIVE_TOLERANCE):
                with_it = amount_text(name, had + wanted, most)
                is_configured = allowed_of(configured, user).get(name) == most
                raised = USERS if is_configured else OPTION_OF[name]
                why.append(f"{who} would have {with_it} with it: make it smaller, kill another, or raise {raised}")
        return why


def behind(problem: Problem, first: int, count: int) -> tuple[str, ...]:
    """Return the reason of a topology that may not overtake others."""
    return (f"waits behind {counted(count, 'topology')}, the first of them {problem.topologies[first].id}",)
