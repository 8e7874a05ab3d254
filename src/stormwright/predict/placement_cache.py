"""Cache of results for a load under one placement, and under the placement before it.

A search evaluates thousands of placements that differ in few topologies. All that `predict` remembers from one
evaluation to the next is in a `PlacementCache`, each result under a `CacheKey` that lists its inputs; a load and a
placement have a cache of their own, so these are in no key.

========================  ===========================  =================================================================
result                    inputs in the key            used under the next placement
========================  ===========================  =================================================================
``workers``                                            derived: those of topologies that moved are computed
``routes``                near                         derived: only routes of topologies that moved are computed
``varied routes``         name                         derived: also routes of topologies whose values differ
``demand``                routes, costs, corrections   derived, as its routes were
``claims``                near, costs, corrections     derived: only claims of topologies that moved are computed
``times``, ``rates``      costs, corrections           for topologies whose surroundings are unchanged (`CachedResult`)
``fair rates``            costs, corrections           by topology, until it moves or the CPU available to it differs
========================  ===========================  =================================================================

Nothing else outlives an evaluation: a `Profile` has its last answers, which depend on no placement, in
`RecentResults`, under keys of the same type.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast

from stormwright.model.arrays import BoolArray
from stormwright.predict.costs import Correction, Costs

Result = TypeVar("Result")

#: Kinds of results; see the table above. The last six are results of a profile.
Kind = Literal[
    "workers",
    "routes",
    "varied routes",
    "demand",
    "claims",
    "times",
    "rates",
    "fair rates",
    "work cycles",
    "mix",
    "fixed point",
    "stored costs",
    "waits",
    "known costs",
]


@dataclass(frozen=True, slots=True, eq=False)
class CacheKey(Generic[Result]):
    """A kind of result and its inputs; two keys are equal if kind, name and number are, and all objects are the same.

    Objects are compared by identity: they are immutable, and comparing their contents would take longer than many a
    result. A key holds them, so no other object can get their identity while it is in use.

    Parameters
    ----------
    kind
        Kind of the result.
    costs, corrections
        Costs of messages and workers, and corrections of single topologies, by id.
    routes
        Routes of tuples that the result depends on; None for none.
    near
        Fraction of all shuffled tuples that stays local.
    name
        Which values of the routes vary.
    """

    kind: Kind
    costs: Costs | None = None
    corrections: Mapping[str, Correction] | None = None
    routes: object | None = None
    near: float | None = None
    name: str = ""

    def _identity(self) -> tuple[object, ...]:
        return self.kind, id(self.costs), id(self.corrections), id(self.routes), self.near, self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CacheKey) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


class PlacementCache:
    """Results under one placement, and those under the previous one; see the table at the top of this module.

    Parameters
    ----------
    moved
        Topologies that have moved since the previous placement, shape (T,); None if there is no previous one.
    previous
        Results under the previous placement.
    by_topology
        Results that hold for single topologies until these move.
    """

    def __init__(
        self,
        moved: BoolArray | None = None,
        previous: Mapping[CacheKey[Any], Any] | None = None,
        by_topology: Mapping[CacheKey[Any], dict[int, Any]] | None = None,
    ) -> None:
        self.moved = moved
        self._previous = dict(previous or {})
        self._by_topology = dict(by_topology or {})
        self._results: dict[CacheKey[Any], Any] = {}

    def after(self, moved: BoolArray) -> PlacementCache:
        """Return the cache of the next placement, in which some topologies moved, shape (T,)."""
        unmoved = {
            key: {topology: result for topology, result in results.items() if not moved[topology]}
            for key, results in self._by_topology.items()
        }
        return PlacementCache(moved, self._results, unmoved)

    def get(self, key: CacheKey[Result]) -> Result | None:
        """Return a result under this placement; None if it is not known."""
        return cast("Result | None", self._results.get(key))

    def put(self, key: CacheKey[Result], result: Result) -> Result:
        """Store a result under this placement, and return it."""
        self._results[key] = result
        return result

    def previous(self, key: CacheKey[Result]) -> Result | None:
        """Return a result under the previous placement; None if it is not known."""
        return cast("Result | None", self._previous.get(key))

    def take_previous(self, key: CacheKey[Result]) -> Result | None:
        """Return a result under the previous placement and forget it: large ones are not needed once derived from."""
        return cast("Result | None", self._previous.pop(key, None))

    def by_topology(self, key: CacheKey[Result]) -> dict[int, Result]:
        """Return the results of single topologies, which hold until these move; new ones are added to it."""
        return self._by_topology.setdefault(key, {})


#: Most results in `RecentResults`: of four kinds by costs as fitted, low and high by their errors, and two others.
_RECENT = 14


class RecentResults:
    """The last results that depend on no placement: many placements of one load share the same costs."""

    def __init__(self) -> None:
        self._results: deque[tuple[CacheKey[Any], Any]] = deque(maxlen=_RECENT)

    def get_or_compute(self, key: CacheKey[Result], compute: Callable[[], Result]) -> Result:
        """Return a known result, else compute and store it."""
        for known, result in self._results:
            if known == key:
                return cast("Result", result)
        computed = compute()
        self._results.append((key, computed))
        return computed
