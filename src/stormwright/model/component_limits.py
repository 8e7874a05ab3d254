"""Storm's constraints on components, read from the configuration of a topology."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stormwright.model.arrays import BoolArray, ByContent, IndexArray
from stormwright.model.faults import ConfigFault

RAS_CONSTRAINTS = "topology.ras.constraints"

SPREAD_COMPONENTS = "topology.spread.components"

ONE_EXECUTOR = "topology.ras.one.executor.per.worker"

ONE_COMPONENT = "topology.ras.one.component.per.worker"

#: The keys of a configuration that `read_component_limits` looks at.
COMPONENT_LIMIT_KEYS = (RAS_CONSTRAINTS, SPREAD_COMPONENTS, ONE_EXECUTOR, ONE_COMPONENT)

MAX_ON_NODE = "maxNodeCoLocationCnt"

INCOMPATIBLE = "incompatibleComponents"

#: The limit of a component that has none: more executors than there can be.
NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, eq=False)
class ComponentLimits(ByContent):
    """Storm's constraints on the components of one topology, C in number.

    Parameters
    ----------
    most_on_node
        Maximum executors of each component on one node, `NO_LIMIT` for any number, shape (C,).
    incompatible
        Whether executors of two components may not share a worker, symmetric, shape (C, C). True on the diagonal: at
        most one executor of the component in a worker.
    """

    most_on_node: IndexArray
    incompatible: BoolArray

    def crowded(self, on_nodes: IndexArray) -> IndexArray:
        """Return the number of executors beyond the limit of each node and component, shape (N, C).

        Parameters
        ----------
        on_nodes
            Executors of each component on each node, shape (N, C).
        """
        too_many: IndexArray = np.maximum(on_nodes - self.most_on_node, 0)
        return too_many

    def clashes(self, in_workers: IndexArray) -> IndexArray:
        """Return the pairs of executors that may not share their worker, by worker and component, shape (W, C).

        A pair counts for both of its components. `in_workers` are executors of each component in each worker, shape (W,
        C).
        """
        # A worker has few of many components: the product of whole tables would be cubic.
        from scipy.sparse import csr_array  # takes longer to import than all of the model

        held = csr_array(in_workers.astype(np.int64)) @ self.incompatible.astype(np.int64)
        pairs: IndexArray = in_workers * (held - np.diagonal(self.incompatible).astype(np.int64))
        return pairs


def count_components(place: IndexArray, component: IndexArray, num_places: int, num_components: int) -> IndexArray:
    """Return the executors of each component in each place, shape (places, components); place -1 is ignored.

    Parameters
    ----------
    place
        Place of each executor, -1 for none, shape (E,).
    component
        Component of each executor, shape (E,).
    num_places, num_components
        Number of places and of components, used or not.
    """
    placed = place >= 0
    keys = place[placed].astype(np.int64) * num_components + component[placed]
    return np.bincount(keys, minlength=num_places * num_components).reshape(num_places, num_components)


def read_component_limits(
    conf: Mapping[str, Any], component_index: Mapping[str, int]
) -> tuple[ComponentLimits | None, tuple[ConfigFault, ...]]:
    """Return the constraints in a topology's configuration, None if there are none, and its faults.

    Parameters
    ----------
    conf
        Configuration of the topology by Storm's keys; invalid values become faults.
    component_index
        Component id → its index in the topology.
    """
    reader = _Reader(component_index)
    misfits = (
        *reader.constraints(conf.get(RAS_CONSTRAINTS)),
        *reader.spread(conf.get(SPREAD_COMPONENTS)),
        *reader.one_in_worker(conf),
    )
    return reader.limits(), misfits


class _Reader:
    """Collects constraints from the configuration; its methods yield faults."""

    def __init__(self, component_index: Mapping[str, int]) -> None:
        self._index = component_index
        self._most: dict[int, int] = {}
        self._incompatible: set[tuple[int, int]] = set()
        self._one: dict[str, bool] = {}

    def limits(self) -> ComponentLimits | None:
        if not (self._most or self._incompatible or any(self._one.values())):
            return None
        count = len(self._index)
        most = np.full(count, NO_LIMIT, dtype=np.int64)
        most[list(self._most)] = list(self._most.values())
        incompatible = np.full((count, count), any(self._one.values()))
        np.fill_diagonal(incompatible, self._one.get(ONE_EXECUTOR, False))
        for one, other in self._incompatible:
            incompatible[one, other] = incompatible[other, one] = True
        return ComponentLimits(most, incompatible) if self._most or incompatible.any() else None

    def constraints(self, raw: object) -> Iterator[ConfigFault]:
        if isinstance(raw, list):  # the older form: pairs of components
            for position, pair in enumerate(raw):
                if not _is_texts(pair) or len(pair) < 2:
                    yield ConfigFault("should be a list of 2 components", pair, (RAS_CONSTRAINTS, position))
                else:
                    self._add_pair(pair[0], pair[1])
        elif isinstance(raw, Mapping):
            for component, rules in raw.items():
                if isinstance(rules, Mapping):
                    for kind, value in rules.items():
                        yield from self._rule(component, kind, value)
                else:
                    yield ConfigFault("should be an object", rules, (RAS_CONSTRAINTS, component))
        elif raw is not None:
            yield ConfigFault("should be an object, or a list of pairs of components", raw, (RAS_CONSTRAINTS,))

    def _rule(self, component: str, kind: str, value: Any) -> Iterator[ConfigFault]:
        steps = (RAS_CONSTRAINTS, component, kind)
        if kind == MAX_ON_NODE:
            most = _integer(value)
            if most is None:
                yield ConfigFault("should be an integer", value, steps)
            elif most >= 1 and component in self._index:
                self._most[self._index[component]] = most
        elif kind == INCOMPATIBLE:
            others = [value] if isinstance(value, str) else value
            if _is_texts(others):
                for other in others:
                    self._add_pair(component, other)
            else:
                yield ConfigFault("should be a component or a list of components", value, steps)
        else:
            yield ConfigFault(f"unknown key, there are {MAX_ON_NODE} and {INCOMPATIBLE}", value, steps)

    def spread(self, raw: object) -> Iterator[ConfigFault]:
        """Read the older form of ``maxNodeCoLocationCnt: 1``, which takes precedence over the newer one."""
        if isinstance(raw, list) and _is_texts(raw):
            for component in raw:
                if component in self._index:
                    self._most.setdefault(self._index[component], 1)
        elif raw is not None:
            yield ConfigFault("should be a list of components", raw, (SPREAD_COMPONENTS,))

    def one_in_worker(self, conf: Mapping[str, Any]) -> Iterator[ConfigFault]:
        """Read whether a worker may run one executor only, or executors of one component only."""
        for key in (ONE_EXECUTOR, ONE_COMPONENT):
            value = conf.get(key)
            if isinstance(value, bool):
                self._one[key] = value
            elif value is not None:
                yield ConfigFault("should be true or false", value, (key,))

    def _add_pair(self, one: str, other: str) -> None:
        if one in self._index and other in self._index:
            self._incompatible.add((self._index[one], self._index[other]))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _integer(value: object) -> int | None:
    """Return `value` as Java's ``Integer.parseInt("" + value)`` reads it."""
    try:
        return int(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    except ValueError:
        return None
