"""To whom executors send, as routes and pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stormwright.jit.compiled import Records
from stormwright.model import Problem
from stormwright.predict.flow.profile import Profile
from stormwright.simulator.kernel.arrays import records
from stormwright.simulator.storm.records import (
    ALL,
    EVERYWHERE,
    FIELDS,
    MOST_WEIGHT,
    PAIR,
    ROUND,
    ROUTE,
    SHUFFLE,
    TO_ACKER,
    TO_SPOUT,
)

#: A tuple more often than that is one always, and less often than that never: it is rounding.
_ROUNDING = 1e-9

#: Tuples that are made for an executor besides what it sends.
_BESIDES = 8


class _Route(NamedTuple):
    """A route of one executor; `parts` of its tuples that go to each target."""

    kind: int
    targets: NDArray[np.int64]
    tuples: float
    size: float
    local: bool = False
    parts: NDArray[np.float64] | None = None


class Edges(NamedTuple):
    """Routes of all executors.

    Parameters
    ----------
    routes, pairs, choices
        As `stormwright.simulator.storm.records.Cluster` has them.
    first
        First route of every executor, shape (E + 1,).
    most_sent
        Tuples that an executor sends for one that it handles, at most.
    """

    routes: Records
    pairs: Records
    choices: NDArray[np.int32]
    first: NDArray[np.int64]
    most_sent: int

    @classmethod
    def of(cls, problem: Problem, profile: Profile, spouts: NDArray[np.int64]) -> Self:
        """Those of a profile.

        Parameters
        ----------
        problem, profile
            And its load.
        spouts
            Executors that begin trees, or send by the clock.
        """
        found = list(_found(problem, profile, spouts))
        flat = [(source, route) for source, of_source in enumerate(found) for route in of_source]
        routes = records(len(flat), ROUTE)
        pairs = records(sum(len(route.targets) for _, route in flat), PAIR)
        aware = [
            {**problem.conf, **topology.conf}.get("topology.disable.loadaware.messaging") is not True
            for topology in problem.topologies
        ]
        at = shuffles = 0
        for number, (source, route) in enumerate(flat):
            whole = int(route.tuples + _ROUNDING)
            part, count = max(route.tuples - whole, 0.0), len(route.targets)
            routes[number] = (
                part if part > _ROUNDING else 0.0,
                route.size,
                *(route.kind, source, whole, at, count, shuffles * ROUND, 0, EVERYWHERE),
                *(route.local, aware[problem.executor_topology[source]]),
            )
            shuffles += route.kind == SHUFFLE
            own = pairs[at : at + count]
            own["target"], own["weight"] = route.targets, MOST_WEIGHT
            own["below"] = 1.0 if route.parts is None else np.cumsum(route.parts)
            at += count
        sent = [sum(_most(route) for route in of_source) for of_source in found]
        first = np.cumsum([0, *(len(of_source) for of_source in found)])
        choices = np.zeros(shuffles * ROUND, np.int32)
        return cls(routes, pairs, choices, first, max(sent, default=0) + _BESIDES)


def _most(route: _Route) -> int:
    return (int(route.tuples) + 2) * (len(route.targets) if route.kind == ALL else 1)


def _found(problem: Problem, profile: Profile, spouts: NDArray[np.int64]) -> Iterator[list[_Route]]:
    """Routes of one executor after the other."""
    layout, flows = profile.layout, profile.flows
    to_all, acking = _to_all(problem, profile), _acking(profile)
    of_pairs, ack_size = _pairs_by_source(profile)
    of_flows: dict[int, list[int]] = defaultdict(list)
    for number, source in enumerate(flows.source.tolist()):
        of_flows[source].append(number)
    for source in range(problem.num_executors):
        component, topology = layout.executor_component[source], layout.executor_topology[source]
        own = np.flatnonzero(layout.is_acker & (layout.topology == topology))
        ackers = np.concatenate([np.empty(0, np.int64), *(_members(profile, int(each)) for each in own)])
        if layout.is_acker[component]:
            answers = spouts[layout.executor_topology[spouts] == topology]
            yield [_Route(TO_SPOUT, answers, 1.0, ack_size)] if len(answers) else []
            continue
        found = [
            _Route(
                SHUFFLE, _members(profile, int(flows.target[n])), flows.tuples[n], flows.size[n], bool(flows.local[n])
            )
            for n in of_flows[source]
        ]
        for target, (targets, tuples, size) in sorted(of_pairs[source].items()):
            if (component, target) in to_all:
                found.append(_Route(ALL, targets, float(tuples.max()), size))
            else:
                found.append(_Route(FIELDS, targets, float(tuples.sum()), size, parts=tuples / tuples.sum()))
        if len(ackers) and component in acking:
            found.append(_Route(TO_ACKER, ackers, 1.0, ack_size))
        yield [route for route in found if route.tuples > _ROUNDING and len(route.targets)]


def _members(profile: Profile, component: int) -> NDArray[np.int64]:
    layout = profile.layout
    return layout.members[layout.first[component] : layout.first[component + 1]].astype(np.int64)


_Sent = tuple[NDArray[np.int64], NDArray[np.float64], float]


def _pairs_by_source(profile: Profile) -> tuple[dict[int, dict[int, _Sent]], float]:
    """Source → component that it sends to → executors, tuples and size; and the size of messages to ackers."""
    pairs, layout = profile.pairs, profile.layout
    target = layout.executor_component[pairs.target]
    system = layout.is_acker[target] | layout.is_acker[layout.executor_component[pairs.source]]
    order = np.lexsort((pairs.target, target, pairs.source))
    order = order[~system[order] & (pairs.tuples[order] > 0)]
    keys = np.stack([pairs.source[order], target[order]])
    starts = np.flatnonzero(np.any(np.diff(keys, axis=1, prepend=-1) != 0, axis=0))
    found: dict[int, dict[int, _Sent]] = defaultdict(dict)
    for group in np.split(order, starts[1:]) if len(order) else ():
        tuples = pairs.tuples[group]
        size = float(np.average(pairs.size[group], weights=tuples))
        found[int(pairs.source[group[0]])][int(target[group[0]])] = (pairs.target[group].astype(np.int64), tuples, size)
    acks = layout.is_acker[target] & (pairs.tuples > 0)
    return found, float(pairs.size[acks].mean()) if acks.any() else 0.0


def _acking(profile: Profile) -> set[int]:
    """Components that tell ackers of what they begin or ack."""
    layout, pairs = profile.layout, profile.pairs
    to_ackers = layout.is_acker[layout.executor_component[pairs.target]] & (pairs.tuples > 0)
    return set(layout.executor_component[pairs.source[to_ackers]].tolist())


def _to_all(problem: Problem, profile: Profile) -> set[tuple[int, int]]:
    """Pairs of components, one of which sends copies to all executors of the other."""
    found = set()
    for topology, offset in zip(problem.topologies, profile.layout.component_offset[:-1].tolist(), strict=True):
        for number, component in enumerate(topology.components):
            kinds = defaultdict(set)
            for grouping in component.inputs:
                if grouping.source in topology.component_index:
                    kinds[topology.component_index[grouping.source]].add(grouping.kind)
            found |= {(offset + source, offset + number) for source, of_source in kinds.items() if of_source == {"all"}}
    return found
