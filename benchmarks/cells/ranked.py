"""Placements that were measured on a real cluster, as examples to learn from and to be scored on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from stormwright_lab.evaluations.learning.examples import Group

from benchmarks.cells.choices import product_costs, shown
from benchmarks.cells.chosen import TOPOLOGIES, Limit
from benchmarks.cells.measured import Measured
from stormwright.model import Problem
from stormwright.model.arrays import FloatArray, IntArray
from stormwright.schedulers.portfolio.evaluation import PlacementEvaluator
from stormwright.schedulers.portfolio.features import FeatureExtractor


@dataclass(frozen=True, eq=False)
class Ranked:
    """What was measured of one topology under one limit.

    Parameters
    ----------
    topology, limit
        Of what.
    problem
        As a service would know it after Even's placement ran.
    placements
        Name → slot of every executor, and trees/s at the speed that the machine had under Even's, by a fixed loop; the
        mean where it was started more than once.
    chosen
        Who chose → name of the placement, as ``storm/choices.py`` has noted it.
    """

    topology: str
    limit: Limit
    problem: Problem
    placements: dict[str, tuple[IntArray, float]]
    chosen: Mapping[str, str]

    @property
    def measured(self) -> FloatArray:
        """How far each is below the best, as a logarithm, shape (n,)."""
        tps = np.array([tps for _, tps in self.placements.values()])
        return np.log(tps.max() / tps)

    def as_group(self) -> Group:
        """As an example."""
        describing = FeatureExtractor(self.problem)
        features = [describing.features(slots) for slots, _ in self.placements.values()]
        return Group.of(f"{self.topology}, {self.limit}", self.topology, features, self.measured.tolist())

    def predicted(self) -> FloatArray:
        """How bad each is as predicted from what Even's placement showed, shape (n,)."""
        evaluator = PlacementEvaluator(self.problem, "throughput")
        return np.array([evaluator.badness(slots) for slots, _ in self.placements.values()])


def ranked(found: Sequence[Measured], noted: Path) -> Iterator[Ranked]:
    """All topologies and limits of which Even's placement and two others were measured, with as many trees as can be.

    Parameters
    ----------
    found
        All starts.
    noted
        File of choices.
    """
    choices: dict[tuple[str, Limit], dict[str, str]] = {}
    for one in json.loads(noted.read_text(encoding="utf-8")):
        choices.setdefault((one["topology"], Limit(**one["limit"])), {})[one["asked"]] = one["placement"]
    for even in found:
        if even.start.placement != "even" or even.start.repeat or even.start.topology not in TOPOLOGIES:
            continue
        costs = product_costs(even)
        own = [each for each in found if each.start.topology == even.start.topology]
        for limit in even.start.limits:
            rates: dict[str, list[float]] = {}
            slots: dict[str, IntArray] = {}
            problem = shown(even, limit, costs)
            for each in own:
                if limit in each.start.limits:
                    speed = each.at(limit).loop_ms / even.at(limit).loop_ms
                    rates.setdefault(each.start.placement, []).append(speed * each.at(limit).acked_tps)
                    slots.setdefault(each.start.placement, each.slots_in(problem))
            if len(slots) > 2:
                means = {name: float(np.mean(tps)) for name, tps in rates.items()}
                placements = {name: (slots[name], means[name]) for name in slots}
                chosen = choices.get((even.start.topology, limit), {})
                yield Ranked(even.start.topology, limit, problem, placements, chosen)
