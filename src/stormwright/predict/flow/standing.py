"""A load under a placement, and what of it is known from the placement before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IntArray
from stormwright.predict.flow.part import Part
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.routes import Paths, Routes
from stormwright.predict.workers import Nodes, Workers

#: Use of resources and waits for them by resource and executor of a spout, shape (R, S) each.
Limits = tuple[FloatArray, FloatArray]


class Before(NamedTuple):
    """What is known from another placement: nodes, topologies that are elsewhere now (T,), routes, and fair rates."""

    nodes: Nodes
    moved: BoolArray
    routes: dict[float, Routes]
    fair: dict[int, tuple[Limits, FloatArray]]


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
    """

    def __init__(
        self, profile: Profile, problem: Problem, slot_of_executor: IntArray, before: Before | None = None
    ) -> None:
        self._profile, self._problem, self._before = profile, problem, before
        self.workers = Workers.of(problem, profile.layout, slot_of_executor, before.nodes if before else None)
        self._known: dict[float, Routes] = {}
        self._fair = before.fair if before else {}

    def moved(self, slot_of_executor: IntArray) -> Standing:
        """The same load under another placement, shape (E,)."""
        executor_topology = self._profile.layout.executor_topology
        elsewhere = self.workers.scopes.slot != slot_of_executor
        moved = np.bincount(executor_topology, elsewhere, len(self._profile.rate_tps)) > 0
        before = Before(self.workers.nodes, moved, self._known.copy(), self._fair.copy())
        return Standing(self._profile, self._problem, slot_of_executor, before)

    def routes(self, near: float = 1.0) -> Routes:
        """If such a part of all shuffled tuples stays as near as can be, the rest going to all alike."""
        if near not in self._known:
            parts = None if near == 1 else np.full(len(self._profile.rate_tps), near)
            before = self._before.routes.pop(near, None) if self._before else None
            if before is None:
                self._known[near] = Paths(self._profile, self.workers).routes(parts)
            else:
                part, paths = self._elsewhere
                self._known[near] = before.with_part(part, paths.routes(parts), self.workers)
        return self._known[near]

    def paths(self, topologies: BoolArray) -> tuple[Part, Paths]:
        """Of some topologies by themselves, shape (T,)."""
        part = Part.of_topologies(self._profile, topologies)
        return part, Paths(part, self.workers.part(part.executors, topologies))

    def begun(self, begins: FloatArray) -> Routes:
        """If executors begin other trees than as measured, shape (E,)."""
        other = self._profile.begins != begins
        topologies = np.bincount(self._profile.layout.executor_topology, other, len(self._profile.rate_tps)) > 0
        part, paths = self.paths(topologies)
        return self.routes().with_part(part, paths.routes(None, begins[part.executors]), self.workers)

    def fair_of(
        self, limits: Mapping[int, Limits], fair: Callable[[Sequence[Limits]], list[FloatArray]]
    ) -> dict[int, FloatArray]:
        """Rates by what limits those of each topology; only of topologies where that is another than before."""
        new = [topology for topology, of in limits.items() if not self._is_known(topology, of)]
        for topology, rates in zip(new, fair([limits[topology] for topology in new]), strict=True):
            self._fair[topology] = limits[topology], rates
        return {topology: self._fair[topology][1] for topology in limits}

    def _is_known(self, topology: int, limits: Limits) -> bool:
        known = self._fair.get(topology)
        return known is not None and all(map(np.array_equal, known[0], limits))

    @cached_property
    def _elsewhere(self) -> tuple[Part, Paths]:
        """Topologies that were not there before."""
        moved = self._before.moved if self._before else np.ones(len(self._profile.rate_tps), dtype=bool)
        return self.paths(moved)
