"""Hosts that a topology would rather have, or rather not, as its configuration names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stormwright.model.config.misfit import Misfit

#: Keys of a topology's configuration: lists of hosts.
FAVOURED_HOSTS = "topology.scheduler.favored.nodes"
UNFAVOURED_HOSTS = "topology.scheduler.unfavored.nodes"


class FavouredHosts(NamedTuple):
    """Hosts wanted before all others, and hosts wanted last."""

    favoured: frozenset[str]
    unfavoured: frozenset[str]


def read_favoured_hosts(conf: Mapping[str, Any]) -> tuple[FavouredHosts, tuple[Misfit, ...]]:
    """The hosts that a topology's configuration names, and what is wrong with it.

    Parameters
    ----------
    conf
        The topology's own.

    Returns
    -------
    hosts, misfits
        None of either kind where the lists are none.
    """
    misfits: list[Misfit] = []

    def hosts(key: str) -> frozenset[str]:
        listed = conf.get(key)
        if isinstance(listed, list) and all(isinstance(host, str) for host in listed):
            return frozenset(listed)
        if listed is not None:
            misfits.append(Misfit("should be a list of hosts", listed, (key,)))
        return frozenset()

    return FavouredHosts(hosts(FAVOURED_HOSTS), hosts(UNFAVOURED_HOSTS)), tuple(misfits)
