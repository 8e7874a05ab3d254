"""The same problem told in another way, which has no influence: made once of each that many are tested with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from stormwright.model import LoadProfile, Problem, TopologyLoad
from stormwright.testing import strategies
from stormwright.testing.shared import MOST_SHARED


class Once:
    """What is made of a problem, kept as long as many may be tested with the same.

    Parameters
    ----------
    make
        Makes the same of the same problem and of what else it is given, which can be hashed.
    """

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self._made: dict[tuple[Any, ...], tuple[Problem, Any]] = {}

    def __call__(self, problem: Problem, *more: Any) -> Any:
        key = (id(problem), *more)
        if key not in self._made:
            if len(self._made) >= MOST_SHARED:
                self._made.clear()
            self._made[key] = problem, self._make(problem, *more)
        return self._made[key][1]


@Once
def renamed(problem: Problem, ids: bool) -> Problem:
    """Under other names, and with `ids` under other ids, too."""
    return strategies.renamed(problem, ids=ids)


@Once
def with_supervisors_turned(problem: Problem) -> Problem:
    """The last supervisor first."""
    return replace(problem, supervisors=problem.supervisors[::-1])


@Once
def with_topologies_turned(problem: Problem) -> Problem:
    """The last topology first."""
    return replace(problem, topologies=problem.topologies[::-1])


@Once
def with_pairs_shuffled(problem: Problem, seed: int) -> Problem:
    """Traffic pairs in another order, by the seed."""
    load_profile = problem.load
    assert load_profile is not None
    rng = np.random.default_rng(seed)

    def shuffled(load: TopologyLoad) -> TopologyLoad:
        order = rng.permutation(len(load.pair_tps))
        return replace(
            load,
            pair_source=load.pair_source[order],
            pair_target=load.pair_target[order],
            pair_tps=load.pair_tps[order],
        )

    return problem.with_load(LoadProfile({t: shuffled(load) for t, load in load_profile.topologies.items()}))
