"""A load under a placement, and what of it is known from the placement before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from stormwright.model import Problem
from stormwright.model.arrays import BoolArray, FloatArray, IntArray
from stormwright.predict.flow.profile import Profile
from stormwright.predict.flow.routes import Paths, Routes
from stormwright.predict.workers import Nodes, Workers

#: Use of resources and waits for them by resource and executor of a spout, shape (R, S) each.
Limits = tuple[FloatArray, FloatArray]


class Before(NamedTuple):
    """What is known from another placement: nodes, topologies that are elsewhere now (T,), routes, and fair rates."""

    nodes: Nodes
    moved: BoolArray
    routes: dict[object, Routes]
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
        self._known: dict[object, Routes] = {}
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
        return self._of(("near", near), None if near == 1 else np.full(len(self._profile.rate_tps), near), None)

    def alone(self, number: int, begins: FloatArray, topologies: BoolArray) -> Routes:
        """Of some topologies, shape (T,), if executors begin other trees than as measured, shape (E,).

        Both are the same for the same `number` always.
        """
        return self._of(("alone", number), None, begins, topologies)

    def begun(self, begins: FloatArray) -> Routes:
        """If executors begin other trees than as measured, shape (E,)."""
        return self._all.routes(None, begins)

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

    def _of(
        self, name: object, near: FloatArray | None, begins: FloatArray | None, topologies: BoolArray | None = None
    ) -> Routes:
        if name not in self._known:
            before = self._before.routes.pop(name, None) if self._before else None
            if before is None or self._before is None:
                paths = self._all if topologies is None else self._paths(topologies)
                self._known[name] = paths.routes(near, begins)
            else:
                moved = self._before.moved
                paths = self._some if topologies is None else self._paths(topologies & moved)
                self._known[name] = before.mixed(paths.routes(near, begins), moved, self._profile)
        return self._known[name]

    @cached_property
    def _all(self) -> Paths:
        return Paths(self._profile, self.workers)

    @cached_property
    def _some(self) -> Paths:
        return self._all if self._before is None else self._paths(self._before.moved)

    def _paths(self, topologies: BoolArray) -> Paths:
        return Paths(self._profile, self.workers, topologies[self._profile.layout.executor_topology])
