"""Incremental evaluation of a load under a placement, reusing results of the previous placement."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IndexArray, IntArray
from stormwright.predict.costs import Correction, Costs
from stormwright.predict.demand import Claims, TreeDemand, base_cores_of
from stormwright.predict.flow.part import ProfilePart
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.routes import Paths, Routes
from stormwright.predict.placement_cache import CacheKey, PlacementCache
from stormwright.predict.workers import SteadyWorkers


class DerivedRoutes(NamedTuple):
    """Routes that equal others except for some topologies, and the routes of these."""

    routes: Routes
    others: Routes
    part: ProfilePart
    own: Routes


#: Key of the workers, which depend on the placement alone.
_WORKERS: CacheKey[SteadyWorkers] = CacheKey("workers")


class PlacedRoutes:
    """Routes of tuples under a placement; only topologies that moved are recomputed.

    Parameters
    ----------
    profile
        Profile of the load.
    problem
        The problem with the nodes; the executors are those of the profile.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).
    cache
        Cache of this placement; an empty one by default. Other modules add results to it.
    """

    def __init__(
        self, profile: Profile, problem: Problem, slot_of_executor: IntArray, cache: PlacementCache | None = None
    ) -> None:
        self._profile, self._problem, self.cache = profile, problem, cache or PlacementCache()
        workers = self.cache.previous(_WORKERS)
        if workers is None or self.cache.moved is None:
            workers = SteadyWorkers.of(problem, profile.layout, slot_of_executor)
        else:
            workers = workers.moved(problem, slot_of_executor, self.cache.moved)
        self.workers = self.cache.put(_WORKERS, workers)
        self._derived: list[DerivedRoutes] = []

    def moved(self, slot_of_executor: IntArray) -> PlacedRoutes:
        """Return the same load under another placement, shape (E,)."""
        executor_topology = self._profile.layout.executor_topology
        elsewhere = self.workers.scopes.slot != slot_of_executor
        moved = np.bincount(executor_topology, elsewhere, len(self._profile.rate_tps)) > 0
        return PlacedRoutes(self._profile, self._problem, slot_of_executor, self.cache.after(moved))

    def routes(self, near: float = 1.0) -> Routes:
        """Return the routes if the given fraction of all shuffled tuples stays local, the rest going to all alike."""
        key: CacheKey[Routes] = CacheKey("routes", near=near)
        if (known := self.cache.get(key)) is not None:
            return known
        parts = None if near == 1 else np.full(len(self._profile.rate_tps), near)
        before = self.cache.take_previous(key)
        if before is None:
            return self.cache.put(key, self._all.routes(parts))
        part, paths = self._elsewhere
        return self.cache.put(key, self._with(before, part, paths.routes(parts)))

    def demand(self, routes: Routes, costs: Costs, corrections: Mapping[str, Correction]) -> TreeDemand:
        """Return the demand of trees along routes of this placement."""
        key: CacheKey[TreeDemand] = CacheKey("demand", costs, corrections, routes)
        if (known := self.cache.get(key)) is not None:
            return known
        demand = self._changed(routes, costs, corrections)
        return self.cache.put(key, demand or TreeDemand.of(self._profile, routes, self._problem, costs, corrections))

    def _changed(self, routes: Routes, costs: Costs, corrections: Mapping[str, Correction]) -> TreeDemand | None:
        """Return the demand derived from that of the routes that these are derived from, if it is known."""
        for derived in self._derived:
            key: CacheKey[TreeDemand] = CacheKey("demand", costs, corrections, derived.others)
            if derived.routes is routes and (known := self.cache.get(key) or self.cache.previous(key)):
                base = base_cores_of(self._profile, self.workers, costs)
                own = TreeDemand.of(derived.part, derived.own, self._problem, costs, corrections, base)
                return known.with_part(derived.part.chosen, own, self.workers, base)
        return None

    def _with(self, others: Routes, part: ProfilePart, own: Routes) -> Routes:
        """Return routes that equal others except for some topologies."""
        routes = others.with_part(part.chosen, own, self.workers)
        self._derived.append(DerivedRoutes(routes, others, part, own))
        return routes

    def claims(self, near: float, costs: Costs, corrections: Mapping[str, Correction]) -> Claims:
        """Return the claims of trees if the given fraction of all shuffled tuples stays local."""
        if near == 1:
            return self.demand(self.routes(), costs, corrections).claims
        key: CacheKey[Claims] = CacheKey("claims", costs, corrections, near=near)
        if (known := self.cache.get(key)) is not None:
            return known
        before, workers = self.cache.take_previous(key), self.cache.previous(_WORKERS)
        if before is not None and workers is not None:
            part, paths = self._elsewhere
            routes = paths.routes(np.full(len(self._profile.rate_tps), near))
            none = np.zeros(len(self.workers.nodes.cores))
            new = TreeDemand.of(part, routes, self._problem, costs, corrections, none).claims
            return self.cache.put(key, self._with_old(new, before, workers))
        return self.cache.put(
            key, TreeDemand.of(self._profile, self.routes(near), self._problem, costs, corrections).claims
        )

    def _with_old(self, new: Claims, old: Claims, old_workers: SteadyWorkers) -> Claims:
        """Return new claims of topologies that moved, and old claims of the others."""
        moved = self._moved
        shared = np.empty((3, len(self.workers.places.node)))
        at = moved[self.workers.places.topology]
        shared[:, at], shared[:, ~at] = new.shared, old.shared[:, ~moved[old_workers.places.topology]]
        return Claims(shared, np.where(moved, new.busiest_s, old.busiest_s))

    def paths(self, topologies: BoolArray) -> tuple[ProfilePart, Paths]:
        """Return the part and paths of some topologies, shape (T,)."""
        part = ProfilePart.of_topologies(self._profile, topologies)
        return part, Paths(part, self.workers.part(part.chosen.executors, topologies))

    def mixed(self, near: FloatArray) -> Routes:
        """Return the routes if the given fraction of each topology's shuffled tuples stays local, shape (T,)."""
        return self._varied("near", near, np.ones(len(near)), np.arange(len(near)))

    def begun(self, begins: FloatArray) -> Routes:
        """Return the routes if executors begin other numbers of trees than measured, shape (E,)."""
        return self._varied("begins", begins, self._profile.begins, self._profile.layout.executor_topology)

    def _varied(self, name: str, values: FloatArray, usual: FloatArray, topology: IntArray | IndexArray) -> Routes:
        """Return the routes with values other than usual, derived from known ones that differ in fewer topologies."""
        key: CacheKey[tuple[FloatArray, Routes]] = CacheKey("varied routes", name=name)
        before = self.cache.previous(key)
        known, routes = (usual, self.routes()) if before is None else before
        chosen = np.bincount(topology, values != known, len(self._profile.rate_tps)) > 0
        if before is not None:
            chosen |= self._moved
        if before is None and np.count_nonzero(chosen) > len(chosen) / 2:  # what is known of all serves
            routes = self._all.routes(values) if name == "near" else self._all.routes(None, values)
        elif chosen.any():
            part, paths = self.paths(chosen)
            new = paths.routes(values) if name == "near" else paths.routes(None, values[part.chosen.executors])
            routes = self._with(routes, part, new)
        self.cache.put(key, (values, routes))
        return routes

    @cached_property
    def _all(self) -> Paths:
        return Paths(self._profile, self.workers)

    @cached_property
    def _elsewhere(self) -> tuple[ProfilePart, Paths]:
        """The part and paths of the topologies that moved."""
        return self.paths(self._moved)

    @property
    def _moved(self) -> BoolArray:
        """Topologies that moved since the previous placement, all if there is none, shape (T,)."""
        return np.ones(len(self._profile.rate_tps), dtype=bool) if self.cache.moved is None else self.cache.moved
