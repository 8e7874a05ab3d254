"""Corrections by which tuples that come from unlike components take unlike long."""

from __future__ import annotations

import numpy as np

from stormwright.model import Problem
from stormwright.predict.costs import Correction, InputWork


def unlike_inputs(problem: Problem, seed: int) -> dict[str, Correction]:
    """For every component what tuples take by all components that send to it: from 1 µs to 10 µs."""
    rng, found = np.random.default_rng(seed), {}
    for topology, load in zip(problem.topologies, problem.loads, strict=True):
        of = topology.executor_component
        ends = {*zip(of[load.pair_source].tolist(), of[load.pair_target].tolist(), strict=True)}
        ends |= {*zip(of[load.flow_source].tolist(), load.flow_component.tolist(), strict=True)}
        names = [component.id for component in topology.components]
        inputs = {
            names[target]: tuple(
                InputWork(names[s], "default", float(rng.uniform(1, 10)), float(rng.uniform(0.1, 1)))
                for s, t in sorted(ends)
                if t == target
            )
            for target in {t for _, t in ends}
        }
        found[topology.id] = Correction(inputs=inputs)
    return found
