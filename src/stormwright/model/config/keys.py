"""Keys of a topology's configuration that our schedulers read, and what is wrong with their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stormwright.model.config.favoured_hosts import read_favoured_hosts
from stormwright.model.config.misfit import Misfit
from stormwright.model.config.requests import read_requests
from stormwright.model.config.users import read_queue, read_users
from stormwright.model.constraints.components import read_component_limits
from stormwright.model.constraints.isolation import read_machines
from stormwright.model.constraints.workers import MAX_EXECUTORS_PER_WORKER

#: Forecast load of a topology in parts of the load that it has now.
FORECAST_GROWTH = "stormwright.forecast.growth"

#: Tag (or tags joined by commas, in order of their names) → number of workers.
WORKERS_OF_TAG = "stormwright.tag.workers"

#: How many times as much as others' a topology's rate is to grow.
WEIGHT = "stormwright.weight"
_MOST_WEIGHT = 10**9

#: How a topology's number of workers is taken: as in the papers, as the most, or as one that may be chosen.
WORKERS_KEY = "stormwright.workers"
WORKERS = ("exactly", "at_most", "free")

#: What the schedulers of Aniello, Baldoni, Querzoni are to do with one topology: each goes before the scheduler's own.
ALPHA, BETA, GAMMA = "stormwright.alpha", "stormwright.beta", "stormwright.gamma"
DELTA, EPSILON = "stormwright.delta", "stormwright.epsilon"

#: The most that a worker's load may be, in parts of the mean: what limits nothing any more.
MOST_GAMMA = 1e9

#: Lists and objects one in the other; parsers of JSON take some hundred more.
MOST_NESTED = 100
_PLAIN = frozenset({str, int, float, bool, type(None)})
TOO_DEEP = f"is nested more than {MOST_NESTED} levels deep"

#: Storm's own: the lower, the more urgent.
PRIORITY = "topology.priority"


def conf_misfits(conf: Mapping[str, Any]) -> tuple[Misfit, ...]:
    """All that is wrong in a topology's configuration with keys that our schedulers read.

    Parameters
    ----------
    conf
        The topology's own, without what the cluster's says.
    """
    of_keys = (misfit for key in _CHECKS if key in conf for misfit in value_misfits(key, conf[key]))
    return (*of_keys, *storm_misfits(conf))


def storm_misfits(conf: Mapping[str, Any]) -> tuple[Misfit, ...]:
    """What Storm would refuse of what a configuration, a topology's or the cluster's, says of topologies.

    Besides, what is nested too deeply: it could not be written again, nor be handed to Nimbus.
    """
    return (
        *(Misfit(TOO_DEEP, value, (key,)) for key, value in conf.items() if deeper(value, MOST_NESTED)),
        *read_component_limits(conf, {})[1],
        *read_requests(conf)[1],
        *read_favoured_hosts(conf)[1],
        *read_machines(conf)[1],
        *read_users(conf)[1],
        *read_queue(conf)[1],
    )


def deeper(value: object, levels: int) -> bool:
    """Whether lists and objects in `value` stand one in the other more than `levels` times."""
    # Values are many, and to ask whether one is a Mapping takes long.
    if type(value) in _PLAIN or not isinstance(value, (list, tuple, Mapping)):
        return False
    items = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(deeper(item, levels - 1) for item in items)


def value_misfits(key: str, value: object) -> Iterator[Misfit]:
    """What is wrong with the value of one of the keys named above, or of `MAX_EXECUTORS_PER_WORKER`.

    Parameters
    ----------
    key
        One of these keys.
    value
        As it came out of JSON or YAML.
    """
    return _CHECKS[key](key, value)


def _at_least(least: int) -> Callable[[str, object], Iterator[Misfit]]:
    def check(key: str, value: object) -> Iterator[Misfit]:
        if type(value) is not int or value < least:
            yield Misfit(f"should be an integer of at least {least}", value, (key,))

    return check


def _growth(key: str, value: object) -> Iterator[Misfit]:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        yield Misfit("should be a number, at least 0", value, (key,))


def _weight(key: str, value: object) -> Iterator[Misfit]:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MOST_WEIGHT:
        yield Misfit(f"should be a number above 0, at most {_MOST_WEIGHT:,}", value, (key,))


def _from_to(least: float, most: float) -> Callable[[str, object], Iterator[Misfit]]:
    def check(key: str, value: object) -> Iterator[Misfit]:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            yield Misfit(f"should be a number from {least:g} to {most:g}", value, (key,))

    return check


def _workers(key: str, value: object) -> Iterator[Misfit]:
    if value not in WORKERS:
        yield Misfit(f"should be one of {', '.join(WORKERS)}", value, (key,))


def _workers_of_tag(key: str, value: object) -> Iterator[Misfit]:
    if not isinstance(value, Mapping):
        yield Misfit("should be an object of tags and numbers of workers", value, (key,))
        return
    for tag, workers in value.items():
        if type(workers) is not int or workers < 1:
            yield Misfit("should be an integer of at least 1", workers, (key, tag))


_CHECKS: dict[str, Callable[[str, object], Iterator[Misfit]]] = {
    MAX_EXECUTORS_PER_WORKER: _at_least(1),
    FORECAST_GROWTH: _growth,
    WEIGHT: _weight,
    WORKERS_KEY: _workers,
    WORKERS_OF_TAG: _workers_of_tag,
    PRIORITY: _at_least(0),
    **dict.fromkeys((ALPHA, BETA, DELTA, EPSILON), _from_to(0, 1)),
    GAMMA: _from_to(1, MOST_GAMMA),
}
