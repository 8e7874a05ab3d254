"""A load under a placement, and what of it is known from the placement before."""

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


class Fair(NamedTuple):
    """Rates of the executors of a topology's spouts, None for none; by costs, and by the CPU that there is for them."""

    costs: Costs
    corrections: Mapping[str, Correction]
    room: FloatArray
    rates: FloatArray | None = None

    def is_as(self, other: Fair) -> bool:
        """Whether it is known from the same."""
        same = self.costs is other.costs and self.corrections is other.corrections
        return same and np.array_equal(self.room, other.room)


class Claimed(NamedTuple):
    """What trees take where a part of shuffled tuples stays near, by costs and corrections."""

    costs: Costs
    corrections: Mapping[str, Correction]
    claims: Claims


class Derived(NamedTuple):
    """Routes that are as other ones but for some topologies, and what these have by themselves."""

    routes: Routes
    others: Routes
    part: ProfilePart
    own: Routes


class Demanded(NamedTuple):
    """The demand along routes, by costs and corrections."""

    routes: Routes
    costs: Costs
    corrections: Mapping[str, Correction]
    demand: TreeDemand

    def is_of(self, routes: Routes, costs: Costs, corrections: Mapping[str, Correction]) -> bool:
        """Whether it is the demand along these, by these."""
        return self.routes is routes and self.costs is costs and self.corrections is corrections


class Before(NamedTuple):
    """What is known from another placement.

    Workers; topologies that are elsewhere now, shape (T,); routes and claims by what stays near; routes at highest
    rates and what these were for; demands; fair rates; and what was found of times.
    """

    workers: SteadyWorkers
    moved: BoolArray
    routes: dict[float, Routes]
    claims: dict[float, Claimed]
    varied: dict[str, tuple[FloatArray, Routes]]
    demands: tuple[Demanded, ...]
    fair: dict[int, Fair]
    again: ResultCache


class Standing:
    """Where tuples go under a placement; only topologies that are elsewhere than before are worked out.

    Parameters
    ----------
    profile
        Of the load.
    problem
        Has the nodes; the executors are those of the profile.
    slot_of_executor
        Index into the problem's slots, -1 for none, shape (E,).
    before
        What is known from another placement.

    Attributes
    ----------
    fair
        What is known of topologies whose spouts have several executors; others may add to it.
    again
        What is known of times; as well.
    """

    def __init__(
        self, profile: Profile, problem: Problem, slot_of_executor: IntArray, before: Before | None = None
    ) -> None:
        self._profile, self._problem, self._before = profile, problem, before
        if before is None:
            self.workers = SteadyWorkers.of(problem, profile.layout, slot_of_executor)
        else:
            self.workers = before.workers.moved(problem, slot_of_executor, before.moved)
        self._known: dict[float, Routes] = {}
        self._claims: dict[float, Claimed] = {}
        self._variants: dict[str, tuple[FloatArray, Routes]] = {}
        self._derived: list[Derived] = []
        self._demands: list[Demanded] = []
        self.fair: dict[int, Fair] = before.fair if before else {}
        self.again = before.again if before else ResultCache()

    def moved(self, slot_of_executor: IntArray) -> Standing:
        """The same load under another placement, shape (E,)."""
        executor_topology = self._profile.layout.executor_topology
        elsewhere = self.workers.scopes.slot != slot_of_executor
        moved = np.bincount(executor_topology, elsewhere, len(self._profile.rate_tps)) > 0
        claims = self._claims.copy()
        fair = {topology: of for topology, of in self.fair.items() if not moved[topology]}
        before = Before(
            workers=self.workers,
            moved=moved,
            routes=self._known.copy(),
            claims=claims,
            varied=self._variants.copy(),
            demands=tuple(self._demands),
            fair=fair,
            again=self.again.after(moved),
        )
        return Standing(self._profile, self._problem, slot_of_executor, before)

    def routes(self, near: float = 1.0) -> Routes:
        """If such a part of all shuffled tuples stays as near as can be, the rest going to all alike."""
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
        """What trees take along routes of this placement."""
        for known in self._demands:
            if known.is_of(routes, costs, corrections):
                return known.demand
        demand = self._changed(routes, costs, corrections)
        demand = demand or TreeDemand.of(self._profile, routes, self._problem, costs, corrections)
        self._demands.append(Demanded(routes, costs, corrections, demand))
        return demand

    def _changed(self, routes: Routes, costs: Costs, corrections: Mapping[str, Correction]) -> TreeDemand | None:
        """The demand from that along the routes that these are derived from, if it is known."""
        before = self._before.demands if self._before else ()
        for derived in self._derived:
            for known in (*self._demands, *before):
                if derived.routes is routes and known.is_of(derived.others, costs, corrections):
                    base = base_cores_of(self._profile, self.workers, costs)
                    own = TreeDemand.of(derived.part, derived.own, self._problem, costs, corrections, base)
                    return known.demand.with_part(derived.part.chosen, own, self.workers, base)
        return None

    def _with(self, others: Routes, part: ProfilePart, own: Routes) -> Routes:
        """Routes as other ones but for some topologies."""
        routes = others.with_part(part.chosen, own, self.workers)
        self._derived.append(Derived(routes, others, part, own))
        return routes

    def claims(self, near: float, costs: Costs, corrections: Mapping[str, Correction]) -> Claims:
        """What trees take if such a part of all shuffled tuples stays near."""
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
        self._claims[near] = Claimed(costs, corrections, claims)
        return claims

    def _with_old(self, new: Claims, old: Claims, before: Before) -> Claims:
        """Claims of topologies that are elsewhere than before, and of the others as they were."""
        moved = before.moved
        shared = np.empty((3, len(self.workers.places.node)))
        at = moved[self.workers.places.topology]
        shared[:, at], shared[:, ~at] = new.shared, old.shared[:, ~moved[before.workers.places.topology]]
        return Claims(shared, np.where(moved, new.busiest_s, old.busiest_s))

    def paths(self, topologies: BoolArray) -> tuple[ProfilePart, Paths]:
        """Of some topologies by themselves, shape (T,)."""
        part = ProfilePart.of_topologies(self._profile, topologies)
        return part, Paths(part, self.workers.part(part.chosen.executors, topologies))

    def mixed(self, near: FloatArray) -> Routes:
        """If of each topology such a part of its shuffled tuples stays as near as can be, shape (T,)."""
        return self._varied("near", near, np.ones(len(near)), np.arange(len(near)))

    def begun(self, begins: FloatArray) -> Routes:
        """If executors begin other trees than as measured, shape (E,)."""
        return self._varied("begins", begins, self._profile.begins, self._profile.layout.executor_topology)

    def _varied(self, name: str, values: FloatArray, usual: FloatArray, topology: IntArray | IndexArray) -> Routes:
        """Routes if values are other than usual, from those that are known if fewer topologies differ from them."""
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
        """Topologies that were not there before."""
        moved = self._before.moved if self._before else np.ones(len(self._profile.rate_tps), dtype=bool)
        return self.paths(moved)
