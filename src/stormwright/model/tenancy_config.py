"""Configuration keys of a cluster for users and the order of topologies, and their validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stormwright.model.arrays import is_amount
from stormwright.model.faults import ConfigFault

#: Key of the cluster's configuration: user → what all topologies of that user may have together.
USERS: Final = "stormwright.users"

#: Stands under `USERS` for every user that is not named there.
EVERYBODY: Final = "*"

#: What may be limited under `USERS`, and its unit; CPU in percent of a core.
LIMITED: Final[Mapping[str, str]] = {"executors": "executors", "slots": "slots", "cpu": "%", "memory": "MB"}

#: Under `USERS`: how many times as much as others' a user's share is to be.
WEIGHT_OF_USER: Final = "weight"

#: Storm's own key: user → CPU, in percent of a core, and memory, in MB, that are guaranteed.
POOLS: Final = "resource.aware.scheduler.user.pools"

#: Keys of the cluster's configuration: who comes first, and whether one that fits goes ahead of one that does not.
ORDER: Final = "stormwright.order"
BACKFILL: Final = "stormwright.backfill"

#: What `ORDER` may be.
ORDERS: Final = ("given", "priority", "first_come", "shortest_first", "fair_share", "pools")

#: User → name of an amount → amount.
Users = dict[str, dict[str, float]]


def read_users(conf: Mapping[str, Any]) -> tuple[Users, tuple[ConfigFault, ...]]:
    """Return the limits of users in the cluster's configuration, and its faults.

    Parameters
    ----------
    conf
        Storm configuration of the cluster, with the limits by user name.
    """
    allowed = (*LIMITED, WEIGHT_OF_USER)
    users, misfits = _by_user(conf, USERS, allowed)
    for user, amounts in users.items():
        if amounts.get(WEIGHT_OF_USER) == 0:
            misfits += (ConfigFault("should be a number above 0", 0, (USERS, user, WEIGHT_OF_USER)),)
            del amounts[WEIGHT_OF_USER]
    return users, misfits


def read_pools(conf: Mapping[str, Any]) -> Users:
    """Return the guarantees of Storm's ResourceAwareScheduler to users; unreadable ones are ignored."""
    return _by_user(conf, POOLS, ("cpu", "memory"))[0]


def read_queue(conf: Mapping[str, Any]) -> tuple[dict[str, object], tuple[ConfigFault, ...]]:
    """Return ``order`` and ``backfill`` from the cluster's configuration, and its faults."""
    given: dict[str, object] = {}
    misfits: list[ConfigFault] = []
    for key, name, wanted in (
        (ORDER, "order", f"should be one of {', '.join(ORDERS)}"),
        (BACKFILL, "backfill", "should be true or false"),
    ):
        value = conf.get(key)
        if (value in ORDERS) if key == ORDER else isinstance(value, bool):
            given[name] = value
        elif value is not None:
            misfits.append(ConfigFault(wanted, value, (key,)))
    return given, tuple(misfits)


def _by_user(conf: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> tuple[Users, tuple[ConfigFault, ...]]:
    given = conf.get(key)
    if given is None:
        return {}, ()
    if not isinstance(given, Mapping):
        return {}, (ConfigFault("should be an object of users", given, (key,)),)
    users: Users = {}
    misfits: list[ConfigFault] = []
    for user, amounts in given.items():
        if not isinstance(amounts, Mapping):
            misfits.append(ConfigFault(f"should be an object with some of {', '.join(allowed)}", amounts, (key, user)))
            continue
        sound = {name: float(value) for name, value in amounts.items() if name in allowed and is_amount(value)}
        users[user] = sound
        for name, value in amounts.items():
            if name not in allowed:
                misfits.append(ConfigFault(f"unknown key, there are {', '.join(allowed)}", value, (key, user, name)))
            elif name not in sound:
                misfits.append(ConfigFault("should be a number, at least 0", value, (key, user, name)))
    return users, tuple(misfits)
