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
from stormwright.predict.queueing.result_cache import ResultCache
from stormwright.predict.workers import SteadyWorkers


class FairRates(NamedTuple):
    """Rates of the spout executors of a topology, None for none; by costs, and by the CPU available to them."""

    costs: Costs
    corrections: Mapping[str, Correction]
    room: FloatArray
    rates: FloatArray | None = None

    def is_as(self, other: FairRates) -> bool:
        """Return whether both have the same inputs."""
        same = self.costs is other.costs and self.corrections is other.corrections
        return same and np.array_equal(self.room, other.room)


class KnownClaims(NamedTuple):
    """Claims of trees if a fraction of shuffled tuples stays local, by costs and corrections."""

    costs: Costs
    corrections: Mapping[str, Correction]
    claims: Claims


class DerivedRoutes(NamedTuple):
    """Routes that equal others except for some topologies, and the routes of these."""

    routes: Routes
    others: Routes
    part: ProfilePart
    own: Routes


class KnownDemand(NamedTuple):
    """The demand along routes, by costs and corrections."""

    routes: Routes
    costs: Costs
    corrections: Mapping[str, Correction]
    demand: TreeDemand

    def is_of(self, routes: Routes, costs: Costs, corrections: Mapping[str, Correction]) -> bool:
        """Return whether it is the demand along these routes, by these costs."""
        return self.routes is routes and self.costs is costs and self.corrections is corrections


class PreviousResults(NamedTuple):
    """Results of another placement.

    Workers; topologies that have moved since, shape (T,); routes and claims by locality; routes at highest rates and
    their inputs; demands; fair rates; and results on times.
    """

    workers: SteadyWorkers
    moved: BoolArray
    routes: dict[float, Routes]
    claims: dict[float, KnownClaims]
    varied: dict[str, tuple[FloatArray, Routes]]
    demands: tuple[KnownDemand, ...]
    fair: dict[int, FairRates]
    cache: ResultCache


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
    before
        Results of another placement.

    Attributes
    ----------
    fair
        Results for topologies whose spouts have several executors; other modules may add to it.
    cache
        Cache of results on times; other modules may add to it.
    """

    def __init__(
        self, profile: Profile, problem: Problem, slot_of_executor: IntArray, before: PreviousResults | None = None
    ) -> None:
        self._profile, self._problem, self._before = profile, problem, before
        if before is None:
            self.workers = SteadyWorkers.of(problem, profile.layout, slot_of_executor)
        else:
            self.workers = before.workers.moved(problem, slot_of_executor, before.moved)
        self._known: dict[float, Routes] = {}
        self._claims: dict[float, KnownClaims] = {}
        self._variants: dict[str, tuple[FloatArray, Routes]] = {}
        self._derived: list[DerivedRoutes] = []
        self._demands: list[KnownDemand] = []
        self.fair: dict[int, FairRates] = before.fair if before else {}
        self.cache = before.cache if before else ResultCache()

    def moved(self, slot_of_executor: IntArray) -> PlacedRoutes:
        """Return the same load under another placement, shape (E,)."""
        executor_topology = self._profile.layout.executor_topology
        elsewhere = self.workers.scopes.slot != slot_of_executor
        moved = np.bincount(executor_topology, elsewhere, len(self._profile.rate_tps)) > 0
        claims = self._claims.copy()
        fair = {topology: rates for topology, rates in self.fair.items() if not moved[topology]}
        before = PreviousResults(
            workers=self.workers,
            moved=moved,
            routes=self._known.copy(),
            claims=claims,
            varied=self._variants.copy(),
            demands=tuple(self._demands),
            fair=fair,
            cache=self.cache.after(moved),
        )
        return PlacedRoutes(self._profile, self._problem, slot_of_executor, before)

    def routes(self, near: float = 1.0) -> Routes:
        """Return the routes if the given fraction of all shuffled tuples stays local, the rest going to all alike."""
        if near not in self._known:
            parts = None if near == 1 else np.full(len(self._profile.rate_tps), near)
            before = self._before.routes.pop(near, None) if self._before else None
            if before is None:
                self._known[near] = self._all.routes(parts)
            else:
                part, paths = self._elsewhere
                self._known[near] = self._with(before, part, paths.routes(parts))
        return self._known[near]

    def demand(self, routes: Routes, costs: Costs, corrections: Mapping[str, Correction]) -> TreeDemand:
        """Return the demand of trees along routes of this placement."""
        for known in self._demands:
            if known.is_of(routes, costs, corrections):
                return known.demand
        demand = self._changed(routes, costs, corrections)
        demand = demand or TreeDemand.of(self._profile, routes, self._problem, costs, corrections)
        self._demands.append(KnownDemand(routes, costs, corrections, demand))
        return demand

    def _changed(self, routes: Routes, costs: Costs, corrections: Mapping[str, Correction]) -> TreeDemand | None:
        """Return the demand derived from that of the routes that these are derived from, if it is known."""
        before = self._before.demands if self._before else ()
        for derived in self._derived:
            for known in (*self._demands, *before):
                if derived.routes is routes and known.is_of(derived.others, costs, corrections):
                    base = base_cores_of(self._profile, self.workers, costs)
                    own = TreeDemand.of(derived.part, derived.own, self._problem, costs, corrections, base)
                    return known.demand.with_part(derived.part.chosen, own, self.workers, base)
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
        known = self._claims.get(near)
        if known is not None and known.costs is costs and known.corrections is corrections:
            return known.claims
        before = self._before.claims.pop(near, None) if self._before else None
        if self._before and before and before.costs is costs and before.corrections is corrections:
            part, paths = self._elsewhere
            routes = paths.routes(np.full(len(self._profile.rate_tps), near))
            none = np.zeros(len(self.workers.nodes.cores))
            new = TreeDemand.of(part, routes, self._problem, costs, corrections, none).claims
            claims = self._with_old(new, before.claims, self._before)
        else:
            claims = TreeDemand.of(self._profile, self.routes(near), self._problem, costs, corrections).claims
        self._claims[near] = KnownClaims(costs, corrections, claims)
        return claims

    def _with_old(self, new: Claims, old: Claims, before: PreviousResults) -> Claims:
        """Return new claims of topologies that moved, and old claims of the others."""
        moved = before.moved
        shared = np.empty((3, len(self.workers.places.node)))
        at = moved[self.workers.places.topology]
        shared[:, at], shared[:, ~at] = new.shared, old.shared[:, ~moved[before.workers.places.topology]]
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
        before = self._before.varied.get(name) if self._before else None
        known, routes = (usual, self.routes()) if before is None else before
        chosen = np.bincount(topology, values != known, len(self._profile.rate_tps)) > 0
        if before is not None and self._before is not None:
            chosen |= self._before.moved
        if before is None and np.count_nonzero(chosen) > len(chosen) / 2:  # what is known of all serves
            routes = self._all.routes(values) if name == "near" else self._all.routes(None, values)
        elif chosen.any():
            part, paths = self.paths(chosen)
            new = paths.routes(values) if name == "near" else paths.routes(None, values[part.chosen.executors])
            routes = self._with(routes, part, new)
        self._variants[name] = values, routes
        return routes

    @cached_property
    def _all(self) -> Paths:
        return Paths(self._profile, self.workers)

    @cached_property
    def _elsewhere(self) -> tuple[ProfilePart, Paths]:
        """The part and paths of the topologies that moved."""
        moved = self._before.moved if self._before else np.ones(len(self._profile.rate_tps), dtype=bool)
        return self.paths(moved)
