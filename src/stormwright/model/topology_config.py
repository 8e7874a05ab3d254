"""Configuration keys of topologies, and those of clusters about topologies, with their validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from stormwright.model.component_limits import read_component_limits
from stormwright.model.faults import ConfigFault
from stormwright.model.requests import read_requests
from stormwright.model.tenancy_config import read_queue, read_users

#: Key of a topology's configuration: false forbids moves.
MOVE: Final = "stormwright.move"

#: Key of a topology's configuration: whether shuffled tuples go to all tasks alike, as before Storm 2.0, instead of to
#: those nearby.
UNAWARE_SHUFFLE: Final = "topology.disable.loadaware.messaging"

#: Keys of a topology's configuration: lists of hosts.
FAVOURED_HOSTS = "topology.scheduler.favored.nodes"
UNFAVOURED_HOSTS = "topology.scheduler.unfavored.nodes"

#: A topology's own hard limit on executors per worker, in its configuration.
MAX_EXECUTORS_PER_WORKER = "stormwright.max.executors.per.worker"

#: Forecast load of a topology in parts of the load that it has now.
FORECAST_GROWTH = "stormwright.forecast.growth"

#: How many times the live heap of a worker, as predicted from measurements, its heap has to be; 0 for no limit.
HEAP_HEADROOM = "stormwright.heap.headroom"

#: Tag (or tags joined by commas, in order of their names) → number of workers.
WORKERS_OF_TAG = "stormwright.tag.workers"

#: Objective of a topology: 99th percentile of the complete latency in ms, time by which it may be behind its source in
#: seconds, and most cores of the nodes that it may use.
SLO_P99, SLO_LAG, MAX_CORES = "stormwright.slo.p99.ms", "stormwright.slo.lag.s", "stormwright.cores.max"

#: List of keys of a topology's configuration that only its owner changes.
PINNED_KEYS = "stormwright.pinned.keys"

#: How many times as much as others' a topology's rate is to grow.
WEIGHT = "stormwright.weight"
_MAX_WEIGHT = 10**9

#: Number of workers that a topology was submitted with; a rebalance changes that of `Topology` only.
SUBMITTED_WORKERS = "topology.workers"

#: How a topology's number of workers is taken: as in the papers, as the most, or as one that may be chosen.
WORKERS_KEY = "stormwright.workers"
WORKERS = ("exactly", "at_most", "free")

#: Why executors that share a worker may not be separated, as the service has found; nobody configures it.
CONFINED = "stormwright.confined"

#: What the schedulers of Aniello, Baldoni, Querzoni are to do with one topology: each goes before the scheduler's own.
ALPHA, BETA, GAMMA = "stormwright.alpha", "stormwright.beta", "stormwright.gamma"
DELTA, EPSILON = "stormwright.delta", "stormwright.epsilon"

#: The most that a worker's load may be, in parts of the mean: what limits nothing any more.
MAX_GAMMA = 1e9

#: Lists and objects one in the other; parsers of JSON take some hundred more.
MAX_NESTED = 100
_PLAIN = frozenset({str, int, float, bool, type(None)})
TOO_DEEP = f"is nested more than {MAX_NESTED} levels deep"

#: Storm's own: the lower, the more urgent.
PRIORITY = "topology.priority"

#: Key of the cluster's configuration: seconds between two looks of supervisors for other configurations; and Storm's
#: default.
BLOB_POLL, BLOB_POLL_S = "supervisor.localizer.update.blob.interval.secs", 30.0

#: Key of the cluster's configuration: topology name → hosts that it has for itself.
MACHINES = "isolation.scheduler.machines"


def number_of(conf: Mapping[str, Any], key: str, default: float, *, zero: bool = False) -> float:
    """Return a positive number of a configuration; anything else, like null, counts as absent.

    Parameters
    ----------
    conf
        Configuration of a topology or of the cluster.
    key, default
        Key of the number, and its value where it is absent.
    zero
        Whether 0 is a valid number, too.
    """
    value = conf.get(key)
    sound = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if sound and value is not None and (value or zero) else default


class FavouredHosts(NamedTuple):
    """Hosts to prefer, and hosts to avoid."""

    favoured: frozenset[str]
    unfavoured: frozenset[str]


def read_favoured_hosts(conf: Mapping[str, Any]) -> tuple[FavouredHosts, tuple[ConfigFault, ...]]:
    """Return the favoured hosts in a topology's configuration, and its faults.

    Parameters
    ----------
    conf
        The topology's own configuration.

    Returns
    -------
    hosts, misfits
        Lists that are not valid are empty.
    """
    misfits: list[ConfigFault] = []

    def hosts(key: str) -> frozenset[str]:
        listed = conf.get(key)
        if isinstance(listed, list) and all(isinstance(host, str) for host in listed):
            return frozenset(listed)
        if listed is not None:
            misfits.append(ConfigFault("should be a list of hosts", listed, (key,)))
        return frozenset()

    return FavouredHosts(hosts(FAVOURED_HOSTS), hosts(UNFAVOURED_HOSTS)), tuple(misfits)


def conf_misfits(conf: Mapping[str, Any]) -> tuple[ConfigFault, ...]:
    """Return the faults of a topology's configuration in keys that our schedulers read.

    Parameters
    ----------
    conf
        The topology's own configuration, without the cluster's.
    """
    of_keys = (misfit for key in _CHECKS if key in conf for misfit in value_misfits(key, conf[key]))
    return (*of_keys, *storm_misfits(conf))


def storm_misfits(conf: Mapping[str, Any]) -> tuple[ConfigFault, ...]:
    """Return values of a configuration, a topology's or the cluster's, that Storm would refuse.

    Values nested too deeply are faults too: they could be neither written nor passed to Nimbus.
    """
    return (
        *(ConfigFault(TOO_DEEP, value, (key,)) for key, value in conf.items() if deeper(value, MAX_NESTED)),
        *read_component_limits(conf, {})[1],
        *read_requests(conf)[1],
        *read_favoured_hosts(conf)[1],
        *read_machines(conf)[1],
        *read_users(conf)[1],
        *read_queue(conf)[1],
    )


def deeper(value: object, levels: int) -> bool:
    """Return whether lists and objects in `value` are nested more than `levels` deep."""
    # Values are many, and to ask whether one is a Mapping takes long.
    if type(value) in _PLAIN or not isinstance(value, (list, tuple, Mapping)):
        return False
    items = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(deeper(item, levels - 1) for item in items)


def value_misfits(key: str, value: object) -> Iterator[ConfigFault]:
    """Yield the faults of the value of one of the keys above.

    Parameters
    ----------
    key
        Name of the setting.
    value
        As read from JSON or YAML.
    """
    return _CHECKS[key](key, value)


def _at_least(least: int) -> Callable[[str, object], Iterator[ConfigFault]]:
    def check(key: str, value: object) -> Iterator[ConfigFault]:
        if type(value) is not int or value < least:
            yield ConfigFault(f"should be an integer of at least {least}", value, (key,))

    return check


def _amount(key: str, value: object) -> Iterator[ConfigFault]:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        yield ConfigFault("should be a number, at least 0", value, (key,))


def _weight(key: str, value: object) -> Iterator[ConfigFault]:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MAX_WEIGHT:
        yield ConfigFault(f"should be a number above 0, at most {_MAX_WEIGHT:,}", value, (key,))


def _from_to(least: float, most: float) -> Callable[[str, object], Iterator[ConfigFault]]:
    def check(key: str, value: object) -> Iterator[ConfigFault]:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            yield ConfigFault(f"should be a number from {least:g} to {most:g}", value, (key,))

    return check


def _workers(key: str, value: object) -> Iterator[ConfigFault]:
    if value not in WORKERS:
        yield ConfigFault(f"should be one of {', '.join(WORKERS)}", value, (key,))


def _above_zero(key: str, value: object) -> Iterator[ConfigFault]:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        yield ConfigFault("should be a number above 0", value, (key,))


def _keys(key: str, value: object) -> Iterator[ConfigFault]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        yield ConfigFault("should be a list of keys", value, (key,))


def _workers_of_tag(key: str, value: object) -> Iterator[ConfigFault]:
    if not isinstance(value, Mapping):
        yield ConfigFault("should be an object of tags and numbers of workers", value, (key,))
        return
    for tag, workers in value.items():
        if type(workers) is not int or workers < 1:
            yield ConfigFault("should be an integer of at least 1", workers, (key, tag))


_CHECKS: dict[str, Callable[[str, object], Iterator[ConfigFault]]] = {
    MAX_EXECUTORS_PER_WORKER: _at_least(1),
    FORECAST_GROWTH: _amount,
    HEAP_HEADROOM: _amount,
    WEIGHT: _weight,
    WORKERS_KEY: _workers,
    PINNED_KEYS: _keys,
    **dict.fromkeys((SLO_P99, SLO_LAG, MAX_CORES), _above_zero),
    WORKERS_OF_TAG: _workers_of_tag,
    PRIORITY: _at_least(0),
    **dict.fromkeys((ALPHA, BETA, DELTA, EPSILON), _from_to(0, 1)),
    GAMMA: _from_to(1, MAX_GAMMA),
}


def read_machines(conf: Mapping[str, Any]) -> tuple[dict[str, int], tuple[ConfigFault, ...]]:
    """Return topology name → number of its own hosts from the cluster's configuration, and its faults.

    Parameters
    ----------
    conf
        Storm configuration of the cluster, with ``isolation.scheduler.machines``.

    Returns
    -------
    machines, misfits
        Hosts of every isolated topology; values that Storm could not read.
    """
    machines = conf.get(MACHINES)
    if machines is None:
        return {}, ()
    if not isinstance(machines, Mapping):
        return {}, (ConfigFault("should be an object", machines, (MACHINES,)),)
    sound = {name: count for name, count in machines.items() if type(count) is int and count >= 1}
    wrong = [(name, count) for name, count in machines.items() if name not in sound]
    return sound, tuple(
        ConfigFault("should be an integer of at least 1", count, (MACHINES, name)) for name, count in wrong
    )
